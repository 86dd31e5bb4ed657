import json

import pytest
import torch

from gmts.files import new_folder
from gmts.models.build_tokenizer import build_tokenizer
from gmts.models.folder import save_model
from gmts.models.template import PromptTemplate
from gmts.stages.external import changed_inputs
from gmts.stages.prepare import prepare
from gmts.stages.warmstart import warmstart
from gmts.stages.workspace import Workspace
from tests.support.policies import policy
from tests.support.sections import small_params

TEMPLATE = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"


def local_params(**changes):
    return small_params(
        data__source="local",
        data__files={"train": "train.jsonl", "validation": None, "test": "test.jsonl"},
        data__decontaminate=["bench=bench.jsonl"],
        data__max_prompt_tokens=1000,
        **changes,
    )


@pytest.fixture
def clone(tmp_path):
    for name, count in (("train", 20), ("test", 8), ("bench", 3)):
        lines = [json.dumps({"question": f"{name} {i}", "answer": str(i)}) for i in range(count)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    prepare(local_params(), Workspace(tmp_path))
    return tmp_path


def test_nothing_has_changed_before_and_right_after_prepare(clone, tmp_path_factory):
    empty = tmp_path_factory.mktemp("empty")
    assert changed_inputs(empty, "prepare") == changed_inputs(empty, "warmstart") == []
    assert changed_inputs(clone, "prepare") == []


@pytest.mark.parametrize("name", ["train.jsonl", "test.jsonl", "bench.jsonl"])
def test_a_changed_file_and_one_that_is_gone_are_named(clone, name):
    before = (clone / name).read_bytes()
    (clone / name).write_bytes(before + b"\n")
    assert changed_inputs(clone, "prepare") == [name]
    (clone / name).unlink()
    assert changed_inputs(clone, "prepare") == [name]
    (clone / name).write_bytes(before)
    assert changed_inputs(clone, "prepare") == []


@pytest.fixture
def with_model(clone):
    tokenizer = build_tokenizer(["train 0123456789"], 128)
    tokenizer.chat_template = TEMPLATE
    model = policy("gpt2", torch.float32, vocabulary=len(tokenizer))
    with new_folder(clone / "given") as folder:
        save_model(folder, model, tokenizer, PromptTemplate.of(tokenizer, "tokenizer"), {})
    settings = local_params(model__path="given")
    prepare(settings, Workspace(clone))
    warmstart(settings, Workspace(clone))
    return clone


def test_other_weights_under_the_same_path_are_named_for_the_warm_start_alone(with_model):
    assert changed_inputs(with_model, "prepare") == changed_inputs(with_model, "warmstart") == []
    weights = with_model / "given" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    assert changed_inputs(with_model, "prepare") == []
    assert changed_inputs(with_model, "warmstart") == ["given"]


@pytest.mark.parametrize("name", ["tokenizer.json", "chat_template.jinja", "another.json"])
def test_another_tokenizer_under_the_same_path_is_named_for_both_stages(with_model, name):
    file = with_model / "given" / name
    file.write_text(file.read_text() + "\n" if file.exists() else "{}")
    assert changed_inputs(with_model, "prepare") == ["given"]
    assert changed_inputs(with_model, "warmstart") == ["given"]


def test_a_model_that_is_gone_has_changed_and_words_about_it_have_not(with_model):
    (with_model / "given" / "README.md").write_text("words")
    assert changed_inputs(with_model, "prepare") == changed_inputs(with_model, "warmstart") == []
    (with_model / "given").rename(with_model / "moved")
    assert changed_inputs(with_model, "prepare") == ["given"]
    assert changed_inputs(with_model, "warmstart") == ["given"]


def test_a_record_of_another_version_means_that_the_warm_start_is_due(with_model):
    record = with_model / "models" / "initial" / "initial.json"
    record.write_text(record.read_text().replace('"schema_version": 2', '"schema_version": 1'))
    assert changed_inputs(with_model, "warmstart") == ["models/initial"]
