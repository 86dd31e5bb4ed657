"""Settings of verl that would contradict our selection and loss."""

from collections.abc import Callable, Mapping
from typing import Any

from gmts.trainers.verl.options import ESTIMATORS, VerlOptions

Rule = tuple[Callable[[Any, VerlOptions], bool], str]

_RULES: Mapping[str, Rule] = {
    "algorithm.adv_estimator": (
        lambda value, options: value == ESTIMATORS[options.objective.std_ddof],
        "gmts_group with objective.std_ddof 1, gmts_group_population with 0",
    ),
    "algorithm.norm_adv_by_std_in_grpo": (
        lambda value, options: value == options.objective.normalize_by_std,
        "objective.normalize_by_std",
    ),
    "algorithm.use_kl_in_reward": (lambda value, _: not value, "false: KL is part of the loss"),
    "algorithm.rollout_correction.bypass_mode": (
        lambda value, _: not value,
        "false: old log-probs are the training engine's",
    ),
    "algorithm.rollout_correction.rollout_is": (
        lambda value, options: value == options.objective.rollout_is,
        "objective.rollout_is",
    ),
    "algorithm.rollout_correction.rollout_is_threshold": (
        lambda value, options: (
            options.objective.rollout_is is None or value == options.objective.rollout_is_threshold
        ),
        "objective.rollout_is_threshold",
    ),
    "algorithm.rollout_correction.rollout_is_batch_normalize": (
        lambda value, _: not value,
        "false: weights are what they are",
    ),
    "algorithm.rollout_correction.rollout_rs": (
        lambda value, _: value is None,
        "null: rejected tokens are no part of omega",
    ),
    "actor_rollout_ref.actor.entropy_coeff": (
        lambda value, _: value == 0,
        "0: an entropy bonus is no part of omega",
    ),
    "actor_rollout_ref.actor.use_kl_loss": (
        lambda value, options: value == (options.objective.beta > 0),
        "true if objective.beta > 0, else false",
    ),
    "actor_rollout_ref.actor.shuffle": (
        lambda value, _: not value,
        "false: mini-batches hold whole groups",
    ),
    "actor_rollout_ref.actor.loss_scale_factor": (
        lambda value, options: options.selection.score == "none" or value is None,
        "null with selection: weights are final",
    ),
    "actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size": (
        lambda value, _: value == 1,
        "1",
    ),
    "actor_rollout_ref.model.use_fused_kernels": (
        lambda value, _: not value,
        "false: entropies come from logits",
    ),
    "actor_rollout_ref.rollout.calculate_log_probs": (
        lambda value, options: options.objective.rollout_is is None or value,
        "true with objective.rollout_is",
    ),
    "actor_rollout_ref.rollout.top_p": (lambda value, _: value == 1, "1"),
    "actor_rollout_ref.rollout.top_k": (lambda value, _: value in (-1, 0), "-1"),
    "trainer.critic_warmup": (lambda value, _: value == 0, "0: there is no critic"),
}


def check_config(select: Callable[[str], Any], options: VerlOptions) -> None:
    """Refuse a configuration of verl under which we would train on something else.

    Args:
        select: Returns the value of a dotted key, None if there is none.
        options: Ours.

    Raises:
        ValueError: Naming the key, the rule and the value.
    """
    if options.objective.overlong_filter:
        raise ValueError("objective.overlong_filter must be false with the verl backend, got true")
    for key, (allowed, rule) in _RULES.items():
        value = select(key)
        if not allowed(value, options):
            raise ValueError(f"{key} must be {rule}, got {value!r}")
