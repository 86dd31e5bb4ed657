"""Token scores: how much a token's update is expected to matter. Larger comes first."""

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
    """Who may be selected: not a token with score 0, except by ets and random."""


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
    if mask.dtype != torch.bool:
        raise ValueError(f"response_mask must be bool, got {mask.dtype}")
    if score == "none":
        values = torch.ones(mask.shape, device=mask.device)
    elif score == "random":
        values = _random(batch, seed, step)
    else:
        function = custom if score == "custom" else SCORES[score]
        if function is None:
            raise ValueError("custom must be a function when selection.score is custom, got None")
        values = function(stats, omega.detach())
    if values.shape != mask.shape:
        raise ValueError(f"scores must have shape {tuple(mask.shape)}, got {tuple(values.shape)}")
    values = torch.where(mask, values.detach().float(), 0.0)
    _check(values, batch)
    return Scores(values=values, eligible=mask if score in _EVERY_TOKEN else mask & (values > 0))


def _random(batch: TokenBatch, seed: int, step: int) -> Tensor:
    rows, positions = batch.response_mask.nonzero(as_tuple=True)
    values = torch.zeros(batch.response_mask.shape, device=rows.device)
    values[rows, positions] = random_scores(batch.sample_ids[rows], positions, seed=seed, step=step)
    return values


def _check(values: Tensor, batch: TokenBatch) -> None:
    broken = ~(torch.isfinite(values) & (values >= 0))
    if bool(broken.any()):
        row, position = broken.nonzero()[0].tolist()
        raise ValueError(
            f"the score of sample {int(batch.sample_ids[row])} at position {position} must be "
            f"finite and >= 0, got {values[row, position].item()}"
        )
