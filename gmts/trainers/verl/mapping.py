"""From params.yaml to verl's Hydra overrides: one table."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from gmts.objective.algorithms import ALGORITHMS
from gmts.trainers.verl.config import Experiment
from gmts.trainers.verl.grammar import hydra_value
from gmts.trainers.verl.options import ESTIMATORS, NODE, REWARD_FUNCTION, shared_keys

NO_DUAL_CLIP = 1.0e9
"""verl has no off: above e^20, where it clamps the ratio, the dual clip never acts."""

TRANSFORMERS_ENGINE = "gmts"
"""Name under which our sampler is registered as a rollout engine of verl."""
VLLM_CPU_ENGINE = "vllm_cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Files and names of one run; params.yaml does not hold them."""

    run_name: str
    model: Path
    train_file: Path
    validation_file: Path


@dataclass(frozen=True, slots=True)
class Line:
    """Settings of verl that some keys of params.yaml decide."""

    keys: tuple[str, ...]
    paths: tuple[str, ...]
    value: Callable[[Experiment], Any]


def _copy(key: str, *paths: str) -> Line:
    return Line((key,), paths, attrgetter(key))


def _translated(key: str, words: Mapping[Any, Any], *paths: str) -> Line:
    get = attrgetter(key)
    return Line((key,), paths, lambda e: words[get(e)])


_SHORT_DTYPES = {"float32": "fp32", "bfloat16": "bf16"}
_ENGINES = {
    ("transformers", "cpu"): TRANSFORMERS_ENGINE,
    ("transformers", "cuda"): TRANSFORMERS_ENGINE,
    ("vllm", "cpu"): VLLM_CPU_ENGINE,
    ("vllm", "cuda"): "vllm",
}
_METRICS = {"verdict": "acc", "grade": "reward"}  # acc: our rewards' verdict; reward: their score
_RATIO_LEVELS = {"token": "vanilla", "sequence": "gspo"}
_AGGREGATIONS = {
    "token_mean": "token-mean",
    "sequence_mean": "seq-mean-token-mean",
    "fixed_length": "seq-mean-token-sum-norm",
}

_OBJECTIVE: tuple[Line, ...] = (
    # With selection.score none verl computes the loss from these; else our loss takes its place.
    Line(
        ("objective.algorithm",),
        ("actor_rollout_ref.actor.policy_loss.loss_mode",),
        lambda e: _RATIO_LEVELS[ALGORITHMS[e.objective.algorithm].ratio_level],
    ),
    Line(
        ("objective.algorithm",),
        ("actor_rollout_ref.actor.loss_agg_mode",),
        lambda e: _AGGREGATIONS[ALGORITHMS[e.objective.algorithm].aggregation],
    ),
    Line(
        ("objective.algorithm", "rollout.max_response_tokens"),
        ("actor_rollout_ref.actor.loss_scale_factor",),
        lambda e: _fixed_length(e),
    ),
    _copy("objective.clip_ratio_low", "actor_rollout_ref.actor.clip_ratio_low"),
    _copy("objective.clip_ratio_high", "actor_rollout_ref.actor.clip_ratio_high"),
    Line(
        ("objective.dual_clip",),
        ("actor_rollout_ref.actor.clip_ratio_c",),
        lambda e: NO_DUAL_CLIP if e.objective.dual_clip is None else e.objective.dual_clip,
    ),
    Line(
        ("objective.beta",),
        ("actor_rollout_ref.actor.use_kl_loss",),
        lambda e: e.objective.beta > 0,
    ),
    _copy("objective.beta", "actor_rollout_ref.actor.kl_loss_coef"),
    _copy("objective.normalize_by_std", "algorithm.norm_adv_by_std_in_grpo"),
    _translated("objective.std_ddof", ESTIMATORS, "algorithm.adv_estimator"),
    _copy("objective.rollout_is", "algorithm.rollout_correction.rollout_is"),
    _copy("objective.rollout_is_threshold", "algorithm.rollout_correction.rollout_is_threshold"),
)

_ROLLOUT: tuple[Line, ...] = (
    _copy("rollout.group_size", "actor_rollout_ref.rollout.n"),
    _copy(
        "rollout.temperature",
        "actor_rollout_ref.rollout.temperature",
        "actor_rollout_ref.rollout.val_kwargs.temperature",
    ),
    _copy(
        "rollout.top_p",
        "actor_rollout_ref.rollout.top_p",
        "actor_rollout_ref.rollout.val_kwargs.top_p",
    ),
    _translated(
        "rollout.top_k",
        {0: -1},  # off, in each one's words
        "actor_rollout_ref.rollout.top_k",
        "actor_rollout_ref.rollout.val_kwargs.top_k",
    ),
    _copy("rollout.max_response_tokens", "data.max_response_length"),
    Line((), ("data.max_prompt_length",), lambda e: e.max_prompt_tokens),
    Line(
        ("rollout.max_response_tokens",),
        ("actor_rollout_ref.rollout.max_model_len",),
        lambda e: e.max_tokens,
    ),
    _copy("rollout.batch_size", "actor_rollout_ref.rollout.max_num_seqs"),
)

_TRAIN: tuple[Line, ...] = (
    _copy("train.steps", "trainer.total_training_steps"),
    # verl stops at whichever comes first, and an epoch has at least one step.
    _copy("train.steps", "trainer.total_epochs"),
    _copy("train.questions_per_batch", "data.train_batch_size"),
    _copy("train.questions_per_mini_batch", "actor_rollout_ref.actor.ppo_mini_batch_size"),
    _copy("train.micro_batch_tokens", "actor_rollout_ref.actor.ppo_max_token_len_per_gpu"),
    _copy("train.optimizer.lr", "actor_rollout_ref.actor.optim.lr"),
    Line(
        ("train.optimizer.beta1", "train.optimizer.beta2"),
        ("actor_rollout_ref.actor.optim.betas",),
        lambda e: [e.train.optimizer.beta1, e.train.optimizer.beta2],
    ),
    Line(
        ("train.optimizer.eps",),
        ("actor_rollout_ref.actor.optim.override_optimizer_config",),
        lambda e: {"eps": e.train.optimizer.eps},
    ),
    _copy("train.optimizer.weight_decay", "actor_rollout_ref.actor.optim.weight_decay"),
    _copy("train.optimizer.max_grad_norm", "actor_rollout_ref.actor.optim.clip_grad"),
    _copy("train.dynamic_sampling.enabled", "algorithm.filter_groups.enable"),
    _translated(
        "train.dynamic_sampling.informative_on", _METRICS, "algorithm.filter_groups.metric"
    ),
    _copy("train.validation_every", "trainer.test_freq"),
    _copy("train.validation_samples", "actor_rollout_ref.rollout.val_kwargs.n"),
    _copy("train.checkpoint_every", "trainer.save_freq"),
)

_MACHINE: tuple[Line, ...] = (
    _copy(
        "seed",
        "data.seed",
        "actor_rollout_ref.actor.data_loader_seed",
        "actor_rollout_ref.actor.fsdp_config.seed",
        "actor_rollout_ref.rollout.seed",
    ),
    _translated(
        "model.dtype",
        _SHORT_DTYPES,
        "+actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype",
        "+actor_rollout_ref.ref.fsdp_config.mixed_precision.param_dtype",
        "actor_rollout_ref.ref.fsdp_config.model_dtype",
    ),
    _copy("model.dtype", "actor_rollout_ref.rollout.dtype"),
    _translated(
        "verl.weights_dtype", _SHORT_DTYPES, "actor_rollout_ref.actor.fsdp_config.model_dtype"
    ),
    _copy("verl.nodes", "trainer.nnodes"),
    _copy("verl.ranks_per_node", "trainer.n_gpus_per_node"),
    Line(
        ("verl.rollout_engine", "runtime.device"),
        ("actor_rollout_ref.rollout.name",),
        lambda e: _ENGINES[e.verl.rollout_engine, e.runtime.device],
    ),
    _copy("verl.tensor_parallel", "actor_rollout_ref.rollout.tensor_model_parallel_size"),
    _copy("verl.gpu_memory_share", "actor_rollout_ref.rollout.gpu_memory_utilization"),
    Line(
        ("verl.micro_batch_size",),
        ("actor_rollout_ref.actor.use_dynamic_bsz",),
        lambda e: e.verl.micro_batch_size is None,
    ),
    _copy(
        "verl.micro_batch_size",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu",
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu",
    ),
    _copy(
        "verl.log_prob_micro_batch_tokens",
        "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu",
        "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu",
    ),
    _copy("verl.attention", "+actor_rollout_ref.model.override_config.attn_implementation"),
    # Packed rows are kept apart by flash attention's kernels only.
    _translated(
        "verl.attention",
        {"sdpa": False, "flash_attention_2": True},
        "actor_rollout_ref.model.use_remove_padding",
    ),
    _copy("verl.gradient_checkpointing", "actor_rollout_ref.model.enable_gradient_checkpointing"),
    _copy(
        "verl.offload_weights",
        "actor_rollout_ref.actor.fsdp_config.param_offload",
        "actor_rollout_ref.ref.fsdp_config.param_offload",
    ),
    _copy("verl.offload_optimizer", "actor_rollout_ref.actor.fsdp_config.optimizer_offload"),
    _copy("runtime.device", "trainer.device"),
    _translated(
        "runtime.device",
        {"cpu": False, "cuda": True},  # compiling for a CPU takes longer than it saves
        "actor_rollout_ref.actor.use_torch_compile",
        "actor_rollout_ref.actor.fsdp_config.use_torch_compile",
        "actor_rollout_ref.ref.fsdp_config.use_torch_compile",
    ),
    # verl's defaults are for many cores: each of these is a process.
    _translated(
        "runtime.device",
        {"cpu": 1, "cuda": 8},
        "actor_rollout_ref.rollout.agent.num_workers",
        "reward.num_workers",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units",
    ),
    _translated("runtime.device", {"cpu": 0, "cuda": 8}, "data.dataloader_num_workers"),
    _translated(
        "runtime.device",
        {"cpu": False, "cuda": True},
        "actor_rollout_ref.rollout.free_cache_engine",
    ),
    _copy("runtime.train_python", "ray_kwargs.ray_init.runtime_env.py_executable"),
)

_OWN = (
    *(_copy(key, f"+{NODE}.{key}") for key in shared_keys()),
    _copy("rollout.max_response_tokens", f"+{NODE}.max_response_tokens"),
    _copy("rewards.overlong.buffer_tokens", f"+{NODE}.overlong.buffer_tokens"),
    _copy("rewards.overlong.factor", f"+{NODE}.overlong.factor"),
    _copy("train.skip_no_signal", f"+{NODE}.skip_no_signal"),
    # verl's own trainer ignores its limit.
    _copy("train.dynamic_sampling.max_batches", f"+{NODE}.max_batches"),
    Line(
        ("rewards",),
        ("+reward.custom_reward_function.reward_kwargs.rewards",),
        lambda e: json.dumps(asdict(e.rewards)),
    ),
)

TABLE: tuple[Line, ...] = (*_OBJECTIVE, *_ROLLOUT, *_TRAIN, *_MACHINE, *_OWN)
"""Every key of params.yaml that verl is told, and where it arrives."""

FIXED: dict[str, Any] = {
    "critic.enable": False,
    "algorithm.use_kl_in_reward": False,  # the KL term is part of the objective
    "algorithm.filter_groups.max_num_gen_batches": 0,  # verl warns of any other value
    "actor_rollout_ref.actor.strategy": "fsdp2",  # FSDP1 does not run on a CPU
    "actor_rollout_ref.actor.ppo_epochs": 1,
    "actor_rollout_ref.actor.shuffle": False,  # keeps a mini-batch's groups whole
    "actor_rollout_ref.actor.entropy_coeff": 0,  # no part of omega
    "actor_rollout_ref.actor.kl_loss_type": "low_var_kl",  # k3, with our clamps
    "actor_rollout_ref.actor.optim.lr_scheduler_type": "constant",
    "actor_rollout_ref.model.trust_remote_code": False,
    "actor_rollout_ref.rollout.calculate_log_probs": True,  # rollout weights, and metrics of gaps
    "actor_rollout_ref.rollout.do_sample": True,
    "actor_rollout_ref.rollout.val_kwargs.do_sample": True,
    "data.shuffle": True,
    "data.truncation": "error",  # prompts were held to their limit when they were prepared
    "data.filter_overlong_prompts": False,
    "reward.custom_reward_function.path": REWARD_FUNCTION[0],
    "reward.custom_reward_function.name": REWARD_FUNCTION[1],
    f"+{NODE}.dump_dir": None,
    "trainer.use_v1": True,
    "trainer.max_actor_ckpt_to_keep": None,  # verl's own pruning forgets earlier processes' ones
}
"""Settings of verl on which the project rests, whatever params.yaml says."""

VLLM_ON_CPU: dict[str, Any] = {
    "+actor_rollout_ref.rollout.enable_sleep_mode": False,
    "actor_rollout_ref.rollout.enforce_eager": True,
    "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes": 64,
}
"""What vLLM needs without a GPU; verl.overrides may set them otherwise."""

PLACES: dict[str, str] = {
    "actor_rollout_ref.model.path": "model",
    "data.train_files": "train_file",
    "data.val_files": "validation_file",
    "trainer.experiment_name": "run_name",
}
"""Settings of verl that say where things lie -> fields of `Places`."""


def hydra_overrides(experiment: Experiment, places: Places) -> tuple[str, ...]:
    """Return the overrides of verl's ppo_trainer configuration for an experiment.

    Args:
        experiment: One in which `gmts.trainers.verl.config.refusals` finds nothing.
        places: Where its files lie.

    Raises:
        ValueError: If verl.overrides names a setting that another key of params.yaml decides, or
            text cannot be written in Hydra's grammar.
    """
    values = dict(FIXED)
    values |= {path: str(getattr(places, name)) for path, name in PLACES.items()}
    for line in TABLE:
        values |= dict.fromkeys(line.paths, line.value(experiment))
    for path, value in values.items():
        if isinstance(value, str) and "${" in value:
            # verl resolves its configuration more than once, so no escape survives.
            raise ValueError(
                f"{path} must be text without ${{, a reference in Hydra, got {value!r}"
            )
    if values["actor_rollout_ref.rollout.name"] == VLLM_CPU_ENGINE:
        values |= VLLM_ON_CPU
    values |= _user_overrides(experiment.verl.overrides)
    return tuple(f"{path}={hydra_value(value)}" for path, value in values.items())


def _user_overrides(overrides: Mapping[str, Any]) -> Mapping[str, Any]:
    owners = dict.fromkeys((*FIXED, *PLACES), "gmts")
    for line in TABLE:
        owners |= dict.fromkeys(
            (path.lstrip("+") for path in line.paths), " and ".join(line.keys) or "gmts"
        )
    for name in overrides:
        path = name.lstrip("+~")
        for owned, owner in owners.items():
            if f"{owned}.".startswith(f"{path}.") or path.startswith(f"{owned}."):
                raise ValueError(
                    f"verl.overrides must not hold {name}: {owner} decides {owned} already"
                )
    return overrides


def _fixed_length(experiment: Experiment) -> int | None:
    """Return what verl divides by; None with selection, whose weights are final."""
    plain = experiment.selection.score == "none"
    aggregation = ALGORITHMS[experiment.objective.algorithm].aggregation
    if plain and aggregation == "fixed_length":
        return experiment.rollout.max_response_tokens
    return None
