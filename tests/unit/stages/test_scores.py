"""Lines of benchmark scores, from what the stages wrote."""

import json

import pytest

from gmts.stages.scores import benchmark_lines, describe_benchmarks
from gmts.stages.workspace import Workspace


def rate(value):
    return {"value": value, "low": value - 0.1, "high": value + 0.1}


def write(workspace, name, scores):
    for number, model in enumerate(("initial", "last", "best")):
        folder = workspace.benchmarks_dir / name / model
        folder.mkdir(parents=True)
        text = json.dumps({"questions": 5, "samples": 16} | scores(number / 10))
        (folder / "scores.json").write_text(text)


def test_a_text_benchmark_has_one_line_and_a_code_benchmark_one_per_rate(tmp_path):
    workspace = Workspace(tmp_path)
    write(workspace, "amc23", lambda add: {"average": rate(0.5 + add) | {"more": 1}})
    rates = {"base": 0.6, "plus": 0.4, "mean": 0.5}
    write(
        workspace,
        "mbpp",
        lambda add: {
            "average": rate(0.4 + add),
            "pass_rates": {name: rate(value + add) for name, value in rates.items()},
        },
    )
    lines = benchmark_lines(workspace, ["amc23", "mbpp"])
    assert [(line["benchmark"], line["measure"]) for line in lines] == [
        ("amc23", "average@16"), ("mbpp", "base"), ("mbpp", "plus"), ("mbpp", "mean"),
    ]  # fmt: skip
    assert lines[0]["last"] == rate(0.6)
    assert lines[2]["best"] == rate(0.4 + 0.2)
    assert lines[0]["questions"] == 5


def test_the_folder_is_there_without_a_benchmark_and_a_missing_score_is_named(tmp_path):
    workspace = Workspace(tmp_path)
    describe_benchmarks(workspace)
    assert (workspace.benchmarks_dir / "README.md").is_file()
    assert benchmark_lines(workspace, []) == []
    with pytest.raises(ValueError, match=r"amc23/initial/scores\.json"):
        benchmark_lines(workspace, ["amc23"])
