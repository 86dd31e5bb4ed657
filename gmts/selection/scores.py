"""Token scores: how much a token's update is expected to matter. Larger comes first."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gmts.batch import TokenBatch, TokenStats
from gmts.selection.config import ScoreName
from gmts.selection.ties import random_scores

ScoreFunction = Callable[[TokenStats, Tensor], Tensor]
"""(statistics, omega [B, T]) -> scores [B, T], >= 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Scores and who may be selected."""

    values: Float[Tensor, "B T"]
    """float32; 0 outside the response mask."""
    eligible: Bool[Tensor, "B T"]
    """Response tokens that may be selected: with ets and random all, otherwise those above 0."""


def gmts(stats: TokenStats, omega: Tensor) -> Tensor:
    """Return |omega E|. Source: arXiv 2608.30632, section 3.2."""
    return omega.abs() * stats.entropy


def ets(stats: TokenStats, omega: Tensor) -> Tensor:
    """Return the entropy E. Source: arXiv 2506.01939."""
    del omega
    return stats.entropy


def logit_gradient(stats: TokenStats, omega: Tensor) -> Tensor:
    """Return |omega| ||onehot(o) - p||, the norm of the loss's gradient in the logits."""
    return omega.abs() * stats.logit_grad_norm


def advantage(stats: TokenStats, omega: Tensor) -> Tensor:
    """Return |omega|."""
    del stats
    return omega.abs()


SCORES: dict[ScoreName, ScoreFunction] = {
    "gmts": gmts,
    "ets": ets,
    "logit_gradient": logit_gradient,
    "advantage": advantage,
}
"""Scores that are functions of the token alone; a new one is a function and an entry here."""

_EVERY_TOKEN: tuple[ScoreName, ...] = ("ets", "random", "none")
"""Scores under which every response token is eligible, whatever its value."""


def score_tokens(
    stats: TokenStats,
    omega: Float[Tensor, "B T"],
    batch: TokenBatch,
    score: ScoreName,
    *,
    seed: int,
    step: int,
    custom: ScoreFunction | None = None,
) -> Scores:
    """Score every response token, without gradient, in float32.

    Args:
        stats: Of the policy that is scored.
        omega: Coefficient of each token's gradient.
        batch: Mask and sample ids.
        score: Name of the score.
        seed: Of the run, for random.
        step: Optimizer step, for random.
        custom: The function behind `custom`.

    Raises:
        ValueError: If a score is NaN, infinite or negative (sample id, position and value are
            named), the mask is not bool, or shapes disagree.
    """
    mask = batch.response_mask
    _check_shapes(stats, omega, batch)
    if score == "none":
        values = torch.ones(mask.shape, device=mask.device)
    elif score == "random":
        values = random_scores(batch.sample_ids, mask, seed=seed, step=step)
    else:
        function = custom if score == "custom" else SCORES[score]
        if function is None:
            raise ValueError("custom must be a function when selection.score is custom, got None")
        values = function(stats, omega.detach())
    if values.shape != mask.shape:
        raise ValueError(f"scores must have shape {tuple(mask.shape)}, got {tuple(values.shape)}")
    values = torch.where(mask, values.detach().float(), 0.0)
    problem = first_broken(values, batch)
    if problem is not None:
        raise ValueError(problem)
    return Scores(values=values, eligible=mask if score in _EVERY_TOKEN else mask & (values > 0))


def first_broken(values: Float[Tensor, "B T"], batch: TokenBatch) -> str | None:
    """Return which response token has a NaN, infinite or negative score, in words; or None."""
    if not values.numel():
        return None
    low, high = torch.stack(values.aminmax()).tolist()  # NaN if there is one
    if low >= 0 and high < math.inf:
        return None
    broken = batch.response_mask & ~((values >= 0) & (values < math.inf))
    if not bool(broken.any()):
        return None
    row, column = broken.nonzero()[0].tolist()
    return (
        f"the score of sample {int(batch.sample_ids[row])} at position {column} must be finite "
        f"and >= 0, got {values[row, column].item()}"
    )


def _check_shapes(stats: TokenStats, omega: Tensor, batch: TokenBatch) -> None:
    mask = batch.response_mask
    if mask.dtype != torch.bool:
        raise ValueError(f"response_mask must be bool, got {mask.dtype}")
    for name, tensor in (
        ("omega", omega),
        ("log_probs", stats.log_probs),
        ("entropy", stats.entropy),
        ("logit_grad_norm", stats.logit_grad_norm),
    ):
        if tensor.shape != mask.shape:
            raise ValueError(
                f"{name} must have the shape of response_mask {tuple(mask.shape)}, got "
                f"{tuple(tensor.shape)}"
            )
