"""BigCodeBench through the whole benchmark stage, on rows made in its published format."""

import contextlib
import json
import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks.bigcodebench_gold import failing
from gmts.evaluation.benchmarks import read_rows_of
from gmts.rewards.code import bigcodebench
from gmts.rewards.code.bigcodebench import VARIABLE, judge_bigcodebench
from gmts.stages.rescore import rescore
from tests.support.bigcodebench import bigcodebench_row, install_checker
from tests.support.exams import asked_of_a_random_model, file_config, write_rows
from tests.support.scripted import fenced, run

LIMIT_S = 21.0
"""In place of 240: the least that the checker keeps, its limit for a solution without a time."""
ROW = bigcodebench_row(3)
RIGHT = "def task_func(x):\n    return x + 3\n"
# What the checker says of a program, and why.
PROGRAMS = {
    "right": (RIGHT, "pass"),
    "leaves imports out": ("def task_func(x):\n    return math.floor(x + 3)\n", "pass"),
    "prints": (f"print('Ran 2 tests OK')\n{RIGHT}", "pass"),
    "prints a verdict": ("print('Ran 2 tests OK')\n", "fail: test_case_1"),
    "wrong for one": ("def task_func(x):\n    return 4\n", "fail: test_case_2"),
    "wrong": ("def task_func(x):\n    return None\n", "fail: test_case_1"),
    "raises": ("def task_func(x):\n    raise KeyError(x)\n", "fail: test_case_1"),
    "raises at once": ("raise ValueError('no')\n", "fail before any test: no"),
    "no function": ("x = 1\n", "fail: test_case_1"),
    "leaves early": ("import sys\nsys.exit(0)\n", "fail before any test: 0"),
    "leaves in a call": ("import sys\ndef task_func(x): sys.exit(0)\n", "fail: test_case_1"),
    "is not Python": ("def task_func(x) return x\n", None),
    "endless": ("while True: pass\n", "timeout"),
    "endless in a call": ("def task_func(x):\n    while True: pass\n", "timeout"),
    "kills its process": ("import os\nos._exit(0)\n", "timeout"),
    # Known: programs and tests share a process.
    "patches unittest": (
        "import unittest\nunittest.TestCase.assertEqual = lambda *_: None\n"
        "def task_func(x): return None\n",
        "pass",
    ),
}  # fmt: skip
REACHES = "import os, pathlib, socket\ndef task_func(x):\n    {}\n    return x + 3\n"
DIRECT = """
import json, sys
import bigcodebench.eval as checker
checker.TIMEOUT_LIMIT = float(sys.argv[1])
found = []
for program, test, entry_point in json.load(sys.stdin):
    status, details = checker.untrusted_check(
        program, test, entry_point, 30 * 1024, 30 * 1024, 10, 1, 20
    )
    found.append([status, sorted(details)])
print(json.dumps(found))
"""


def checked_directly(python, requests, folder):
    """What the checker says in its environment; processes that it leaves behind are ended."""
    (folder / "requests").write_text(json.dumps(requests))
    with (folder / "requests").open() as given, (folder / "answers").open("w") as answers:
        process = subprocess.Popen(
            [python, "-I", "-c", DIRECT, str(LIMIT_S)],
            stdin=given,
            stdout=answers,
            cwd=folder,
            start_new_session=True,
        )
        try:
            assert process.wait(500) == 0
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return json.loads((folder / "answers").read_text().splitlines()[-1])


@pytest.fixture(scope="module")
def checker(repository, tmp_path_factory):
    return install_checker(repository, tmp_path_factory.mktemp("tool") / "venv")


@pytest.fixture
def installed(checker, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(checker))
    monkeypatch.setattr(bigcodebench, "TIMEOUT_S", LIMIT_S)
    return checker


@pytest.mark.parametrize("name", ["bigcodebench", "bigcodebench_hard"])
def test_a_row_asks_its_instruction_and_keeps_what_it_is_judged_by(tmp_path, name):
    write_rows(tmp_path / "rows.jsonl", [ROW])
    (row,) = read_rows_of(name, file_config("rows.jsonl"), tmp_path).rows
    question = row.messages[1]["content"]
    assert (
        "self-contained Python script that solves the following problem.\n\nAdd 3 to x." in question
    )
    assert "starting with:\n```\nimport math\ndef task_func(x):\n```" in question
    assert row.ground_truth == ROW["complete_prompt"] + "\n" + ROW["canonical_solution"]
    fields = ("task_id", "code_prompt", "test", "entry_point")
    assert row.meta == {"kind": "bigcodebench", "problem": {key: ROW[key] for key in fields}}


@pytest.mark.parametrize(
    "field", ["instruct_prompt", "complete_prompt", "canonical_solution", "code_prompt", "test"]
)
def test_a_row_without_a_field_is_named_with_file_and_line(tmp_path, field):
    write_rows(tmp_path / "rows.jsonl", [bigcodebench_row(1), ROW | {field: None}])
    with pytest.raises(ValueError, match=rf"rows\.jsonl:2: {field} must be non-empty text"):
        read_rows_of("bigcodebench", file_config("rows.jsonl"), tmp_path)


def test_without_its_environment_nothing_is_sampled(tmp_path, monkeypatch):
    write_rows(tmp_path / "rows.jsonl", [ROW])
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"own: `make install-bigcodebench`, .*bigcodebench/bin/p"):
        run(tmp_path, "bigcodebench", "rows.jsonl", [fenced(RIGHT)], monkeypatch)
    assert not (tmp_path / "work" / "eval-cache").exists()


def test_an_environment_without_the_checker_or_with_another_version_is_refused(
    tmp_path, monkeypatch
):
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    packages = tmp_path / "site-packages"
    answer = json.dumps(["/usr/bin/python3", "/usr", str(tmp_path), [str(packages)]])
    python.write_text(f"#!/bin/sh\necho '{answer}'\n")
    python.chmod(0o755)
    monkeypatch.setenv(VARIABLE, str(python))
    for version in (None, "0.2.4"):
        if version:
            info = packages / f"bigcodebench-{version}.dist-info"
            info.mkdir(parents=True)
            (info / "METADATA").write_text(f"Name: bigcodebench\nVersion: {version}\n")
        with pytest.raises(
            ValueError, match=rf"must have bigcodebench 0\.2\.5, got {version or 'no'}"
        ):
            bigcodebench.check_installed()


def test_an_answer_that_a_program_forged_is_no_error(tmp_path):
    for answer in ({}, {"status": "ok"}, {"status": ["pass"]}):
        assert bigcodebench._reason(answer) == "fail: it ended the checker"
    assert bigcodebench._reason({"status": "fail", "first": 7}) == "fail: 7"
    assert len(bigcodebench._reason({"status": "fail", "first": "x" * 1000})) < 250


@pytest.mark.slow
def test_verdicts_are_those_of_the_checker_called_directly(installed, tmp_path):
    programs = [program for program, _ in PROGRAMS.values()]
    requests = [
        (f"{ROW['code_prompt']}\n    pass\n{program}", ROW["test"], "task_func")
        for program in programs
    ]
    with ThreadPoolExecutor(4) as pool:  # most of the time is waiting for endless ones
        statuses = pool.submit(checked_directly, installed, requests, tmp_path)
        verdicts = pool.map(lambda program: judge_bigcodebench(program, {"problem": ROW}), programs)
        ours = dict(zip(PROGRAMS, verdicts, strict=True))
        direct = dict(zip(PROGRAMS, statuses.result(), strict=True))
    for name, verdict in ours.items():
        status, failed = direct[name]
        assert verdict.reason.split()[0].rstrip(":") == status, name
        assert verdict.correct == (status == "pass")
        if status == "fail":
            first = "before any test" if failed == ["ALL"] else f": {failed[0]}"
            assert first in verdict.reason
        if PROGRAMS[name][1] is not None:
            assert verdict.reason == PROGRAMS[name][1], name


@pytest.mark.slow
def test_a_program_reaches_nothing_outside_and_the_checker_only_to_fail(installed, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("x")
    place = Path(os.path.realpath(installed)).parents[1]
    for action, reason in {
        f"open({str(secret)!r}).read()": "fail: test_case_1",
        f"os.listdir({str(tmp_path)!r})": "fail: test_case_1",
        f"open({str(installed.parents[1] / 'forged')!r}, 'w')": "fail: test_case_1",
        f"open({str(place / 'forged')!r}, 'w')": "fail: test_case_1",
        "socket.create_connection(('192.0.2.1', 80), 2)": "fail: test_case_1",
        "socket.gethostbyname('example.org')": "fail: test_case_1",
        "__import__('ctypes').CDLL(None).kill(os.getppid(), 9)": "fail: it ended the checker",
        "pathlib.Path('kept').write_text('x')": "pass",
        "pathlib.Path.home().joinpath('kept').write_text('x')": "pass",
        "__import__('subprocess').run(['python', '-c', 'import numpy'], check=True)": "pass",
    }.items():
        verdict = judge_bigcodebench(REACHES.format(action), {"problem": ROW})
        assert verdict.reason == reason, action
    assert secret.read_text() == "x"
    assert not (installed.parents[1] / "forged").exists()


@pytest.mark.slow
def test_scripted_responses_are_scored_stored_and_judged_again(installed, tmp_path, monkeypatch):
    write_rows(tmp_path / "rows.jsonl", [bigcodebench_row(n) for n in (3, 4, 5)])
    script = [fenced(RIGHT), fenced(RIGHT), "It is x plus five."]
    result, folder, scores, questions = run(
        tmp_path, "bigcodebench_hard", "rows.jsonl", script, monkeypatch
    )
    assert [q.verdicts[0].reason for q in questions][:2] == ["pass", "fail: test_case_1"]
    assert questions[2].verdicts[0].reason.startswith("no closed block")
    assert scores["average"]["value"] == scores["pass_at"]["1"]["value"] == 1 / 3
    assert (scores["samples"], scores["no_answer"]) == (1, 1 / 3)
    assert "pass_rates" not in scores
    assert result.values["average"] == 1 / 3
    assert rescore(folder, tmp_path, rewards=None).changes == []


@pytest.mark.slow
def test_canonical_solutions_that_fail_are_listed(installed, tmp_path):
    rows = [bigcodebench_row(1), bigcodebench_row(2, canonical_solution="    return None")]
    write_rows(tmp_path / "rows.jsonl", rows)
    assert failing(tmp_path / "rows.jsonl", workers=2) == (
        2, [("BigCodeBench/2", "fail: test_case_1")],
    )  # fmt: skip


@pytest.mark.slow
def test_a_random_model_is_scored_greedily(installed, tmp_path):
    rows = [bigcodebench_row(n) for n in range(3)]
    write_rows(tmp_path / "rows.jsonl", rows)
    texts = [row["instruct_prompt"] for row in rows]
    result, scores, _ = asked_of_a_random_model(tmp_path, "bigcodebench", texts, limit=2)
    assert (scores["questions"], scores["samples"], result.values["sampled"]) == (2, 1, 2)
    assert scores["data"]["rows"] == 3
