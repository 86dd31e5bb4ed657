"""What a mini-batch's backward pass will do: scores, selection, weights, and their metrics."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor
from torch.distributed import ProcessGroup, ReduceOp, all_reduce

from gmts.batch import TokenBatch, TokenStats
from gmts.objective.algorithms import ALGORITHMS
from gmts.objective.config import ObjectiveConfig
from gmts.objective.signal import Signal, signal_of
from gmts.objective.terms import ObjectiveTerms, objective_terms
from gmts.objective.weights import LossWeights, loss_weights
from gmts.selection.config import SelectionConfig
from gmts.selection.scores import ScoreFunction, Scores, score_tokens
from gmts.selection.select import Selection, select_tokens
from gmts.selection.statistics import selection_metrics
from gmts.tensors import global_sum, masked_sum
from gmts.trainers.update.finite import check_finite


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    """What stays the same from step to step, whatever engine trains."""

    objective: ObjectiveConfig
    selection: SelectionConfig
    seed: int
    max_response_tokens: int
    custom_score: ScoreFunction | None = None
    """The function that `selection.custom` names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a mini-batch's backward pass will do."""

    stats: TokenStats
    """Of the policy that was scored."""
    terms: ObjectiveTerms
    scores: Scores
    selection: Selection
    weights: LossWeights
    signal: Signal
    exact: bool
    """The scored policy is the present one, so that a token with omega 0 has gradient 0."""


def needs_present_stats(settings: PlanSettings, *, moved: bool) -> bool:
    """Return whether the plan needs statistics of the present policy besides the old ones.

    Args:
        settings: Algorithm and score policy.
        moved: Whether the policy has been updated since the old statistics were taken.
    """
    sequence_level = ALGORITHMS[settings.objective.algorithm].ratio_level == "sequence"
    return moved and (settings.selection.score_policy == "current" or sequence_level)


def plan_update(
    batch: TokenBatch,
    old: TokenStats,
    present: TokenStats | None,
    settings: PlanSettings,
    *,
    step: int,
    moved: bool,
    micro_batch_ids: Int[Tensor, " B"],
    process_group: ProcessGroup | None = None,
) -> Plan:
    """Score and select over the whole mini-batch and all ranks.

    Args:
        batch: The mini-batch; this rank's share of it.
        old: Statistics of the policy behind `batch.old_log_probs`.
        present: Those of the present policy, given if `needs_present_stats` says so.
        settings: Objective and selection.
        step: Number of the optimizer step, from 0: part of the tie order.
        moved: Whether the policy has been updated since `old` was taken.
        micro_batch_ids: Micro-batch of each row, for scope micro_batch and its metric.
        process_group: Ranks that share the mini-batch.

    Raises:
        FloatingPointError: If a log-prob or an entropy is not finite.
        ValueError: If the mini-batch has no response token or breaks a rule of its parts.
    """
    objective, selection = settings.objective, settings.selection
    stats = old if present is None else present
    check_finite(
        {
            "old log-prob": batch.old_log_probs,
            "log-prob": stats.log_probs,
            "entropy": stats.entropy,
            "reference log-prob": batch.ref_log_probs,
            "rollout log-prob": batch.rollout_log_probs if objective.rollout_is else None,
        },
        batch,
        step,
        process_group,
    )
    terms = objective_terms(stats.log_probs, batch, objective)
    scored_stats, scored_terms = stats, terms
    if present is not None and selection.score_policy == "old":
        scored_stats, scored_terms = old, objective_terms(old.log_probs, batch, objective)
    scores = score_tokens(
        scored_stats,
        scored_terms.omega(mask_kl=objective.mask_kl),
        batch,
        selection.score,
        seed=settings.seed,
        step=step,
        custom=settings.custom_score,
    )
    chosen = select_tokens(
        scores,
        batch,
        selection,
        seed=settings.seed,
        step=step,
        process_group=process_group,
        micro_batch_ids=micro_batch_ids,
    )
    weights = loss_weights(
        batch,
        chosen.mask,
        scores.eligible,
        # Every token: the plain algorithm, whatever the denominator.
        replace(objective, denominator="all") if selection.score == "none" else objective,
        max_response_tokens=settings.max_response_tokens,
        process_group=process_group,
    )
    return Plan(
        stats=stats,
        terms=terms,
        scores=scores,
        selection=chosen,
        weights=weights,
        signal=signal_of(batch, terms, chosen.mask, objective, process_group=process_group),
        exact=not moved or present is not None,
    )


def plan_metrics(
    plan: Plan,
    batch: TokenBatch,
    settings: PlanSettings,
    *,
    step: int,
    micro_batch_ids: Int[Tensor, " B"],
    process_group: ProcessGroup | None = None,
) -> dict[str, float]:
    """Return sums over the mini-batch as shares of response tokens, and the selection's metrics.

    With objective.rollout_is: rollout/is_weight_mean, of the weights as they are used, and
    rollout/is_weight_truncated, the share of tokens whose weight was cut.

    Arguments are those of `plan_update`.
    """
    mask, terms, beta = batch.response_mask, plan.terms, settings.objective.beta
    log_ratio = torch.where(mask, (plan.stats.log_probs - batch.old_log_probs).abs(), 0.0)
    clipped = terms.clipped_low | terms.clipped_high | terms.clipped_dual
    sums = [
        masked_sum(plan.weights.pg * terms.pg_loss + plan.weights.kl * terms.kl_loss, mask),
        masked_sum(plan.stats.entropy, mask),
        terms.clipped_low.sum(),
        terms.clipped_high.sum(),
        terms.clipped_dual.sum(),
        terms.clamped.sum(),
        masked_sum(terms.kl_loss, mask) / beta if beta else terms.clamped.sum() * 0,
        log_ratio.sum(),
    ]
    if terms.rollout_weights is not None:
        sums += [masked_sum(terms.rollout_weights, mask), terms.truncated.sum()]
    loss, *totals = global_sum(torch.stack(sums).double(), process_group).tolist()
    entropy, low, high, dual, clamped, kl, ratio, *importance = (
        total / plan.selection.num_response_tokens for total in totals
    )
    metrics = {
        "train/loss": loss,
        "train/no_signal": float(plan.signal == "none"),
        "train/kl_only": float(plan.signal == "kl_only"),
        "policy/entropy": entropy,
        "policy/clip_low": low,
        "policy/clip_high": high,
        "policy/clip_dual": dual,
        "policy/clamped": clamped,
        "policy/log_ratio_abs_mean": ratio,
        "policy/log_ratio_abs_max": _global_max(log_ratio, process_group),
    }
    if beta:
        metrics["policy/kl"] = kl
    if importance:
        metrics["rollout/is_weight_mean"], metrics["rollout/is_weight_truncated"] = importance
    return metrics | selection_metrics(
        plan.selection,
        plan.scores,
        plan.stats,
        batch,
        clipped,
        settings.selection,
        seed=settings.seed,
        step=step,
        micro_batch_ids=micro_batch_ids,
        process_group=process_group,
    )


def _global_max(values: Tensor, process_group: ProcessGroup | None) -> float:
    """Return the largest of values >= 0 over ranks, of which some may have none."""
    largest = torch.cat([values.flatten(), values.new_zeros(1)]).max()
    if process_group is not None:
        all_reduce(largest, op=ReduceOp.MAX, group=process_group)
    return float(largest)
