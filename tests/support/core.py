"""Batches and settings for tests of the core."""

import torch

from gmts.batch import TokenBatch, TokenStats
from gmts.objective.config import ObjectiveConfig
from gmts.rewards.config import OverlongConfig
from gmts.selection.config import SelectionConfig


def objective(**changes) -> ObjectiveConfig:
    values = {
        "algorithm": "dapo",
        "clip_ratio_low": 0.2,
        "clip_ratio_high": 0.28,
        "dual_clip": None,
        "beta": 0.0,
        "normalize_by_std": True,
        "std_ddof": 1,
        "denominator": "selected",
        "mask_kl": True,
        "kl_zero_tolerance": 0.0,
        "overlong_filter": False,
        "rollout_is": None,
        "rollout_is_threshold": 2.0,
    }
    return ObjectiveConfig(**(values | changes))


def selection(**changes) -> SelectionConfig:
    values = {
        "score": "gmts",
        "ratio": 0.2,
        "side": "top",
        "scope": "batch",
        "score_policy": "current",
        "custom": None,
    }
    return SelectionConfig(**(values | changes))


def overlong(buffer_tokens=None, factor=1.0) -> OverlongConfig:
    return OverlongConfig(buffer_tokens=buffer_tokens, factor=factor)


def token_batch(
    mask, *, old=None, ref=None, rollout=None, advantages=None, sample_ids=None, group_ids=None
):
    """Return a TokenBatch around a bool mask [B, T]; what is not given is zero or counted."""
    mask = torch.as_tensor(mask, dtype=torch.bool)
    rows = len(mask)
    old = torch.zeros(mask.shape, dtype=torch.float64) if old is None else old
    return TokenBatch(
        response_ids=torch.zeros(mask.shape, dtype=torch.long),
        response_mask=mask,
        old_log_probs=old,
        ref_log_probs=ref,
        advantages=torch.zeros(rows, dtype=old.dtype) if advantages is None else advantages,
        sample_ids=torch.arange(rows) if sample_ids is None else torch.as_tensor(sample_ids),
        group_ids=torch.zeros(rows, dtype=torch.long)
        if group_ids is None
        else torch.as_tensor(group_ids),
        rollout_log_probs=rollout,
    )


def token_stats(log_probs, entropy=None, norm=None) -> TokenStats:
    """Return statistics; entropy and norm default to 1."""
    ones = torch.ones_like(log_probs)
    return TokenStats(
        log_probs=log_probs,
        entropy=ones if entropy is None else entropy,
        logit_grad_norm=ones if norm is None else norm,
    )
