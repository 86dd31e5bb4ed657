"""The warmstart stage on models that people bring, and the prompts that a model then sees."""

import json
import shutil
from contextlib import contextmanager

import pytest
import torch
from tokenizers.processors import TemplateProcessing
from torch.nn.modules.module import register_module_forward_pre_hook

from gmts.data.rows import read_rows
from gmts.files import new_folder
from gmts.models.build_tokenizer import build_tokenizer
from gmts.models.folder import load_tokenizer, save_model
from gmts.models.template import PromptTemplate
from gmts.stages.evaluate import evaluate
from gmts.stages.prepare import prepare
from gmts.stages.train import train
from gmts.stages.warmstart import warmstart
from gmts.stages.workspace import Workspace
from tests.support.policies import policy
from tests.support.sections import small_params

TEMPLATE = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"
WITH_BOS = "{{ bos_token }}" + TEMPLATE
TEXTS = ["State the final answer to the following arithmetic problem: 0123456789 + - = \\boxed{}"]


def bos_model(folder, chat_template):
    """Write a GPT-2 whose tokenizer puts BOS before every text by itself."""
    tokenizer = build_tokenizer(TEXTS, 128)
    tokenizer.add_special_tokens({"bos_token": "<bos>"})
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", tokenizer.bos_token_id)]
    )
    tokenizer.chat_template = chat_template
    model = policy("gpt2", torch.float32, vocabulary=len(tokenizer))
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    with new_folder(folder) as target:
        save_model(target, model, tokenizer, PromptTemplate.of(tokenizer, "plain"), {})
    return folder


@contextmanager
def rows_seen(num_tokens):
    """Collect the token rows that any model over a vocabulary of this size is given."""
    rows = []

    def record(module, arguments):
        if isinstance(module, torch.nn.Embedding) and module.num_embeddings == num_tokens:
            rows.extend(arguments[0].tolist())

    handle = register_module_forward_pre_hook(record)
    try:
        yield rows
    finally:
        handle.remove()


def without_padding(row):
    return tuple(row[next(i for i, token in enumerate(row) if token) :])


@pytest.mark.parametrize(
    ("kind", "chat_template"), [("tokenizer", WITH_BOS), ("tokenizer", TEMPLATE), ("plain", None)]
)
def test_training_rollouts_and_evaluation_see_the_same_prompts_with_one_bos(
    tmp_path, kind, chat_template
):
    settings = small_params(
        model__path="given",
        model__template=kind,
        rewards__scorer="custom",
        rewards__custom="tests.support.rewards:even_length",
        rollout__group_size=4,
        rollout__max_response_tokens=6,
        train__steps=1,
        train__questions_per_batch=4,
        train__questions_per_mini_batch=4,
        train__validation_every=1,
        train__validation_samples=1,
        train__checkpoint_every=1,
        tracking__tensorboard=False,
        tracking__dvclive=False,
    )
    workspace = Workspace(tmp_path)
    bos_model(tmp_path / "given", chat_template)
    prepare(settings, workspace)
    warmstart(settings, workspace)
    initial = json.loads((workspace.initial_dir / "initial.json").read_text())
    assert initial["template_kind"] == kind
    assert initial["path"] == "../../given"  # the clone may be moved

    tokenizer = load_tokenizer(tmp_path / "given")
    expected = {}
    for split in ("train", "validation", "test"):
        template = PromptTemplate.of(tokenizer, kind)
        rows = read_rows(workspace.prepared_dir / f"{split}.parquet")
        prompts = [tuple(template.encode(row.messages)) for row in rows]
        assert all(p[0] == tokenizer.bos_token_id for p in prompts)
        assert all(p.count(tokenizer.bos_token_id) == 1 for p in prompts)
        expected[split] = set(prompts)

    # Shorter rows are next tokens and the trainer's trial of the architecture.
    shortest = min(len(prompt) for prompts in expected.values() for prompt in prompts)
    with rows_seen(len(tokenizer)) as seen:
        train(settings, workspace)
    longer = [without_padding(row) for row in seen if len(row) >= shortest]
    prefilled = [row for row in longer if row in expected["train"] | expected["validation"]]
    assert len(set(prefilled) & expected["train"]) == 4  # the rollouts' questions
    assert set(prefilled) & expected["validation"] == expected["validation"]
    updates = [row for row in longer if row not in prefilled]
    assert len(updates) >= 4
    for row in updates:
        assert any(row[: len(p)] == p for p in set(prefilled) & expected["train"])
    for model in ("last", "best"):
        card = json.loads((workspace.root / "models" / model / "gmts.json").read_text())
        assert card["template_kind"] == kind
        assert card["template_sha256"] == initial["template_sha256"]

    with rows_seen(len(tokenizer)) as seen:
        evaluate(settings, workspace, "last")
    assert {without_padding(row) for row in seen if len(row) > 1} == expected["test"]


@pytest.mark.parametrize("folder", ["initial", "last", "best", "initial/inner"])
@pytest.mark.parametrize("stage", [prepare, warmstart])
def test_a_model_in_a_folder_that_the_pipeline_empties_is_refused_and_kept(tmp_path, folder, stage):
    workspace = Workspace(tmp_path)
    given = bos_model(tmp_path / "models" / folder, TEMPLATE)
    before = {file: file.read_bytes() for file in given.iterdir()}
    for path in (f"models/{folder}", str(given), f"data/../models/{folder}"):
        with pytest.raises(ValueError, match=r"model\.path must lie outside .*copy it first"):
            stage(small_params(model__path=path), workspace)
    assert {file: file.read_bytes() for file in given.iterdir()} == before


def test_a_model_of_an_unknown_kind_is_refused_before_training(tmp_path):
    given = bos_model(tmp_path / "given", TEMPLATE)
    (given / "config.json").write_text(json.dumps({"model_type": "t5"}))
    with pytest.raises(ValueError, match=r"given/config\.json: model_type must be a causal"):
        warmstart(small_params(model__path="given"), Workspace(tmp_path))
    assert not (tmp_path / "models" / "initial").exists()


def test_a_models_folder_that_cannot_be_written_stops_before_any_work(tmp_path):
    (tmp_path / "models").write_text("a file where a folder should be")
    # No data is prepared either: the folder is tried first.
    with pytest.raises(OSError, match="models"):
        warmstart(small_params(), Workspace(tmp_path))


def test_a_failed_warm_start_keeps_the_model_that_was_there(tmp_path):
    workspace = Workspace(tmp_path)
    prepare(small_params(), workspace)
    warmstart(small_params(), workspace)
    before = {file: file.read_bytes() for file in workspace.initial_dir.iterdir()}
    with pytest.raises(ValueError, match=r"warmstart\.lr must be low enough"):
        warmstart(small_params(warmstart__lr=1e30), workspace)
    assert {file: file.read_bytes() for file in workspace.initial_dir.iterdir()} == before
    assert [path.name for path in workspace.initial_dir.parent.iterdir()] == ["initial"]


def test_the_identity_of_a_given_model_follows_its_weights(tmp_path):
    workspace = Workspace(tmp_path)
    given = bos_model(tmp_path / "given", TEMPLATE)
    hashes = set()
    for seed in (0, 1):
        tokenizer = load_tokenizer(given)
        policy("gpt2", torch.float32, seed=seed, vocabulary=len(tokenizer)).save_pretrained(given)
        warmstart(small_params(model__path="given"), workspace)
        initial = json.loads((workspace.initial_dir / "initial.json").read_text())
        assert initial["path"] == "../../given"
        hashes.add(initial["weights_sha256"])
    assert len(hashes) == 2
    shutil.rmtree(given)
    with pytest.raises(ValueError, match=r"given: there is no such folder .*never asks a hub"):
        warmstart(small_params(model__path="given"), workspace)
