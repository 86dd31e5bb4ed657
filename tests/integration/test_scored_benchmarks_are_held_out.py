"""What a benchmark of params.yaml asks is not trained on, whether or not it is listed twice."""

import json

import pytest

from gmts.config import ConfigError
from gmts.stages.external import changed_inputs
from gmts.stages.prepare import prepare
from gmts.stages.workspace import Workspace
from tests.support.exams import entry
from tests.support.sections import small_params

LEAKED = "Find the least whole number of coins that three friends can share in equal parts, and {}"


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def own_files(tmp_path):
    leaked = [LEAKED.format(f"what is left of {number} of them.") for number in (71, 72)]
    others = [f"What is {a} + {b}?" for a in range(6) for b in range(6)]
    rows = [{"question": text, "answer": "1"} for text in [*leaked, *others]]
    write(tmp_path / "train.jsonl", rows)
    write(tmp_path / "test.jsonl", [{"question": f"{i} - 1?", "answer": "1"} for i in range(6)])
    write(tmp_path / "amc.jsonl", [{"problem": text, "answer": 1.0} for text in leaked])
    return tmp_path


def settings(**changes):
    files = {"train": "train.jsonl", "validation": None, "test": "test.jsonl"}
    return small_params(
        data__source="local",
        data__files=files,
        data__train_rows=20,
        benchmarks=BENCHMARKS,
        **changes,
    )


BENCHMARKS = {"amc23": entry("amc.jsonl")}


def test_its_questions_are_removed_counted_and_listed_and_a_changed_file_is_noticed(own_files):
    workspace = Workspace(own_files)
    result = prepare(settings(), workspace)
    assert result.values["train files: near benchmarks"] == 2
    manifest = json.loads((workspace.prepared_dir / "manifest.json").read_text())
    assert set(manifest["benchmarks"]["amc23"]["files"]) == {"amc.jsonl"}
    listed = json.loads((workspace.prepared_dir / "contamination.json").read_text())
    assert listed["benchmarks"]["train"]["amc23"]["near_questions"] == 2
    assert "coins" not in (workspace.prepared_dir / "train.parquet").read_bytes().decode("latin-1")
    assert changed_inputs(own_files, "prepare") == []
    write(own_files / "amc.jsonl", [{"problem": "Another?", "answer": 1.0}])
    assert changed_inputs(own_files, "prepare") == ["amc.jsonl"]


def test_naming_it_once_more_is_refused(own_files):
    with pytest.raises(ConfigError, match=r"data\.decontaminate must list other names .* amc23"):
        settings(data__decontaminate=["amc23=amc.jsonl"])
