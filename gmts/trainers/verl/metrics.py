"""Metrics of a verl run under the standalone trainer's names."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

PREFIX = "gmts/"
"""Of our metrics among verl's."""

_VERLS: Mapping[str, str] = {
    "actor/lr": "train/lr",
    "actor/loss": "train/loss",
    "actor/grad_norm": "train/grad_norm",
    "actor/entropy": "policy/entropy",
    "actor/kl_loss": "policy/kl",
    "actor/pg_clipfrac": "policy/clipped",
    "training/rollout_probs_diff_mean": "rollout/probability_gap_mean",
    "training/rollout_probs_diff_max": "rollout/probability_gap_max",
    "rollout_corr/rollout_is_mean": "rollout/is_weight_mean",
    "rollout_corr/rollout_is_ratio_fraction_high": "rollout/is_weight_truncated",
    "training/epoch": "data/epoch",
    "timing_s/gen": "time/rollout",
    "timing_s/old_log_prob": "time/old_log_probs",
    "timing_s/ref": "time/reference",
    "timing_s/update_actor": "time/update",
    "timing_s/step": "time/step",
    "timing_s/testing": "time/validation",
    "timing_s/save_checkpoint": "time/checkpoint",
}
"""verl's own metrics that have a name with us. Ours, where both exist, come first."""

_VALIDATION = "val-core/"


def rollout_metrics(
    *,
    groups: Sequence[str],
    lengths: Sequence[int],
    scores: Sequence[float],
    extras: Sequence[Mapping[str, Any]],
    filtered: Counter[float],
    num_sampled: int,
    group_size: int,
    batch_size: int,
) -> dict[str, float]:
    """Return metrics of a step's rollouts.

    Means over the responses that are trained on; reward/correct and the counts of groups also over
    those that the group filter took out, whose responses verl has dropped by then. Surplus mixed
    groups, which verl discards, count in groups/sampled alone.

    Args:
        groups: Group of each response.
        lengths: Tokens of each response.
        scores: Its reward.
        extras: What came with it: `reward_extra_info` with `acc`, the verdict.
        filtered: Number of filtered groups by the verdict that their responses share.
        num_sampled: Groups asked for.
        group_size: Responses per group.
        batch_size: Groups of a rollout batch.
    """
    verdicts = [float(extra["reward_extra_info"]["acc"]) > 0 for extra in extras]
    of_group = defaultdict(list)
    for group, verdict in zip(groups, verdicts, strict=True):
        of_group[group].append(verdict)
    wrong = sum(count for value, count in filtered.items() if value <= 0)
    right = sum(count for value, count in filtered.items() if value > 0)
    num_correct = sum(verdicts) + right * group_size
    num_judged = len(verdicts) + (wrong + right) * group_size
    return {
        "reward/mean": sum(scores) / len(scores),
        "reward/correct": num_correct / num_judged,
        "response/length_mean": sum(lengths) / len(lengths),
        "response/length_min": min(lengths),
        "response/length_max": max(lengths),
        "groups/sampled": num_sampled,
        "groups/trained": len(of_group),
        "groups/all_wrong": wrong + sum(not any(own) for own in of_group.values()),
        "groups/all_right": right + sum(all(own) for own in of_group.values()),
        "groups/discarded": num_sampled - wrong - right - len(of_group),
        "rollout/batches": -(-num_sampled // batch_size),
    }


def translated(record: Mapping[str, Any]) -> dict[str, float]:
    """Return a step's record of verl's file logger under our names; what has none is left out."""
    found: dict[str, float] = {}
    for name, value in record.items():
        if name in _VERLS:
            found[_VERLS[name]] = float(value)
        elif name.startswith(_VALIDATION) and "/acc/mean@" in name:
            found["validation/accuracy"] = float(value)
    for name, value in record.items():
        own = name.removeprefix("actor/")
        if own.startswith(PREFIX):
            found[own.removeprefix(PREFIX)] = float(value)
    return found
