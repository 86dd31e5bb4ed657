import json

import pytest

from gmts.stages.external import changed_files
from gmts.stages.prepare import prepare
from gmts.stages.workspace import Workspace
from tests.support.sections import small_params


@pytest.fixture
def clone(tmp_path):
    for name, count in (("train", 20), ("test", 8), ("bench", 3)):
        lines = [json.dumps({"question": f"{name} {i}", "answer": str(i)}) for i in range(count)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    settings = small_params(
        data__source="local",
        data__files={"train": "train.jsonl", "validation": None, "test": "test.jsonl"},
        data__decontaminate=["bench=bench.jsonl"],
        data__max_prompt_tokens=1000,
    )
    prepare(settings, Workspace(tmp_path))
    return tmp_path


def test_nothing_has_changed_before_and_right_after_prepare(clone, tmp_path_factory):
    assert changed_files(tmp_path_factory.mktemp("empty")) == []
    assert changed_files(clone) == []


@pytest.mark.parametrize("name", ["train.jsonl", "test.jsonl", "bench.jsonl"])
def test_a_changed_file_and_one_that_is_gone_are_named(clone, name):
    before = (clone / name).read_bytes()
    (clone / name).write_bytes(before + b"\n")
    assert changed_files(clone) == [name]
    (clone / name).unlink()
    assert changed_files(clone) == [name]
    (clone / name).write_bytes(before)
    assert changed_files(clone) == []
