"""One rank that trains fixed batches with verl's own engine and worker, started by tests.

    RANK=0 WORLD_SIZE=2 ... python -m tests.support.verl_ranks FOLDER

reads FOLDER/cases.json and writes the weights after each case to FOLDER/NAME/weights.pt.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import torch

from gmts.batch import TokenBatch, TokenStats
from tests.support.core import objective, overlong, selection
from tests.support.policies import mini_batch, policy

LENGTHS = (5, 3, 1, 6, 4, 7, 2, 6)
ADVANTAGES = (1.0, -1.0, 0.7, -0.7, 1.5, -0.5, 0.2, -0.2)
LEARNING_RATE = 0.02
PROCESS = {
    "VERL_PLATFORM": "cpu",
    "VERL_USE_EXTERNAL_MODULES": "gmts.trainers.verl.plugin",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "0",
    "PYTHONWARNINGS": "ignore",  # of verl's imports
}


def model32():
    return policy(dtype=torch.float32)


def fixed_batch(model):
    """Return (batch, prompts, stats) in float32: four groups of two.

    The reference is nearby, and the sampler's log-probs are not quite the trainer's.
    """
    batch, prompts, stats = mini_batch(model, ADVANTAGES, lengths=LENGTHS, ref=0.4, rollout=0.6)
    values = {name: getattr(batch, name) for name in TokenBatch.__dataclass_fields__}
    for name in ("old_log_probs", "ref_log_probs", "rollout_log_probs", "advantages"):
        values[name] = values[name].float()
    # As verl's rows are named: numbers from 0 in the order of the data set.
    values["sample_ids"] = torch.arange(len(LENGTHS))
    return TokenBatch(**values), prompts, stats


def run_ranks(folder, cases, ranks):
    """Train `cases` on so many ranks; cases are dicts with name, changes, micro, epochs."""
    folder.mkdir(parents=True)
    model32().save_pretrained(folder / "model")
    (folder / "cases.json").write_text(json.dumps(cases))
    processes = []
    for rank in range(ranks):
        own = {
            "RANK": str(rank),
            "WORLD_SIZE": str(ranks),
            "DIST_INIT_METHOD": f"file://{folder}/rendezvous",
        }
        command = [sys.executable, "-m", "tests.support.verl_ranks", str(folder)]
        environment = {**os.environ, **PROCESS, **own}
        with (folder / f"log-{rank}").open("w") as log:
            processes.append(
                subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
            )
    try:
        codes = [process.wait(timeout=600) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    if any(codes):
        raise AssertionError((folder / f"log-{codes.index(max(codes))}").read_text()[-6000:])


def verl_data(batch: TokenBatch, prompts, stats: TokenStats, rows):
    """Return these rows as verl's trainer hands them to a worker."""
    from verl.utils import tensordict_utils as tu

    def nested(values):
        return torch.nested.as_nested_tensor(values, layout=torch.jagged)

    cut = {row: int(batch.response_mask[row].sum()) for row in rows}
    responses = [batch.response_ids[row, : cut[row]] for row in rows]
    starts = [torch.tensor(prompts[row]) for row in rows]
    whole = [torch.cat(parts) for parts in zip(starts, responses, strict=True)]
    ones = [torch.ones(cut[row], dtype=torch.long) for row in rows]
    tensors = {
        "prompts": nested(starts),
        "responses": nested(responses),
        "input_ids": nested(whole),
        "position_ids": nested([torch.arange(len(ids)) for ids in whole]),
        "response_mask": nested(ones),
        "loss_mask": nested(ones),
        "old_log_probs": nested([batch.old_log_probs[row, : cut[row]] for row in rows]),
        "ref_log_prob": nested([batch.ref_log_probs[row, : cut[row]] for row in rows]),
        "rollout_log_probs": nested([batch.rollout_log_probs[row, : cut[row]] for row in rows]),
        "entropy": nested([stats.entropy[row, : cut[row]] for row in rows]),
        "advantages": nested([batch.advantages[row].expand(cut[row]).clone() for row in rows]),
        "index": [int(batch.group_ids[row]) for row in rows],
        "uid": [f"u{int(batch.group_ids[row])}" for row in rows],
        "session_id": [row % 2 for row in rows],
        "global_steps": [1 for _ in rows],
    }
    return tu.get_tensordict(tensors, {"temperature": 1.0, "calculate_entropy": False})


def add_verls_weights(data, threshold):
    """Do to a batch what verl's trainer does under algorithm.rollout_correction.rollout_is."""
    from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_weights

    offsets = data["response_mask"].offsets()
    log_ratio = data["old_log_probs"].values() - data["rollout_log_probs"].values()
    ones = torch.ones_like(log_ratio)[None]
    weights, _ = compute_rollout_correction_weights(log_ratio[None], ones, "token", threshold)
    data["rollout_is_weights"] = torch.nested.nested_tensor_from_jagged(weights[0], offsets)


def worker_of(kind, folder, micro):
    """Return verl's worker of that class over the saved model, with plain SGD."""
    from verl.trainer.config import CheckpointConfig
    from verl.workers.config import (
        FSDPEngineConfig,
        FSDPOptimizerConfig,
        HFModelConfig,
        TrainingWorkerConfig,
    )

    worker = kind(
        TrainingWorkerConfig(
            model_type="language_model",
            model_config=HFModelConfig(
                path=str(folder / "model"),
                load_tokenizer=False,
                override_config={"attn_implementation": "sdpa"},
                enable_gradient_checkpointing=False,
                use_remove_padding=False,
            ),
            engine_config=FSDPEngineConfig(
                strategy="fsdp2",
                use_torch_compile=False,
                mixed_precision={"param_dtype": "fp32"},
                use_dynamic_bsz=False,
                micro_batch_size_per_gpu=micro,
                infer_micro_batch_size_per_gpu=micro,
                max_token_len_per_gpu=1000,
                infer_max_token_len_per_gpu=1000,
            ),
            optimizer_config=FSDPOptimizerConfig(
                optimizer="SGD",
                lr=LEARNING_RATE,
                weight_decay=0.0,
                clip_grad=1e9,
                lr_scheduler_type="constant",
                total_training_steps=10,
                lr_warmup_steps=0,
                override_optimizer_config={},
            ),
            checkpoint_config=CheckpointConfig(),
        )
    )
    worker.reset()
    return worker


def actor_config(options):
    """Return verl's own configuration of the plain algorithm."""
    from verl.workers.config import FSDPActorConfig, FSDPEngineConfig

    aim = options["objective"]
    return FSDPActorConfig(
        strategy="fsdp2",
        rollout_n=2,
        ppo_mini_batch_size=4,
        ppo_micro_batch_size_per_gpu=1,
        clip_ratio=aim["clip_ratio_low"],
        clip_ratio_low=aim["clip_ratio_low"],
        clip_ratio_high=aim["clip_ratio_high"],
        clip_ratio_c=1e30,
        loss_agg_mode={"dapo": "token-mean", "grpo": "seq-mean-token-mean"}[aim["algorithm"]],
        use_kl_loss=aim["beta"] > 0,
        kl_loss_coef=aim["beta"],
        kl_loss_type="low_var_kl",
        fsdp_config=FSDPEngineConfig(strategy="fsdp2"),
    )


def options_of(case, folder):
    from dataclasses import asdict

    changes = case["changes"]
    choose = {k: v for k, v in changes.items() if k in selection().__dataclass_fields__}
    aim = {k: v for k, v in changes.items() if k not in choose}
    return {
        "objective": asdict(objective(**aim)),
        "selection": asdict(selection(**choose)),
        "overlong": asdict(overlong()),
        "seed": 11,
        "max_response_tokens": 8,
        "skip_no_signal": True,
        "max_batches": 1,
        "dump_dir": str(folder / case["name"] / "dumps"),
    }


def refused(**_):
    raise AssertionError("verl's loss must not be called with selection")


def train(case, folder, rank, ranks):
    from functools import partial

    from verl.utils import tensordict_utils as tu
    from verl.workers.utils.losses import ppo_loss

    from gmts.trainers.verl.options import from_config
    from gmts.trainers.verl.worker import GlooTrainingWorker, SelectingWorker

    options = options_of(case, folder)
    worker = worker_of(
        GlooTrainingWorker if case.get("stock") else SelectingWorker, folder, case["micro"]
    )
    if case["changes"]["score"] == "none":
        worker.set_loss_fn(partial(ppo_loss, config=actor_config(options)))
    else:  # verl refuses to train without one; ours takes its place
        worker.set_loss_fn(refused)
    if not case.get("stock"):
        worker.configure(from_config(options))
    rows = [row for row in range(len(LENGTHS)) if case["owner"][row] == rank]
    data = verl_data(*fixed_batch(model32()), rows)
    if options["objective"]["rollout_is"]:
        add_verls_weights(data, options["objective"]["rollout_is_threshold"])
    tu.assign_non_tensor(
        data, mini_batch_size=len(LENGTHS), global_batch_size=len(LENGTHS), epochs=case["epochs"]
    )
    output = worker.train_mini_batch(data)
    weights, _ = worker.engine.get_per_tensor_param()
    weights = {name: value.detach().clone() for name, value in weights}
    metrics = {}
    for name, value in tu.get(output, "metrics").items():
        if name.startswith("gmts/"):
            metrics[name.removeprefix("gmts/")] = value[0]
    if rank == 0:
        (folder / case["name"]).mkdir(exist_ok=True)
        torch.save(weights, folder / case["name"] / "weights.pt")
        (folder / case["name"] / "metrics.json").write_text(json.dumps(metrics))


def main():
    import verl  # noqa: F401  loads the plugin

    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    for case in json.loads((folder / "cases.json").read_text()):
        train(case, folder, rank, ranks)


if __name__ == "__main__":
    main()
