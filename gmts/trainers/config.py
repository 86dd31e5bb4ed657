"""Parameters of training: `train:`, `verl:`, `tracking:`, `warmstart:` and `runtime:`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt
from typing_extensions import Doc

InformativeOn = Literal["verdict", "grade"]
HydraScalar = bool | int | float | str | None
HydraValue = HydraScalar | list[HydraScalar]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerConfig:
    """AdamW with a constant rate after a linear warm-up."""

    lr: Annotated[float, Gt(0), Doc("Learning rate.")]
    beta1: Annotated[float, Ge(0), Lt(1), Doc("First moment decay.")]
    beta2: Annotated[float, Ge(0), Lt(1), Doc("Second moment decay.")]
    eps: Annotated[
        float,
        Gt(0),
        Doc("Added to the root of the second moment; a tiny value magnifies tiny gradients."),
    ]
    weight_decay: Annotated[float, Ge(0), Doc("Decoupled weight decay.")]
    warmup_steps: Annotated[int, Ge(0), Doc("Optimizer steps of linear warm-up.")]
    max_grad_norm: Annotated[float, Gt(0), Doc("Gradients are scaled down to this global norm.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicSamplingConfig:
    """DAPO's filter: only groups that are neither all right nor all wrong take part."""

    enabled: Annotated[bool, Doc("Draw more questions until the batch is full of mixed groups.")]
    max_batches: Annotated[
        int, Ge(1), Doc("Rollout batches per step before training goes on with what there is.")
    ]
    surplus: Annotated[
        Literal["carry", "discard"], Doc("What happens to mixed groups beyond a full batch.")
    ]
    informative_on: Annotated[
        InformativeOn,
        Doc(
            "verdict: right and wrong responses; grade: an own scorer's grades in [0, 1] that "
            "differ. A shaped reward never decides which groups carry information."
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """The training loop."""

    backend: Annotated[
        Literal["standalone", "verl"],
        Doc(
            "Trainer that runs the experiment. standalone: one process; verl: many GPUs and nodes, "
            "see the section verl."
        ),
    ]
    steps: Annotated[int, Ge(1), Doc("Rollout batches to train on.")]
    questions_per_batch: Annotated[int, Ge(1), Doc("Questions per rollout batch.")]
    questions_per_mini_batch: Annotated[
        int, Ge(1), Doc("Questions per optimizer step; divides questions_per_batch.")
    ]
    micro_batch_tokens: Annotated[
        int, Ge(1), Doc("Tokens per forward and backward pass; never changes the result.")
    ]
    optimizer: Annotated[OptimizerConfig, Doc("AdamW.")]
    skip_no_signal: Annotated[
        bool, Doc("Leave weights and moments untouched when no token carries a gradient.")
    ]
    dynamic_sampling: Annotated[DynamicSamplingConfig, Doc("DAPO's group filter.")]
    validation_every: Annotated[int, Ge(1), Doc("Steps between validations.")]
    validation_samples: Annotated[int, Ge(1), Doc("Responses per validation question.")]
    checkpoint_every: Annotated[int, Ge(1), Doc("Steps between resumable checkpoints.")]
    checkpoints_kept: Annotated[int, Ge(1), Doc("Newest resumable checkpoints kept.")]
    dump_every: Annotated[int, Ge(0), Doc("Steps between dumps of rollouts; 0: none.")]
    dump_max_responses: Annotated[int, Ge(1), Doc("Responses per dump.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerlConfig:
    """What verl needs beyond the settings that both trainers share; read by backend verl only.

    Nothing here changes what is computed, rounding aside.
    """

    nodes: Annotated[int, Ge(1), Doc("Machines.")]
    ranks_per_node: Annotated[
        int, Ge(1), Doc("GPUs per machine, one rank each; with runtime.device cpu: processes.")
    ]
    ray_address: Annotated[
        str | None,
        Doc("Ray cluster to join, host:port; null: RAY_ADDRESS if set, else an own local one."),
    ]
    rollout_engine: Annotated[
        Literal["transformers", "vllm"],
        Doc(
            "transformers: our sampler, on CPU or GPU; vllm: needs constraints/gpu.txt, on a CPU "
            "constraints/vllm-cpu.txt."
        ),
    ]
    tensor_parallel: Annotated[
        int, Ge(1), Doc("GPUs that share one copy of the rollout engine; divides ranks_per_node.")
    ]
    gpu_memory_share: Annotated[
        float, Gt(0), Lt(1), Doc("Share of a GPU's memory that the rollout engine may take.")
    ]
    micro_batch_size: Annotated[
        int | None,
        Ge(1),
        Doc(
            "Responses per rank and pass; null: as many as have train.micro_batch_tokens tokens "
            "in all."
        ),
    ]
    log_prob_micro_batch_tokens: Annotated[
        int,
        Ge(1),
        Doc(
            "Tokens per rank and pass without gradients (old and reference log-probs), when "
            "micro_batch_size is null."
        ),
    ]
    weights_dtype: Annotated[
        Literal["float32", "bfloat16"],
        Doc(
            "Dtype of the weights that AdamW updates, its moments included; passes use model.dtype."
        ),
    ]
    attention: Annotated[
        Literal["sdpa", "flash_attention_2"],
        Doc("flash_attention_2 also removes padding; its package is not in constraints/gpu.txt."),
    ]
    gradient_checkpointing: Annotated[bool, Doc("Recompute activations in the backward pass.")]
    offload_weights: Annotated[
        bool, Doc("Keep weights and gradients in CPU memory while responses are sampled.")
    ]
    offload_optimizer: Annotated[
        bool, Doc("Keep AdamW's moments in CPU memory while responses are sampled.")
    ]
    overrides: Annotated[
        dict[str, HydraValue],
        Doc(
            "Further settings of verl, by their Hydra names; +name adds one. Not those that our "
            "own keys set."
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackingConfig:
    """Where metrics go besides metrics.jsonl. Nothing leaves the machine unless asked."""

    tensorboard: Annotated[bool, Doc("Write TensorBoard event files.")]
    dvclive: Annotated[bool, Doc("Write DVCLive metrics and plots.")]
    wandb: Annotated[bool, Doc("Log to Weights & Biases (needs the wandb package).")]
    mlflow: Annotated[bool, Doc("Log to MLflow (needs the mlflow package).")]
    project: Annotated[str, Doc("Project or experiment name for W&B and MLflow.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmstartConfig:
    """A tiny Qwen2 built from nothing, taught to do the task now and then.

    Used only when model.path is null. The slips are synthetic: they make a model that knows the
    answer but samples it unreliably, which is what reinforcement learning can mend.
    """

    hidden_size: Annotated[int, Ge(8), Doc("Width.")]
    intermediate_size: Annotated[int, Ge(8), Doc("Width of the MLP.")]
    num_layers: Annotated[int, Ge(1), Doc("Layers.")]
    num_heads: Annotated[int, Ge(1), Doc("Attention heads.")]
    num_key_value_heads: Annotated[int, Ge(1), Doc("Key-value heads; divides num_heads.")]
    batch_size: Annotated[int, Ge(1), Doc("Sequences per step.")]
    clean_steps: Annotated[int, Ge(0), Doc("Steps on correct solutions.")]
    noisy_steps: Annotated[int, Ge(0), Doc("Then steps on solutions with slips.")]
    slip_probability: Annotated[float, Ge(0), Le(1), Doc("Chance that a solution step slips.")]
    lr: Annotated[float, Gt(0), Doc("Peak learning rate.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeConfig:
    """The machine."""

    device: Annotated[Literal["cpu", "cuda"], Doc("Where tensors live.")]
    threads: Annotated[int, Ge(1), Doc("CPU threads of one process.")]
    train_python: Annotated[
        str | None,
        Doc(
            "Python that runs verl, of the environment in docs/gpu.md; null: GMTS_TRAIN_PYTHON if "
            "set, else this one."
        ),
    ]
