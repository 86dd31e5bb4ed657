"""Our group advantages as estimators of verl: `algorithm.adv_estimator=gmts_group`.

verl's own GRPO estimator sums in float32, so that equal rewards need not give exactly 0.
"""

from collections.abc import Sequence
from typing import Any

import numpy
import torch
from torch import Tensor
from verl.trainer.ppo.core_algos import register_adv_est

from gmts.objective.advantage import group_advantages
from gmts.trainers.verl.options import ESTIMATORS


def _estimate(
    rewards: Tensor, mask: Tensor, index: Sequence[Any], config: Any, std_ddof: int
) -> tuple[Tensor, Tensor]:
    """Return (advantages, returns), [B, T] each: the advantage on every response token.

    Raises:
        ValueError: If a reward is NaN or infinite.
    """
    _, groups = numpy.unique(numpy.asarray(index, dtype=str), return_inverse=True)
    scores = rewards.sum(-1)
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
