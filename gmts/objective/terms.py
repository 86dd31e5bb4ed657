"""The objective of every token as a pair: its loss, and omega, the coefficient of its gradient.

    l = min(r A, clip(r, 1 - eps1, 1 + eps2) A) - beta D        to be maximised
    grad l = omega grad log pi(o)
    omega = r A I(r, A) + beta (pi_ref / pi - 1)

With objective.rollout_is the first term of l and of omega is multiplied by the number
w = min(pi_old / pi_rollout, C): truncated importance sampling from an engine whose probabilities
are not quite the trainer's.

Everything is [B, T]. Masked positions are replaced by 0 before any exponential, so that they hold
exact zeros and 0 * infinity never appears. Clamps are verl's: log r to [-20, 20] (GSPO: log s to at
most 10), log(pi_ref / pi) to [-20, 20], D to at most 10; beyond a clamp that part of omega is 0.

Source: arXiv 2608.30632, section 3; docs/objective.md.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gmts.batch import TokenBatch
from gmts.objective.algorithms import ALGORITHMS
from gmts.objective.config import ObjectiveConfig

LOG_RATIO_LIMIT = 20.0
LOG_SEQUENCE_RATIO_LIMIT = 10.0
KL_LIMIT = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveTerms:
    """Losses with gradient, and what selection and metrics need, without."""

    pg_loss: Float[Tensor, "B T"]
    """Minus the clipped surrogate."""
    pg_omega: Float[Tensor, "B T"]
    """-d pg_loss / d log pi(o)."""
    kl_loss: Float[Tensor, "B T"]
    """beta D; 0 where |log(pi_ref / pi)| is within kl_zero_tolerance."""
    kl_omega: Float[Tensor, "B T"]
    """-d kl_loss / d log pi(o)."""
    clipped_low: Bool[Tensor, "B T"]
    """A < 0 and r < 1 - eps1."""
    clipped_high: Bool[Tensor, "B T"]
    """A > 0 and r > 1 + eps2."""
    clipped_dual: Bool[Tensor, "B T"]
    """A < 0 and r > c."""
    clamped: Bool[Tensor, "B T"]
    """A numeric clamp was in force."""
    rollout_weights: Float[Tensor, "B T"] | None
    """w, in (0, C], part of pg_loss and pg_omega; None without objective.rollout_is."""
    truncated: Bool[Tensor, "B T"]
    """pi_old / pi_rollout > C."""

    def omega(self, *, mask_kl: bool) -> Float[Tensor, "B T"]:
        """Return the coefficient by which tokens are scored; KL is part of it if it is masked."""
        return self.pg_omega + self.kl_omega if mask_kl else self.pg_omega


def objective_terms(
    log_probs: Float[Tensor, "B T"], batch: TokenBatch, config: ObjectiveConfig
) -> ObjectiveTerms:
    """Return the terms of every response token under the policy behind `log_probs`.

    Args:
        log_probs: log pi(o) of the sampled tokens; gradients flow through it alone. GSPO needs
            every response token of a row, the others only those that carry loss.
        batch: Old, reference and rollout log-probs, advantages, mask.
        config: Algorithm, clip bounds, beta, rollout weights.

    Raises:
        ValueError: If shapes or the mask's dtype are wrong, or the reference of a KL term or the
            log-probs behind rollout weights are missing.
    """
    _check(log_probs, batch, config)
    mask, zero = batch.response_mask, log_probs.new_zeros(())
    advantages = batch.advantages.to(log_probs.dtype)[:, None].expand_as(log_probs)
    advantages = torch.where(mask, advantages, zero)
    log_ratio = torch.where(mask, log_probs - batch.old_log_probs, zero)
    ratio, beyond = _RATIOS[ALGORITHMS[config.algorithm].ratio_level](log_ratio, mask)
    value = ratio.detach()
    high = (advantages > 0) & (value > 1 + config.clip_ratio_high)
    low = (advantages < 0) & (value < 1 - config.clip_ratio_low)
    dual = torch.zeros_like(mask)
    surrogate = torch.where(high, (1 + config.clip_ratio_high) * advantages, ratio * advantages)
    surrogate = torch.where(low, (1 - config.clip_ratio_low) * advantages, surrogate)
    if config.dual_clip is not None:
        dual = (advantages < 0) & (value > config.dual_clip)
        surrogate = torch.where(dual, config.dual_clip * advantages, surrogate)
    inactive = high | low | dual | beyond
    pg_omega = torch.where(inactive, zero, value * advantages)
    weights, truncated = _rollout_weights(log_probs, batch, config)
    if weights is not None:
        surrogate, pg_omega = surrogate * weights, pg_omega * weights
    kl_loss, kl_omega, kl_beyond = _kl(log_probs, batch, config)
    return ObjectiveTerms(
        pg_loss=-surrogate,
        pg_omega=pg_omega,
        kl_loss=kl_loss,
        kl_omega=kl_omega,
        clipped_low=low,
        clipped_high=high,
        clipped_dual=dual,
        clamped=beyond | kl_beyond,
        rollout_weights=weights,
        truncated=truncated,
    )


def _token_ratio(log_ratio: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return r of each token, and where its clamp cuts the gradient."""
    del mask
    beyond = log_ratio.detach().abs() > LOG_RATIO_LIMIT
    return log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp(), beyond


def _sequence_ratio(log_ratio: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return sg(s_i) pi / sg(pi) of each token, and where the clamp of s_i cuts the gradient.

    With a plain s_i every token of a response would receive gradient through every other one.
    """
    counts = mask.sum(1, keepdim=True).clamp_min(1)
    log_s = log_ratio.detach().sum(1, keepdim=True) / counts
    beyond = (log_s > LOG_SEQUENCE_RATIO_LIMIT).expand_as(mask) & mask
    s = log_s.clamp_max(LOG_SEQUENCE_RATIO_LIMIT).exp()
    own = (log_ratio - log_ratio.detach()).exp()
    return torch.where(beyond, s, s * own), beyond


_RATIOS = {"token": _token_ratio, "sequence": _sequence_ratio}


def _rollout_weights(
    log_probs: Tensor, batch: TokenBatch, config: ObjectiveConfig
) -> tuple[Tensor | None, Tensor]:
    """Return w and where it is truncated; log(pi_old / pi_rollout) is clamped like log r.

    Source: https://fengyao.notion.site/off-policy-rl (token-level TIS), as in verl's
    algorithm.rollout_correction.rollout_is.
    """
    mask = batch.response_mask
    if config.rollout_is is None or batch.rollout_log_probs is None:
        return None, torch.zeros_like(mask)
    zero = log_probs.new_zeros(())
    log_ratio = torch.where(mask, batch.old_log_probs - batch.rollout_log_probs, zero).detach()
    ratio = log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp().to(log_probs.dtype)
    weights = torch.where(mask, ratio.clamp_max(config.rollout_is_threshold), zero)
    return weights, mask & (ratio > config.rollout_is_threshold)


def _kl(
    log_probs: Tensor, batch: TokenBatch, config: ObjectiveConfig
) -> tuple[Tensor, Tensor, Tensor]:
    """Return beta D, its omega, and where a clamp is in force; k3 of Schulman 2020."""
    if config.beta == 0 or batch.ref_log_probs is None:
        nothing = torch.zeros_like(log_probs.detach())
        return nothing, nothing, torch.zeros_like(batch.response_mask)
    zero = log_probs.new_zeros(())
    raw = torch.where(batch.response_mask, batch.ref_log_probs - log_probs, zero)
    # Rounding apart the two policies agree: loss and omega say so alike.
    raw = torch.where(raw.detach().abs() < config.kl_zero_tolerance, zero, raw)
    log_ratio = raw.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    divergence = log_ratio.exp() - log_ratio - 1
    value = raw.detach()
    beyond = (value.abs() > LOG_RATIO_LIMIT) | (divergence.detach() > KL_LIMIT)
    omega = torch.where(beyond, zero, config.beta * (log_ratio.detach().exp() - 1))
    return config.beta * divergence.clamp_max(KL_LIMIT), omega, beyond


def _check(log_probs: Tensor, batch: TokenBatch, config: ObjectiveConfig) -> None:
    mask = batch.response_mask
    if mask.dtype != torch.bool:
        raise ValueError(f"response_mask must be bool, got {mask.dtype}")
    for name, tensor in (
        ("log_probs", log_probs),
        ("old_log_probs", batch.old_log_probs),
        ("ref_log_probs", batch.ref_log_probs),
        ("rollout_log_probs", batch.rollout_log_probs),
    ):
        if tensor is not None and tensor.shape != mask.shape:
            raise ValueError(
                f"{name} must have the shape of response_mask {tuple(mask.shape)}, got "
                f"{tuple(tensor.shape)}"
            )
    if batch.advantages.shape != mask.shape[:1]:
        raise ValueError(
            f"advantages must have the shape {tuple(mask.shape[:1])}, got "
            f"{tuple(batch.advantages.shape)}"
        )
    if config.beta > 0 and batch.ref_log_probs is None:
        raise ValueError(f"ref_log_probs must be given with objective.beta {config.beta}, got None")
    if config.rollout_is is not None and batch.rollout_log_probs is None:
        raise ValueError(
            f"rollout_log_probs must be given with objective.rollout_is {config.rollout_is}, "
            "got None"
        )
