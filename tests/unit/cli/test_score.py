import json
import subprocess
import sys

import pytest


def score(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "gmts.cli", "score", "--workers", "1", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def write(path, *rows):
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def row(identifier, response, ground_truth, **more):
    return {"id": identifier, "response": response, "ground_truth": ground_truth} | more


def test_every_row_gets_a_line_in_order(tmp_path):
    file = write(
        tmp_path / "rows.jsonl",
        row("a", r"\boxed{\frac12}", "0.5"),
        "",
        row(7, "no idea", "0.5"),
        row("c", r"\boxed{1.01}", "1", rel_tol=0.02),
        row("d", r"\boxed{1.01}", "1", meta={"rel_tol": 0.001}),
        row("e", r"\boxed{9^{9^{9}}}", "1"),
    )
    done = score("--kind", "math", file)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["id"], line["correct"], line["reason"], line["extracted"]) for line in lines] == [
        ("a", True, "right", r"\frac12"),
        (7, False, "no answer", None),
        ("c", True, "right", "1.01"),
        ("d", False, "wrong", "1.01"),
        ("e", False, "too large", "9^{9^{9}}"),
    ]
    assert all(0 <= line["seconds"] < 8 for line in lines)


def test_choices_are_judged_by_their_texts(tmp_path):
    choices = {"A": "pizza", "B": "bank"}
    file = write(tmp_path / "rows.jsonl", row("a", r"\boxed{Bank}", "B", choices=choices))
    done = score("--kind", "choice", file)
    assert json.loads(done.stdout)["correct"] is True


@pytest.mark.parametrize(
    ("kind", "rows", "messages"),
    [
        (
            "math",
            ["{", "[1]", row("a", 5, "5"), row("b", "5", " "), row("c", "5", "5", meta=[1])],
            [
                ":1 is not valid JSON",
                ":2 must be an object, got [1]",
                ":3 must have the text response, got 5",
                ":4 ground_truth must be non-empty text, got ' '",
                ":5 meta must be an object, got [1]",
            ],
        ),
        ("math", [row("a", "5", "5", rel_tol=2)], ["rel_tol must be a number in [0, 1), got 2"]),
        (
            "choice",
            [row("a", "A", "A"), row("b", "A", "C", choices={"A": "x", "B": "y"})],
            ["must be one of A, B, got 'C'", ":2)"],
        ),
        ("math", [], ["must hold at least one row"]),
    ],
)
def test_bad_rows_are_named_with_file_and_line_and_nothing_is_written(
    tmp_path, kind, rows, messages
):
    file = write(tmp_path / "rows.jsonl", *rows)
    done = score("--kind", kind, file)
    assert (done.returncode, done.stdout) == (2, "")
    assert str(file) in done.stderr
    assert "Traceback" not in done.stderr
    for message in messages:
        assert message in done.stderr


def test_a_file_that_is_not_there_is_named(tmp_path):
    done = score("--kind", "math", tmp_path / "nowhere.jsonl")
    assert done.returncode == 2
    assert "nowhere.jsonl" in done.stderr
