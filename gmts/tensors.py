"""Masked reductions. Every mask is boolean, every denominator an argument."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def masked_sum(values: Float[Tensor, "*shape"], mask: Bool[Tensor, "*shape"]) -> Float[Tensor, ""]:
    """Return the sum of `values` where `mask` is True; other positions may hold NaN or infinity."""
    return torch.where(
        mask, values, torch.zeros((), dtype=values.dtype, device=values.device)
    ).sum()


def masked_mean(
    values: Float[Tensor, "*shape"], mask: Bool[Tensor, "*shape"], *, denominator: float
) -> Float[Tensor, ""]:
    """Return the masked sum divided by `denominator`; 0 where `denominator` is 0."""
    total = masked_sum(values, mask)
    return total / denominator if denominator else total * 0.0
