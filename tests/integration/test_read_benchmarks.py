"""Every row of each benchmark becomes a question with the answer that its release states."""

import pytest

from gmts.evaluation.benchmarks import SYSTEM_PROMPT, read_rows_of
from gmts.evaluation.config import BenchmarkConfig
from tests.support.shared import shared_file


def config(path, **changes):
    names = ("repo", "revision", "files", "rows", "sha256", "custom")
    fields = dict.fromkeys(names) | {"greedy": False}
    return BenchmarkConfig(**(fields | {"path": str(path)} | changes))


@pytest.mark.parametrize(
    ("name", "file", "rows", "kind", "first"),
    [
        ("aime24", "aime24/test.jsonl", 30, "math", "204"),
        ("aime25", "aime25/aime25.jsonl", 30, "math", "70"),
        ("amc23", "amc23/test.jsonl", 40, "math", "27"),
        ("math500", "math500/test.jsonl", 500, "math", r"\left( 3, \frac{\pi}{2} \right)"),
        ("minerva", "minerva_math/test.jsonl", 272, "math", "1.6"),
        ("olympiadbench", "olympiadbench/test.jsonl", 675, "math", None),
        ("csqa", "csqa/dev_rand_split.jsonl", 1221, "choice", "A"),
        ("csqa2", "csqa2/CSQA2_dev.json.gz", 2541, "choice", "yes"),
    ],
)
def test_every_row_of_a_benchmark_is_read_once(tmp_path, name, file, rows, kind, first):
    path = shared_file(f"data/{file}")
    found = read_rows_of(name, config(path, rows=rows), tmp_path)
    assert len(found.rows) == rows
    assert first in (None, found.rows[0].ground_truth)
    assert {row.meta["kind"] for row in found.rows} == {kind}
    assert {row.messages[0]["content"] for row in found.rows} == {SYSTEM_PROMPT}
    assert all(row.ground_truth.strip() for row in found.rows)
    again = read_rows_of(name, config(path, sha256=found.rows_sha256), tmp_path)
    assert again.rows_sha256 == found.rows_sha256
    with pytest.raises(ValueError, match=rf"benchmarks\.{name}\.rows must be .* got {rows + 1}"):
        read_rows_of(name, config(path, rows=rows + 1), tmp_path)
    with pytest.raises(ValueError, match=rf"benchmarks\.{name}\.sha256 must be the hash"):
        read_rows_of(name, config(path, sha256="0" * 64), tmp_path)


def test_leading_zeros_and_floats_become_the_integers_they_are(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"problem": "one?", "answer": "025"}\n{"problem": "two?", "answer": 7.0}\n')
    found = read_rows_of("aime24", config(file), tmp_path)
    assert [row.ground_truth for row in found.rows] == ["25", "7"]


def test_a_file_that_repeats_questions_for_samples_is_refused(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"problem": "one?", "answer": "1"}\n' * 2)
    with pytest.raises(ValueError, match=r"rows\.jsonl:2 repeats .*rows\.jsonl:1"):
        read_rows_of("aime24", config(file), tmp_path)


def test_an_answer_that_is_none_is_named_with_file_and_line(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"question": "one?", "answer": "maybe"}\n')
    with pytest.raises(ValueError, match=r"rows\.jsonl:1: answer must be yes or no, got 'maybe'"):
        read_rows_of("csqa2", config(file), tmp_path)


def test_a_benchmark_without_a_known_repository_asks_for_one(tmp_path):
    given = BenchmarkConfig(
        path=None, repo=None, revision="a" * 40, files=None, rows=None, sha256=None, greedy=None,
        custom=None,
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"benchmarks\.mbpp\.repo must name a repository that has"):
        read_rows_of("mbpp", given, tmp_path)
