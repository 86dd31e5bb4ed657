import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gmts.files import new_folder
from gmts.models.build_tokenizer import build_tokenizer
from gmts.models.card import read_model_card
from gmts.models.folder import (
    check_folder,
    end_token_ids,
    load_model,
    load_tokenizer,
    save_model,
)
from gmts.models.identity import weights_sha256
from gmts.models.initial import InitialModel, read_initial, write_initial
from gmts.models.template import PromptTemplate
from tests.support.policies import policy

MESSAGES = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "2 + 2?"}]
WITH_BOS = "{{ bos_token }}{% for m in messages %}{{ m['content'] }};{% endfor %}"


@pytest.fixture
def tokenizer():
    return build_tokenizer(["What is 2 + 2? 12=3 5-5 \\boxed{}\n", "Be short."], 128)


@pytest.fixture
def folder(tmp_path, tokenizer):
    model = policy("qwen2", torch.float32, vocabulary=len(tokenizer))
    template = PromptTemplate.of(tokenizer, "tokenizer")
    with new_folder(tmp_path / "model") as target:
        save_model(target, model, tokenizer, template, {"step": 3})
    return tmp_path / "model"


def adding_bos(tokenizer):
    from tokenizers.processors import TemplateProcessing

    tokenizer.add_special_tokens({"bos_token": "<bos>"})
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", tokenizer.bos_token_id)]
    )
    return tokenizer


def test_digits_and_operators_are_tokens_of_their_own(tokenizer):
    assert tokenizer.tokenize("12+3=15") == ["1", "2", "+", "3", "=", "1", "5"]
    assert tokenizer.decode(tokenizer("3-5=-2\n\\boxed{-2}")["input_ids"]) == "3-5=-2\n\\boxed{-2}"


def test_the_same_texts_give_the_same_tokenizer(tmp_path):
    for name in ("a", "b"):
        build_tokenizer(["some text", "12 + 3"], 64).save_pretrained(tmp_path / name)
    first, second = ((tmp_path / n / "tokenizer.json").read_bytes() for n in ("a", "b"))
    assert first == second


def test_a_tokenizer_without_chat_template_is_refused_with_the_cure(tokenizer):
    tokenizer.chat_template = None
    with pytest.raises(
        ValueError, match=r"model\.template must be plain .* set model\.template: plain"
    ):
        PromptTemplate.of(tokenizer, "tokenizer")
    plain = PromptTemplate.of(tokenizer, "plain")
    assert plain.render(MESSAGES) == "Be short.2 + 2?"


@pytest.mark.parametrize("kind", ["tokenizer", "plain"])
@pytest.mark.parametrize("chat_template", [WITH_BOS, WITH_BOS.removeprefix("{{ bos_token }}")])
def test_a_prompt_has_exactly_one_bos(tokenizer, kind, chat_template):
    tokenizer = adding_bos(tokenizer)
    tokenizer.chat_template = chat_template
    template = PromptTemplate.of(tokenizer, kind)
    ids = template.encode(MESSAGES)
    assert ids[0] == tokenizer.bos_token_id
    assert ids.count(tokenizer.bos_token_id) == 1
    assert template.encode_text(template.render(MESSAGES)) == ids


def test_the_template_hash_follows_what_changes_prompts(tokenizer, tmp_path):
    first = PromptTemplate.of(tokenizer, "tokenizer").sha256
    tokenizer.save_pretrained(tmp_path)
    assert PromptTemplate.of(load_tokenizer(tmp_path), "tokenizer").sha256 == first
    assert PromptTemplate.of(tokenizer, "plain").sha256 != first
    tokenizer.chat_template += " "
    assert PromptTemplate.of(tokenizer, "tokenizer").sha256 != first


def test_a_saved_model_is_loaded_as_it_was_and_describes_itself(folder, tokenizer):
    model = load_model(folder, "float32", "cpu")
    ids = torch.tensor([tokenizer("2 + 2")["input_ids"]])
    expected = policy("qwen2", torch.float32, vocabulary=len(tokenizer))
    torch.testing.assert_close(model(ids).logits, expected(ids).logits, rtol=0, atol=0)
    card = read_model_card(folder)
    assert card["extra"] == {"step": 3}
    assert card["weights_sha256"] == weights_sha256(folder)
    assert card["template_kind"] == "tokenizer"
    assert (folder / "model.safetensors").stat().st_mode & 0o777 == 0o644
    assert tokenizer.eos_token_id in end_token_ids(model, tokenizer)


def test_other_weights_have_another_hash(folder, tokenizer):
    before = weights_sha256(folder)
    other = policy("qwen2", torch.float32, seed=1, vocabulary=len(tokenizer))
    other.save_pretrained(folder)
    assert weights_sha256(folder) != before


def test_a_missing_folder_is_refused_at_once_and_without_a_hub():
    start = time.monotonic()
    with pytest.raises(ValueError, match=r"nowhere/model.*never asks a hub"):
        load_model(Path("nowhere/model"), "float32", "cpu")
    assert time.monotonic() - start < 5


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (["config.json"], "must hold config.json"),
        (["tokenizer.json", "tokenizer_config.json"], "must hold a tokenizer"),
        (["model.safetensors"], "must hold its weights as safetensors"),
    ],
)
def test_an_incomplete_folder_is_named_with_what_it_lacks(folder, missing, message):
    for name in missing:
        (folder / name).unlink()
    with pytest.raises(ValueError, match=message):
        check_folder(folder)


def test_an_unknown_architecture_is_refused(folder):
    (folder / "config.json").write_text(json.dumps({"model_type": "nothing"}))
    with pytest.raises(ValueError, match="model_type must be a causal language model"):
        load_model(folder, "float32", "cpu")


@pytest.mark.parametrize("version", [0, 3, None])
def test_another_schema_version_is_refused(folder, tmp_path, version):
    card = json.loads((folder / "gmts.json").read_text())
    (folder / "gmts.json").write_text(json.dumps(card | {"schema_version": version}))
    with pytest.raises(ValueError, match=r"gmts\.json: schema_version must be 1"):
        read_model_card(folder)
    initial = InitialModel(path=Path(), weights_sha256="w", settings_sha256="s",
                           template_kind="plain", template_sha256="t", built=True)  # fmt: skip
    write_initial(tmp_path, initial)
    assert read_initial(tmp_path) == replace(initial, path=tmp_path)
    tree = json.loads((tmp_path / "initial.json").read_text())
    (tmp_path / "initial.json").write_text(json.dumps(tree | {"schema_version": version}))
    with pytest.raises(ValueError, match=r"initial\.json: schema_version must be 2"):
        read_initial(tmp_path)
