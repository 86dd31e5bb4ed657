"""Group advantages."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

_EPSILON = 1e-6
_SMALLEST_GROUP = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAdvantages:
    """Advantages and which responses take part."""

    advantages: Float[Tensor, " B"]
    """0 where `valid` is False."""
    valid: Bool[Tensor, " B"]
    """False for rejected rewards and for groups that they left with fewer than two responses."""


def group_advantages(
    scores: Float[Tensor, " B"],
    group_ids: Int[Tensor, " B"],
    valid: Bool[Tensor, " B"],
    *,
    normalize_by_std: bool,
    std_ddof: int,
) -> GroupAdvantages:
    """Return A_i = (R_i - mean R) / (std R + 1e-6) within each group, computed in float64.

    A group whose scores are all equal gets exactly 0. A response with a rejected reward counts
    neither in the mean nor in the deviation.

    Args:
        scores: Rewards R.
        group_ids: The question of each response.
        valid: False where the reward was rejected.
        normalize_by_std: Divide by the deviation (not in Dr. GRPO).
        std_ddof: 1 for the sample deviation, 0 for the population's.

    Raises:
        ValueError: If a valid score is NaN or infinite (the response is named), `valid` is not
            bool, or shapes disagree.

    Source: arXiv 2402.03300, section 4.1.2.
    """
    if valid.dtype != torch.bool:
        raise ValueError(f"valid must be bool, got {valid.dtype}")
    for name, tensor in (("group_ids", group_ids), ("valid", valid)):
        if tensor.shape != scores.shape:
            raise ValueError(
                f"{name} must have the shape of scores {tuple(scores.shape)}, got "
                f"{tuple(tensor.shape)}"
            )
    broken = (valid & ~torch.isfinite(scores)).nonzero()
    if len(broken):
        index = int(broken[0])
        raise ValueError(
            f"the reward of response {index} (group {int(group_ids[index])}) must be finite, got "
            f"{scores[index].item()}"
        )
    advantages = torch.zeros(len(scores), dtype=torch.float64, device=scores.device)
    kept = valid.clone()
    _, group = torch.unique(group_ids, return_inverse=True)
    for index in range(int(group.max()) + 1 if len(group) else 0):
        rows = (group == index) & valid
        if int(rows.sum()) < _SMALLEST_GROUP:
            kept &= ~(group == index)
            continue
        values = scores[rows].double()
        if bool((values == values[0]).all()):
            continue
        centred = values - values.mean()
        if normalize_by_std:
            centred = centred / (values.std(correction=std_ddof) + _EPSILON)
        advantages[rows] = centred
    dtype = scores.dtype if scores.is_floating_point() else torch.float32
    return GroupAdvantages(advantages=advantages.to(dtype), valid=kept)
