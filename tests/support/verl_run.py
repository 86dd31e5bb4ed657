"""A run of the real verl trainer on the letters task, small enough for two processors."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import torch

from gmts.data.rows import Row
from gmts.models.folder import save_model
from gmts.models.template import PromptTemplate
from gmts.trainers.config import TrackingConfig
from gmts.trainers.verl.launch import Launch
from gmts.trainers.verl.options import REWARD_FUNCTION, VerlOptions, to_overrides
from gmts.trainers.verl.questions import write_questions
from tests.support.core import objective, overlong, selection
from tests.support.sections import params
from tests.support.tiny_run import tiny_model, tiny_rows, tiny_tokenizer

GROUP_SIZE, QUESTIONS, RESPONSE_TOKENS = 4, 4, 12
QUIET = TrackingConfig(tensorboard=False, dvclive=False, wandb=False, mlflow=False, project="tests")


def always_wrong(response, ground_truth, meta):
    return 0.0


def verl_overrides(
    folder: Path,
    *,
    steps: int,
    ranks: int,
    scorer: str = "tests.support.tiny_run:reward",
    save_every: int = 1,
    max_batches: int = 10,
    buffer_tokens: int | None = None,
    **changes: object,
) -> list[str]:
    """Write model and questions into `folder`; return DAPO with GMTS over them."""
    folder.mkdir(parents=True, exist_ok=True)
    model, tokenizer = tiny_model(), tiny_tokenizer()
    tokenizer.add_tokens(["\n"])  # verl looks for it in tokenizers of Qwen models
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    (folder / "model").mkdir()
    save_model(folder / "model", model, tokenizer, PromptTemplate.of(tokenizer, "tokenizer"), {})
    for split in ("train", "validation"):
        rows: list[Row] = tiny_rows(16 if split == "train" else 4, split)
        write_questions(folder / f"{split}.parquet", rows)
    choose = {k: v for k, v in changes.items() if k in selection().__dataclass_fields__}
    aim = {k: v for k, v in changes.items() if k not in choose}
    options = VerlOptions(
        objective=objective(**aim),
        selection=selection(**choose),
        overlong=overlong(buffer_tokens),
        seed=5,
        max_response_tokens=RESPONSE_TOKENS,
        skip_no_signal=True,
        max_batches=max_batches,
        dump_dir=str(folder / "dumps"),
    )
    rewards = params(
        rewards__scorer="custom", rewards__answer="first_line", rewards__custom=scorer
    ).rewards
    actor, rollout = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    values = {
        "algorithm.adv_estimator": "gmts_group",
        "algorithm.filter_groups.enable": "true",
        "algorithm.filter_groups.metric": "acc",
        "algorithm.rollout_correction.rollout_is": options.objective.rollout_is or "null",
        "critic.enable": "false",
        "data.train_files": folder / "train.parquet",
        "data.val_files": folder / "validation.parquet",
        "data.train_batch_size": QUESTIONS,
        "data.max_prompt_length": 8,
        "data.max_response_length": RESPONSE_TOKENS,
        "data.dataloader_num_workers": 0,
        "data.filter_overlong_prompts": "false",
        "data.seed": 5,
        "actor_rollout_ref.model.path": folder / "model",
        "actor_rollout_ref.model.use_remove_padding": "false",
        "actor_rollout_ref.model.enable_gradient_checkpointing": "false",
        "+actor_rollout_ref.model.override_config.attn_implementation": "sdpa",
        f"{actor}.strategy": "fsdp2",
        f"{actor}.optim.lr": 0.01,
        f"{actor}.optim.clip_grad": 1.0,
        f"{actor}.ppo_mini_batch_size": QUESTIONS // 2,
        f"{actor}.ppo_micro_batch_size_per_gpu": 2,
        f"{actor}.use_torch_compile": "false",
        f"{actor}.fsdp_config.use_torch_compile": "false",
        f"+{actor}.fsdp_config.mixed_precision.param_dtype": "fp32",
        f"{rollout}.name": "gmts",
        f"{rollout}.dtype": "float32",
        f"{rollout}.n": GROUP_SIZE,
        f"{rollout}.tensor_model_parallel_size": 1,
        f"{rollout}.log_prob_micro_batch_size_per_gpu": 4,
        f"{rollout}.agent.num_workers": 1,
        f"{rollout}.val_kwargs.n": 2,
        f"{rollout}.val_kwargs.do_sample": "true",
        f"{rollout}.val_kwargs.temperature": 1.0,
        f"{rollout}.calculate_log_probs": "true",
        f"{rollout}.free_cache_engine": "false",
        "reward.num_workers": 1,
        "reward.custom_reward_function.path": REWARD_FUNCTION[0],
        "reward.custom_reward_function.name": REWARD_FUNCTION[1],
        "trainer.device": "cpu",
        "trainer.n_gpus_per_node": ranks,
        "trainer.nnodes": 1,
        "trainer.total_training_steps": steps,
        "trainer.total_epochs": 1000,
        "trainer.test_freq": steps,
        "trainer.save_freq": save_every,
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
    }
    judging = "+reward.custom_reward_function.reward_kwargs.rewards"
    text = json.dumps(json.dumps(asdict(rewards)))
    return [
        f"{judging}={text}",
        *(
            f'{key}="{value}"' if ":" in str(value) else f"{key}={value}"
            for key, value in values.items()
        ),
        *to_overrides(options),
    ]


def launch_of(folder: Path, overrides, *, steps: int, ranks: int, kept: int = 2) -> Launch:
    return Launch(
        folder=folder / "run",
        overrides=overrides,
        steps=steps,
        num_ranks=ranks,
        checkpoints_kept=kept,
        platform="cpu",
        python=sys.executable,
        threads=1,
        ray_address=None,
        num_cpus=16,
        tracking=QUIET,
        run_id="tests",
        settings={},
    )
