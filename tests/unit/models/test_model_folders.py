"""Model folders that people bring: refused early and by name, or loaded as they are."""

import json
import time

import pytest
import torch
from safetensors.torch import load_file, save_file

from gmts.files import new_folder
from gmts.models.build_tokenizer import build_tokenizer
from gmts.models.folder import check_folder, load_model, load_tokenizer, save_model
from gmts.models.initial import InitialModel, read_initial, write_initial
from gmts.models.template import PromptTemplate
from tests.support.policies import policy

MESSAGES = [{"role": "user", "content": "2 + 2?"}]


@pytest.fixture
def tokenizer():
    return build_tokenizer(["What is 2 + 2? 12=3 5-5 \\boxed{}\n"], 128)


@pytest.fixture
def folder(tmp_path, tokenizer):
    model = policy("qwen2", torch.float32, vocabulary=len(tokenizer))
    template = PromptTemplate.of(tokenizer, "tokenizer")
    with new_folder(tmp_path / "model") as target:
        save_model(target, model, tokenizer, template, {})
    return tmp_path / "model"


def shard(folder):
    """Split the weights into two files and an index, as large models come."""
    weights = load_file(folder / "model.safetensors")
    names = sorted(weights)
    half = len(names) // 2
    index = {}
    for number, part in enumerate((names[:half], names[half:]), 1):
        file = f"model-0000{number}-of-00002.safetensors"
        save_file({name: weights[name] for name in part}, folder / file, metadata={"format": "pt"})
        index |= dict.fromkeys(part, file)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": index})
    )


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "nothing"},
        {"model_type": "t5"},  # reads and writes with two stacks
        {"model_type": "vit"},
        {"architectures": ["Qwen2ForCausalLM"]},
        ["qwen2"],
    ],
)
def test_only_causal_language_models_pass(folder, config):
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"model/config\.json: model_type must be a causal"):
        check_folder(folder)


def test_code_in_a_model_folder_is_neither_run_nor_asked_about(folder, tmp_path, capsys):
    ran = tmp_path / "ran"
    (folder / "own.py").write_text(f"open({str(ran)!r}, 'w').close()\n")
    tree = json.loads((folder / "config.json").read_text())
    own = {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}
    (folder / "config.json").write_text(json.dumps(tree | {"auto_map": own}))
    load_model(folder, "float32", "cpu")  # qwen2 by its type: transformers' own class
    (folder / "config.json").write_text(json.dumps({"model_type": "own", "auto_map": own}))
    start = time.monotonic()
    with pytest.raises(ValueError, match="never run"):
        load_model(folder, "float32", "cpu")
    assert time.monotonic() - start < 5
    assert not ran.exists()
    assert "[y/N]" not in capsys.readouterr().out


def test_a_damaged_weight_file_is_named_before_anything_is_loaded(folder):
    file = folder / "model.safetensors"
    whole = file.read_bytes()
    for damaged in (whole[:-100], b"version https://git-lfs.github.com/spec/v1\n", b""):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"model\.safetensors must be a complete safetensors"):
            check_folder(folder)


def test_weights_in_several_files_are_loaded_and_a_missing_file_is_named(folder, tokenizer):
    ids = torch.tensor([tokenizer("2 + 2")["input_ids"]])
    expected = load_model(folder, "float32", "cpu")(ids).logits
    shard(folder)
    assert torch.equal(load_model(folder, "float32", "cpu")(ids).logits, expected)
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ValueError, match=r"model-00002-of-00002\.safetensors must exist"):
        check_folder(folder)
    (folder / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(ValueError, match=r"index\.json must hold weight_map"):
        check_folder(folder)


def test_an_adapter_alone_is_not_a_model(folder):
    (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")
    with pytest.raises(ValueError, match="must hold its weights as safetensors"):
        check_folder(folder)


def test_weights_that_are_missing_are_refused_instead_of_drawn_at_random(folder):
    file = folder / "model.safetensors"
    weights = load_file(file)
    second = [name for name in weights if ".layers.1." in name]
    kept = {name: value for name, value in weights.items() if name not in second}
    save_file(kept, file, metadata={"format": "pt"})
    with pytest.raises(
        ValueError, match=rf"lacks {len(second)} of them: model\.layers\.1\..*, \.\.\."
    ):
        load_model(folder, "float32", "cpu")


def test_weights_of_another_shape_are_refused_by_name(folder):
    tree = json.loads((folder / "config.json").read_text())
    tree["intermediate_size"] *= 2
    (folder / "config.json").write_text(json.dumps(tree))
    with pytest.raises(ValueError, match=r"has other shapes for 6 of them: model\.layers\.0\.mlp"):
        load_model(folder, "float32", "cpu")


@pytest.mark.parametrize("kind", ["qwen2", "llama", "gpt2"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_tied_and_untied_models_of_several_kinds_make_the_round_trip(
    tmp_path, tokenizer, kind, dtype
):
    model = policy(kind, getattr(torch, dtype), vocabulary=len(tokenizer))
    with new_folder(tmp_path / kind) as target:
        save_model(target, model, tokenizer, PromptTemplate.of(tokenizer, "tokenizer"), {})
    loaded = load_model(tmp_path / kind, dtype, "cpu")
    assert not loaded.training
    ids = torch.tensor([tokenizer("2 + 2")["input_ids"]])
    assert torch.equal(loaded(ids).logits, model(ids).logits)


def test_of_several_chat_templates_the_default_one_counts(tokenizer):
    single = PromptTemplate.of(tokenizer, "tokenizer")
    tokenizer.chat_template = {"default": tokenizer.chat_template, "tool_use": "{{ tools }}"}
    several = PromptTemplate.of(tokenizer, "tokenizer")
    assert several.encode(MESSAGES) == single.encode(MESSAGES)
    assert several.sha256 == single.sha256
    tokenizer.chat_template = {"tool_use": "{{ tools }}"}
    with pytest.raises(ValueError, match=r"set model\.template: plain"):
        PromptTemplate.of(tokenizer, "tokenizer")


def test_a_tokenizer_that_begins_to_add_bos_has_another_template_hash(tokenizer, tmp_path):
    from tokenizers.processors import TemplateProcessing

    tokenizer.add_special_tokens({"bos_token": "<bos>"})
    without = PromptTemplate.of(tokenizer, "plain")
    ids = without.encode(MESSAGES)
    assert tokenizer.bos_token_id not in ids
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", tokenizer.bos_token_id)]
    )
    adding = PromptTemplate.of(tokenizer, "plain")
    assert adding.encode(MESSAGES) == [tokenizer.bos_token_id, *ids]
    assert adding.sha256 != without.sha256
    tokenizer.save_pretrained(tmp_path)
    loaded = PromptTemplate.of(load_tokenizer(tmp_path), "plain")
    assert (loaded.sha256, loaded.encode(MESSAGES)) == (adding.sha256, adding.encode(MESSAGES))


def test_initial_json_with_a_missing_or_unknown_entry_is_named(tmp_path):
    initial = InitialModel(path=tmp_path, weights_sha256="w", settings_sha256="s",
                           template_kind="plain", template_sha256="t", built=False)  # fmt: skip
    write_initial(tmp_path, initial)
    assert read_initial(tmp_path) == initial
    tree = json.loads((tmp_path / "initial.json").read_text())
    for broken in ({k: v for k, v in tree.items() if k != "built"}, tree | {"more": 1}):
        (tmp_path / "initial.json").write_text(json.dumps(broken))
        with pytest.raises(ValueError, match=r"initial\.json must hold \['built', "):
            read_initial(tmp_path)
    (tmp_path / "initial.json").write_text("[]")
    with pytest.raises(ValueError, match="schema_version must be 2"):
        read_initial(tmp_path)
