"""Our group advantages as estimators of verl: `algorithm.adv_estimator=gmts_group`.

verl's own GRPO estimator sums in float32, so that equal rewards need not give exactly 0.

The penalty for length is added here and not to the rewards, which decide whether a group is mixed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy
import torch
from torch import Tensor
from verl.trainer.ppo.core_algos import register_adv_est

from gmts.objective.advantage import group_advantages
from gmts.rewards.config import OverlongConfig
from gmts.rewards.overlong import overlong_penalty
from gmts.trainers.verl.options import ESTIMATORS

PENALTY = "gmts_penalty"
"""Where the estimators find the penalty in the section `algorithm`, all of verl's that they see."""


def penalty_node(overlong: OverlongConfig, max_response_tokens: int) -> dict[str, Any]:
    """Return what belongs at `PENALTY`."""
    return {"overlong": asdict(overlong), "max_response_tokens": max_response_tokens}


def _shaped(scores: Tensor, mask: Tensor, node: Mapping[str, Any] | None) -> Tensor:
    """Return the rewards [B] with what each response's length costs."""
    if node is None:
        return scores
    penalty = partial(
        overlong_penalty,
        config=OverlongConfig(**node["overlong"]),
        max_response_tokens=int(node["max_response_tokens"]),
    )
    costs = [penalty(length) for length in mask.bool().sum(-1).tolist()]
    return (scores.double() + scores.new_tensor(costs, dtype=torch.float64)).to(scores.dtype)


def _estimate(
    rewards: Tensor, mask: Tensor, index: Sequence[Any], config: Any, std_ddof: int
) -> tuple[Tensor, Tensor]:
    """Return (advantages, returns), [B, T] each: the advantage on every response token.

    Raises:
        ValueError: If a reward is NaN or infinite.
    """
    _, groups = numpy.unique(numpy.asarray(index, dtype=str), return_inverse=True)
    scores = _shaped(rewards.sum(-1), mask, config.get(PENALTY))
    found = group_advantages(
        scores,
        torch.from_numpy(groups).to(scores.device),
        torch.ones_like(scores, dtype=torch.bool),
        normalize_by_std=bool(config.get("norm_adv_by_std_in_grpo", True)),
        std_ddof=std_ddof,
    )
    advantages = torch.where(mask.bool(), found.advantages[:, None], 0.0)
    return advantages, advantages


@register_adv_est(ESTIMATORS[1])
def sample_deviation(
    token_level_rewards: Tensor, response_mask: Tensor, index: Sequence[Any], config: Any, **_: Any
) -> tuple[Tensor, Tensor]:
    """Divide by the sample deviation, ddof 1."""
    return _estimate(token_level_rewards, response_mask, index, config, 1)


@register_adv_est(ESTIMATORS[0])
def population_deviation(
    token_level_rewards: Tensor, response_mask: Tensor, index: Sequence[Any], config: Any, **_: Any
) -> tuple[Tensor, Tensor]:
    """Divide by the population's deviation, ddof 0."""
    return _estimate(token_level_rewards, response_mask, index, config, 0)
