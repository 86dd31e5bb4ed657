"""HumanEval+ and MBPP+ through the whole benchmark stage, with responses that are written down."""

import gzip
import json

import pytest

from gmts.evaluation.results import read_results
from gmts.rewards.code.evalplus import read_problems
from gmts.rewards.sandbox.isolation import IsolationError, check_isolation
from gmts.stages.benchmark import benchmark
from gmts.stages.rescore import rescore
from tests.support.exams import entry, exam_params, text_workspace
from tests.support.scripted import fenced, run
from tests.support.shared import shared_file

pytest.importorskip("evalplus")

FILES = {
    "humaneval": ("humanevalplus/HumanEvalPlus.jsonl.gz", 164),
    "mbpp": ("mbppplus/MbppPlus.jsonl.gz", 378),
}
RIGHT = "def {name}(x):\n    return {factor} * x\n"
BASE_ONLY = "def {name}(x):\n    return {factor} * x if x > 0 else None\n"
WRONG = "def {name}(x):\n    return {factor} + x\n"


def own_problems(folder, count=4):
    """Write problems like evalplus's: multiply a number; plus inputs are below 1."""
    problems = [
        {
            "task_id": f"HumanEval/{900 + number}",
            "prompt": f'def times{number}(x):\n    """Return {number + 5} times x."""\n',
            "entry_point": f"times{number}",
            "canonical_solution": f"    return {number + 5} * x\n",
            "base_input": [[1], [3]],
            "plus_input": [[0], [-2]],
            "atol": 0,
            "test": "not kept",
        }
        for number in range(count)
    ]
    (folder / "own.jsonl").write_text("\n".join(map(json.dumps, problems)), encoding="utf-8")
    return problems


def written(number, text):
    return fenced(text.format(name=f"times{number}", factor=number + 5))


def test_base_and_plus_rates_and_their_mean_are_those_computed_by_hand(tmp_path, monkeypatch):
    own_problems(tmp_path)
    script = [written(0, RIGHT), written(1, BASE_ONLY), written(2, WRONG), "It is x times 8."]
    result, folder, scores, questions = run(
        tmp_path, "humaneval", "own.jsonl", script, monkeypatch, cut=(3,)
    )
    rates = {name: rate["value"] for name, rate in scores["pass_rates"].items()}
    assert rates == {"base": 2 / 4, "plus": 1 / 4, "mean": (1 + 1 / 2 + 0 + 0) / 4}
    assert all(
        rate["low"] <= rate["value"] <= rate["high"] for rate in scores["pass_rates"].values()
    )
    assert (scores["samples"], list(scores["pass_at"])) == (1, ["1"])
    assert scores["average"]["value"] == scores["pass_at"]["1"]["value"] == 1 / 4
    assert scores["no_answer"] == scores["truncated"] == 1 / 4
    assert result.values["pass_rate_mean"] == 3 / 8
    lines = gzip.decompress((folder / "responses.jsonl.gz").read_bytes()).splitlines()
    stored = [json.loads(line)["responses"][0] for line in lines]
    assert [response["text"] for response in stored] == script
    assert [response["statuses"] for response in stored] == [
        {"base": "pass", "plus": "pass"},
        {"base": "pass", "plus": "fail"},
        {"base": "fail", "plus": "fail"},
        {"base": "fail", "plus": "fail"},
    ]
    assert stored[1]["reason"] == "base pass, plus fail"
    assert stored[3]["reason"].startswith("no closed block")
    assert "test" not in questions[0].row.meta["problem"]


def test_stored_programs_are_judged_again(tmp_path, monkeypatch):
    own_problems(tmp_path, 2)
    script = [written(0, RIGHT), written(1, BASE_ONLY)]
    _, folder, scores, _ = run(tmp_path, "humaneval", "own.jsonl", script, monkeypatch)
    again = rescore(folder, tmp_path, rewards=None)
    assert again.changes == []
    assert again.after["pass_rates"] == scores["pass_rates"]
    by_hand = {name: rate["value"] for name, rate in again.after["pass_rates"].items()}
    assert by_hand == {"base": 1.0, "plus": 0.5, "mean": 0.75}


def test_a_program_that_ends_its_judge_has_failed(tmp_path, monkeypatch):
    own_problems(tmp_path, 1)
    kill = (
        "import ctypes\nlibc = ctypes.CDLL(None)\n"
        "def times0(x):\n    libc.kill(libc.getppid(), 9)\n    return 5 * x\n"
    )
    *_, scores, questions = run(tmp_path, "humaneval", "own.jsonl", [fenced(kill)], monkeypatch)
    assert scores["pass_rates"]["base"]["value"] == 0.0
    assert questions[0].verdicts[0].statuses == {"base": "fail", "plus": "fail"}


def test_without_bubblewrap_nothing_is_sampled(tmp_path, monkeypatch):
    own_problems(tmp_path, 1)
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    check_isolation.cache_clear()
    try:
        with pytest.raises(IsolationError, match="apt-get install bubblewrap"):
            run(tmp_path, "humaneval", "own.jsonl", [written(0, RIGHT)], monkeypatch)
    finally:
        check_isolation.cache_clear()
    assert not (tmp_path / "work" / "eval-cache").exists()
    assert not list(tmp_path.rglob("scores.json"))


def test_without_evalplus_nothing_is_sampled(tmp_path, monkeypatch):
    own_problems(tmp_path, 1)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'gmts\[code\]'"):
        run(tmp_path, "humaneval", "own.jsonl", [written(0, RIGHT)], monkeypatch)
    assert not (tmp_path / "work" / "eval-cache").exists()


def test_rows_that_are_not_of_evalplus_are_named_with_file_and_line(tmp_path, monkeypatch):
    row = own_problems(tmp_path, 1)[0]
    del row["plus_input"]
    (tmp_path / "own.jsonl").write_text(json.dumps(row), encoding="utf-8")
    with pytest.raises(ValueError, match=r"own\.jsonl:1: .* got none of plus_input: use its"):
        run(tmp_path, "humaneval", "own.jsonl", [written(0, RIGHT)], monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(FILES))
def test_canonical_solutions_pass_base_and_plus_and_a_wrong_one_fails(tmp_path, monkeypatch, name):
    file, rows = FILES[name]
    path = shared_file(f"data/{file}")
    problems = list(read_problems(path).values())
    assert len(problems) == rows
    chosen = problems[:5]
    script = [fenced(p["prompt"] + p["canonical_solution"]) for p in chosen]
    script[4] = fenced(f"def {chosen[4]['entry_point']}(*args):\n    return 'wrong'\n")
    settings = {"evaluate__question_limit": 5}
    *_, scores, questions = run(tmp_path, name, path, script, monkeypatch, **settings)
    assert scores["data"]["rows"] == rows
    correct = [q.verdicts[0].statuses for q in questions]
    assert correct == [{"base": "pass", "plus": "pass"}] * 4 + [{"base": "fail", "plus": "fail"}]
    assert {name: rate["value"] for name, rate in scores["pass_rates"].items()} == {
        "base": 0.8, "plus": 0.8, "mean": 0.8,
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", list(FILES))
def test_a_random_model_is_scored_on_eight_rows_greedily(tmp_path, name):
    path = shared_file(f"data/{FILES[name][0]}")
    texts = [p["prompt"] for p in list(read_problems(path).values())[:8]]
    workspace = text_workspace(tmp_path, texts)
    params = exam_params(
        {name: entry(str(path), greedy=None, custom=None)},
        evaluate__max_response_tokens=32,
        evaluate__question_limit=8,
    )
    result = benchmark(params, workspace, name, "initial")
    scores, questions = read_results(workspace.benchmarks_dir / name / "initial")
    assert (scores["questions"], scores["samples"], result.values["sampled"]) == (8, 1, 8)
    assert set(scores["pass_rates"]) == {"base", "plus", "mean"}
    assert all(r.num_tokens <= 32 for q in questions for r in q.responses)
