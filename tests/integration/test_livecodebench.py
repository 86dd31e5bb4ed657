"""LiveCodeBench through the whole benchmark stage, on rows made in its published format."""

import gzip
import os

import pytest

from gmts.evaluation.benchmarks import read_rows_of
from gmts.stages.rescore import rescore
from tests.support.contests import contest_row, packed
from tests.support.exams import asked_of_a_random_model, file_config, write_rows
from tests.support.scripted import fenced, run

SUMS = [("1 2\n", "3\n"), ("5 6\n", "11\n"), ("-1 1\n", "0\n")]
CALLS = [("[1, 2]\n3", "6"), ("[]\n0", "0")]
READS = "a, b = map(int, input().split())\nprint(a + b)\n"
# List and the others are imported by the benchmark itself; what is printed is dropped.
CALLED = "class Solution:\n    def total(self, a: List[int], b: int) -> int:\n        print('x')\n        return b + {}\n"  # noqa: E501


def test_problems_of_the_window_are_asked_and_judged(tmp_path, monkeypatch):
    (tmp_path / "lcb").mkdir()
    early = [contest_row(1, SUMS, contest_date="2024-06-30T23:59:59")]
    inside = [contest_row(2, SUMS, contest_date="2024-07-01T00:00:00"), contest_row(3, SUMS)]
    write_rows(tmp_path / "lcb" / "test3.jsonl", early + inside)
    functions = [contest_row(n, CALLS, func_name="total") for n in (4, 5)]
    functions[1]["contest_date"] = "2024-11-30T00:00:00"
    late = contest_row(6, SUMS, contest_date="2024-12-01T00:00:00")
    write_rows(tmp_path / "lcb" / "test5.jsonl", [*functions, late])
    write_rows(tmp_path / "lcb" / "test6.jsonl", [contest_row(7, SUMS)])  # of a later release
    script = [
        fenced(READS),
        fenced("print(3)\n"),
        fenced(CALLED.format("sum(a)")),
        fenced(CALLED.format("5")),
    ]
    result, folder, scores, questions = run(tmp_path, "livecodebench", "lcb", script, monkeypatch)
    verdicts = [q.verdicts[0] for q in questions]
    assert [q.row.ground_truth for q in questions] == [f"abc{n}_a" for n in (2, 3, 4, 5)]
    assert [(v.correct, v.reason) for v in verdicts] == [
        (True, "3 cases passed"),
        (False, "case 2 of 3: wrong output"),
        (True, "2 cases passed"),
        (False, "case 1 of 2: wrong output"),
    ]
    assert (scores["average"]["value"], scores["samples"]) == (0.5, 1)
    assert "pass_rates" not in scores
    assert result.values["average"] == 0.5
    asked = [q.row.messages[1]["content"] for q in questions]
    assert "reads standard input" in asked[0]
    assert "```python\nclass Solution:\n    def total(self" in asked[2]
    # The tests stay in the benchmark's files, and are needed there.
    stored = gzip.decompress((folder / "responses.jsonl.gz").read_bytes()).decode()
    assert "private_test_cases" not in stored
    assert functions[0]["private_test_cases"] not in stored
    assert rescore(folder, tmp_path, rewards=None).changes == []
    write_rows(tmp_path / "lcb" / "test5.jsonl", [late, *functions])
    with pytest.raises(ValueError, match=r"test5\.jsonl:1 must hold the tests of problem abc4_a"):
        rescore(folder, tmp_path, rewards=None)


def test_rows_are_the_same_wherever_their_files_lie(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_rows(tmp_path / name / "test5.jsonl", [contest_row(1, SUMS), contest_row(2, SUMS)])
    found = [
        read_rows_of("livecodebench", file_config(path), tmp_path)
        for path in ("one", "two/test5.jsonl")
    ]
    assert found[0].rows_sha256 == found[1].rows_sha256
    assert list(found[0].files) == ["one/test5.jsonl"]
    assert found[0].rows[1].meta["tests_at"] == f"{tmp_path / 'one' / 'test5.jsonl'}:2"
    (tmp_path / "none").mkdir()
    with pytest.raises(ValueError, match=r"path must have files like test\.jsonl, test\[2-5\]"):
        read_rows_of("livecodebench", file_config("none"), tmp_path)
    (tmp_path / "rows.parquet").write_bytes(b"")
    with pytest.raises(ValueError, match=r"must have JSON lines, named \.jsonl or"):
        read_rows_of("livecodebench", file_config("rows.parquet"), tmp_path)


class Evil:
    def __reduce__(self):
        return os.system, ("true",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"private_test_cases": packed(Evil())}, r"opcode STACK_GLOBAL \(posix\.system\) is refus"),
        ({"contest_date": "August"}, "contest_date must begin with YYYY-MM-DD, got 'August'"),
        ({"contest_date": None}, "contest_date must be non-empty text"),
        ({"question_content": " "}, "question_content must be non-empty text"),
    ],
)
def test_a_bad_row_is_named_with_file_and_line_before_anything_is_asked(tmp_path, changes, message):
    write_rows(tmp_path / "rows.jsonl", [contest_row(1, SUMS), contest_row(2, SUMS, **changes)])
    with pytest.raises(ValueError, match=rf"rows\.jsonl:2: .*{message}"):
        read_rows_of("livecodebench", file_config("rows.jsonl"), tmp_path)


@pytest.mark.slow
def test_the_limit_is_of_each_case_not_of_all(tmp_path, monkeypatch):
    write_rows(tmp_path / "rows.jsonl", [contest_row(1, SUMS), contest_row(2, SUMS)])
    script = [fenced(f"import time\ntime.sleep(3)\n{READS}"), fenced("while True: pass\n")]
    *_, questions = run(tmp_path, "livecodebench", "rows.jsonl", script, monkeypatch)
    assert [q.verdicts[0].reason for q in questions] == [
        "3 cases passed",  # in nine seconds
        "case 1 of 3: not done within 6 s, or too much output",
    ]


def test_a_random_model_is_scored_on_eight_rows_greedily(tmp_path):
    rows = [contest_row(n, SUMS) for n in range(5)]
    rows += [contest_row(n, CALLS, func_name="total") for n in range(5, 10)]
    write_rows(tmp_path / "rows.jsonl", rows)
    texts = [row["question_content"] for row in rows]
    result, scores, questions = asked_of_a_random_model(tmp_path, "livecodebench", texts, limit=8)
    assert (scores["questions"], scores["samples"], result.values["sampled"]) == (8, 1, 8)
    assert scores["data"]["rows"] == 10
    assert all(r.num_tokens <= 32 for q in questions for r in q.responses)
