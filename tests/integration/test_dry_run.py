"""`gmts run --dry-run` as a user runs it: plans, checks, writes nothing."""

import json
import shutil
import subprocess
import sys

import pytest

from gmts.stages.plan import make_plan
from tests.support.sections import params
from tests.support.tiny_run import tiny_model, tiny_params, tiny_tokenizer, tiny_workspace

# The sizes in the config.json of Qwen2.5-Coder-7B.
CODER_7B = {
    "model_type": "qwen2",
    "vocab_size": 152064,
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": False,
}


@pytest.fixture
def clone(repository, tmp_path):
    shutil.copytree(repository / "configs", tmp_path / "configs")
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copyfile(repository / name, tmp_path / name)
    return tmp_path


def put_model(folder, config, *, chat_template="{{ messages }}"):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    tokenizer = {} if chat_template is None else {"chat_template": chat_template}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer), encoding="utf-8")


def dry_run(clone, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "gmts.cli", "run", "--dry-run", *arguments],
        cwd=clone,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_small_experiment_is_planned_without_torch_and_nothing_is_written(clone):
    before = sorted(path.name for path in clone.iterdir())
    code = (
        "import sys; from gmts.cli.dry_run import print_plan; from pathlib import Path;"
        "print_plan(Path(), None, ['train.steps=30'], gpu_memory_gib=79);"
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=clone, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "30 batches of 16 questions x 16 responses = 7680 responses, 60 optimizer" in done.stdout
    assert "prompt lengths are not measured" in done.stdout
    assert "Nothing has been run." in done.stdout
    assert sorted(path.name for path in clone.iterdir()) == before


@pytest.mark.slow
def test_a_paper_preset_is_planned_through_verl_without_a_gpu(clone):
    put_model(clone / "work/models/Qwen2.5-Coder-7B", CODER_7B)
    short = ("rollout.max_response_tokens=30720", "train.checkpoints_kept=1")
    done = dry_run(clone, "--preset", "qwen2.5-coder-7b+grpo+ets", *short)
    assert "verl on 1 x 8 cuda ranks" in done.stdout
    assert "7.62 billion parameters" in done.stdout
    assert "settings, says the verl of" in done.stdout
    assert "*.safetensors: the weights" in done.stdout
    refused = [line for line in done.stderr.splitlines() if "GiB free for" not in line]
    assert refused == []


@pytest.mark.slow
def test_what_does_not_fit_ends_with_code_2_and_every_reason(clone):
    put_model(clone / "work/models/Qwen2.5-Coder-7B", CODER_7B, chat_template=None)
    unknown = "verl.overrides={trainer.nope: 1}"
    done = dry_run(clone, "--preset", "qwen2.5-coder-7b", "--gpu-memory", "40", unknown)
    assert done.returncode == 2
    errors = done.stderr.splitlines()
    assert all(line.startswith("error: ") for line in errors)
    for part in (
        "rollout.max_response_tokens must be <= 30720, got 32768",
        "training needs about 68.2 GiB per rank, more than 38.0 GiB of the 40 GiB of a GPU",
        "model.template must be plain for a tokenizer without a chat template",
        "Could not override 'trainer.nope'",
    ):
        assert any(part in line for line in errors), part
    assert "Traceback" not in done.stderr


def test_prepared_prompts_are_measured_under_the_models_template(tmp_path):
    workspace = tiny_workspace(tmp_path)
    put_prepared(workspace)
    plan = make_plan(
        tiny_params(model__path="model", data__max_prompt_tokens=8), tmp_path, gpu_memory_gib=79
    )
    # Two letters and the colon that opens the answer.
    expected = "train 10 of 3 to 3 tokens; validation 4 of 3 to 3 tokens; test 2 of 3 to 3 tokens"
    assert dict(plan.lines)["prompts"] == expected
    assert plan.problems == []


def test_a_response_that_the_positions_cannot_hold_is_a_problem(tmp_path):
    workspace = tiny_workspace(tmp_path)
    put_prepared(workspace)
    settings = {"model__path": "model", "data__max_prompt_tokens": 8}
    fits = tiny_params(**settings, rollout__max_response_tokens=29)  # 3 + 29 = 32 positions
    assert make_plan(fits, tmp_path, gpu_memory_gib=79).problems == []
    long = tiny_params(**settings, rollout__max_response_tokens=30)
    assert make_plan(long, tmp_path, gpu_memory_gib=79).problems == [
        "rollout.max_response_tokens must be <= 29, got 30: the model has 32 positions and prompts "
        "may take 3"
    ]


def test_prepared_data_of_another_experiment_is_not_taken_for_this_ones(tmp_path):
    workspace = tiny_workspace(tmp_path)
    put_prepared(workspace)
    plan = make_plan(
        tiny_params(model__path="model", data__max_prompt_tokens=9), tmp_path, gpu_memory_gib=79
    )
    assert any("has another data.max_prompt_tokens" in text for text in plan.missing)


def test_rewards_that_do_not_judge_the_rows_are_said_to_be_missing(tmp_path):
    files = {"train": "a.jsonl", "validation": None, "test": None}
    settings = params(data__source="local", data__set="math12k", data__files=files)
    plan = make_plan(settings, tmp_path, gpu_memory_gib=79)
    assert any("does not judge rows of data.set math12k" in text for text in plan.missing)


def put_prepared(workspace):
    """Add the keys that prepare writes, and a model folder with a tokenizer."""
    folder = workspace.root / "model"
    tiny_model().save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    file = workspace.prepared_dir / "manifest.json"
    manifest = json.loads(file.read_text(encoding="utf-8"))
    data = tiny_params().data
    manifest |= {"source": data.source, "set": data.set, "task": data.task}
    file.write_text(json.dumps(manifest | {"max_prompt_tokens": 8}), encoding="utf-8")
