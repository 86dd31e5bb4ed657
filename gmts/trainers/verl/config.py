"""The part of an experiment that verl is told, and what of it verl cannot do."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Self

from gmts.models.config import ModelConfig
from gmts.objective.config import ObjectiveConfig
from gmts.rewards.config import RewardsConfig
from gmts.rollout.config import RolloutConfig
from gmts.selection.config import SelectionConfig
from gmts.trainers.config import RuntimeConfig, TrackingConfig, TrainConfig, VerlConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """The sections of params.yaml that training reads, and the length that prompts are held to."""

    seed: int
    model: ModelConfig
    rewards: RewardsConfig
    rollout: RolloutConfig
    objective: ObjectiveConfig
    selection: SelectionConfig
    train: TrainConfig
    verl: VerlConfig
    tracking: TrackingConfig
    runtime: RuntimeConfig
    max_prompt_tokens: int
    """No prepared prompt is longer: data.max_prompt_tokens, which the manifest repeats."""

    @classmethod
    def of(cls, params: Any, max_prompt_tokens: int) -> Self:
        """Return the experiment in `params`, an object with the sections as attributes."""
        sections = {f.name: getattr(params, f.name) for f in fields(cls) if hasattr(params, f.name)}
        return cls(**sections, max_prompt_tokens=max_prompt_tokens)

    @property
    def num_ranks(self) -> int:
        """Processes that train together."""
        return self.verl.nodes * self.verl.ranks_per_node

    @property
    def max_tokens(self) -> int:
        """Tokens of the longest prompt with the longest response."""
        return self.max_prompt_tokens + self.rollout.max_response_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A value that backend standalone takes and backend verl does not."""

    key: str
    applies: Callable[[Experiment], bool]
    rule: Callable[[Experiment], str]
    """What the value must be."""
    reason: str


def _says(text: str) -> Callable[[Experiment], str]:
    return lambda _: text


REFUSALS: tuple[Refusal, ...] = (
    Refusal(
        key="model.template",
        applies=lambda e: e.model.template != "tokenizer",
        rule=_says("tokenizer"),
        reason="verl renders prompts with the tokenizer's chat template only",
    ),
    Refusal(
        key="objective.overlong_filter",
        applies=lambda e: e.objective.overlong_filter,
        rule=_says("false"),
        reason="verl keeps responses that were cut at the length limit in its loss",
    ),
    Refusal(
        key="selection.scope",
        applies=lambda e: e.selection.score != "none" and e.selection.scope == "micro_batch",
        rule=_says("batch or group"),
        reason="tokens are selected before verl splits the mini-batch",
    ),
    Refusal(
        key="train.optimizer.warmup_steps",
        applies=lambda e: e.train.optimizer.warmup_steps != 0,
        rule=_says("0"),
        reason="verl counts warm-up in rollout batches and starts from a rate of 0; to have its "
        "own warm-up set actor_rollout_ref.actor.optim.lr_warmup_steps in verl.overrides",
    ),
    Refusal(
        key="train.dynamic_sampling.surplus",
        applies=lambda e: (
            e.train.dynamic_sampling.enabled and e.train.dynamic_sampling.surplus != "discard"
        ),
        rule=_says("discard"),
        reason="verl's synchronous trainer discards mixed groups beyond a full batch",
    ),
    Refusal(
        key="train.validation_every",
        applies=lambda e: e.train.validation_every % e.train.checkpoint_every != 0,
        rule=lambda e: f"a multiple of train.checkpoint_every ({e.train.checkpoint_every})",
        reason="the best policy is taken from a checkpoint",
    ),
    Refusal(
        key="train.questions_per_mini_batch",
        applies=lambda e: (
            (e.train.questions_per_mini_batch * e.rollout.group_size) % e.num_ranks != 0
        ),
        rule=lambda e: (
            f"such that its {e.rollout.group_size} responses per question spread evenly over "
            f"{e.num_ranks} ranks (verl.nodes x verl.ranks_per_node)"
        ),
        reason="verl gives every rank the same number of responses",
    ),
    Refusal(
        key="train.micro_batch_tokens",
        applies=lambda e: (
            e.verl.micro_batch_size is None and e.train.micro_batch_tokens < e.max_tokens
        ),
        rule=lambda e: (
            f">= {e.max_tokens} (prompts of up to {e.max_prompt_tokens} tokens and "
            f"rollout.max_response_tokens {e.rollout.max_response_tokens})"
        ),
        reason="verl never splits a response; or set verl.micro_batch_size",
    ),
    Refusal(
        key="verl.log_prob_micro_batch_tokens",
        applies=lambda e: (
            e.verl.micro_batch_size is None and e.verl.log_prob_micro_batch_tokens < e.max_tokens
        ),
        rule=lambda e: f">= {e.max_tokens}, as train.micro_batch_tokens",
        reason="verl never splits a response; or set verl.micro_batch_size",
    ),
    Refusal(
        key="verl.tensor_parallel",
        applies=lambda e: e.verl.ranks_per_node % e.verl.tensor_parallel != 0,
        rule=lambda e: f"a divisor of verl.ranks_per_node ({e.verl.ranks_per_node})",
        reason="each copy of the rollout engine lies on the GPUs of one machine",
    ),
    Refusal(
        key="verl.tensor_parallel",
        applies=lambda e: e.verl.rollout_engine == "transformers" and e.verl.tensor_parallel != 1,
        rule=_says("1 with verl.rollout_engine transformers"),
        reason="our sampler has the whole model in one process",
    ),
    Refusal(
        key="verl.attention",
        applies=lambda e: e.runtime.device == "cpu" and e.verl.attention != "sdpa",
        rule=_says("sdpa with runtime.device cpu"),
        reason="flash attention needs a GPU",
    ),
)


def refusals(experiment: Experiment) -> list[str]:
    """Return in words every value that backend verl does not take; empty when it takes all."""
    return [
        f"{refusal.key} must be {refusal.rule(experiment)} with train.backend verl, got "
        f"{_value(experiment, refusal.key)}: {refusal.reason}"
        for refusal in REFUSALS
        if refusal.applies(experiment)
    ]


def _value(experiment: Experiment, key: str) -> str:
    value: Any = experiment
    for name in key.split("."):
        value = getattr(value, name)
    return str(value).lower() if isinstance(value, bool) else str(value)
