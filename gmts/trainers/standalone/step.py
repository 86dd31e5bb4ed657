"""One optimizer step: score and select over the whole mini-batch, backward where it matters."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.distributed import ProcessGroup, ReduceOp, all_reduce

from gmts.batch import TokenBatch, TokenStats
from gmts.logits import head_log_probs
from gmts.objective.algorithms import ALGORITHMS
from gmts.objective.config import ObjectiveConfig
from gmts.objective.signal import signal_of
from gmts.objective.terms import ObjectiveTerms, objective_terms
from gmts.objective.weights import LossWeights, loss_weights
from gmts.selection.config import SelectionConfig
from gmts.selection.scores import ScoreFunction, Scores, score_tokens
from gmts.selection.select import Selection, select_tokens
from gmts.selection.statistics import selection_metrics
from gmts.tensors import global_sum, masked_sum
from gmts.trainers.config import OptimizerConfig
from gmts.trainers.standalone.finite import check_finite, clipped_norm
from gmts.trainers.standalone.forward import (
    Prompts,
    head_of,
    plan_micro_batches,
    response_hidden,
    response_stats,
    row_lengths,
)
from gmts.trainers.standalone.optimizer import set_rate

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSettings:
    """What stays the same from step to step."""

    objective: ObjectiveConfig
    selection: SelectionConfig
    optimizer: OptimizerConfig
    seed: int
    temperature: float
    max_response_tokens: int
    micro_batch_tokens: int
    skip_no_signal: bool
    custom_score: ScoreFunction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What a mini-batch's backward pass will do."""

    stats: TokenStats
    """Of the policy that was scored."""
    terms: ObjectiveTerms
    scores: Scores
    selection: Selection
    weights: LossWeights
    micro_batches: list[list[int]]
    """As the scoring pass grouped the rows."""
    exact: bool
    """The scored policy is the present one, so that a token with omega 0 has gradient 0."""


def update_step(
    policy: Any,
    optimizer: torch.optim.Optimizer,
    batch: TokenBatch,
    prompts: Prompts,
    stats: TokenStats,
    settings: StepSettings,
    *,
    step: int,
    moved: bool,
    process_group: ProcessGroup | None = None,
    on_selection: Callable[[Selection], None] | None = None,
) -> dict[str, float]:
    """Take one optimizer step on a mini-batch of whole groups, and return its metrics.

    One selection covers the whole mini-batch. Only rows with a token that carries loss are read
    again, up to their last such token, and only those tokens go through the head. Micro-batches
    add up to the same gradient whatever their size. Without signal the optimizer is left alone,
    unless `settings.skip_no_signal` is off; the rate's schedule goes on either way.

    Args:
        policy: A causal language model; changed in place.
        optimizer: Over its parameters.
        batch: The mini-batch.
        prompts: One per response.
        stats: Statistics of the policy behind `batch.old_log_probs`.
        settings: Objective, selection and the rest.
        step: Number of the optimizer step, from 0: part of the tie order and of the schedule.
        moved: Whether the policy has been updated since `stats` were taken.
        process_group: Ranks that share the mini-batch; their gradients are summed.
        on_selection: Told which tokens were selected.

    Raises:
        FloatingPointError: If a log-prob or a gradient is not finite; weights and moments are as
            they were.
        ValueError: If the mini-batch has no response token or breaks a rule of its parts.
    """
    rate = set_rate(optimizer, settings.optimizer, step)
    plan = _plan(policy, batch, prompts, stats, settings, step, moved, process_group)
    if on_selection is not None:
        on_selection(plan.selection)
    signal = signal_of(
        batch, plan.terms, plan.selection.mask, settings.objective, process_group=process_group
    )
    metrics = _metrics(plan, batch, settings, step, process_group)
    metrics["train/lr"] = rate
    metrics["train/no_signal"] = float(signal == "none")
    metrics["train/kl_only"] = float(signal == "kl_only")
    metrics["train/grad_norm"] = 0.0
    if signal == "none" and settings.skip_no_signal:
        return metrics
    optimizer.zero_grad(set_to_none=True)
    live = global_sum(_backward(policy, batch, prompts, plan, settings), process_group)
    if not plan.exact and settings.skip_no_signal and not int(live):
        # Scored by an earlier policy; under the present one nothing that was selected moves it.
        optimizer.zero_grad(set_to_none=True)
        metrics["train/no_signal"], metrics["train/kl_only"] = 1.0, 0.0
        return metrics
    _complete_gradients(policy, process_group)
    metrics["train/grad_norm"] = clipped_norm(policy, settings.optimizer.max_grad_norm, step)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return metrics


def _plan(
    policy: Any,
    batch: TokenBatch,
    prompts: Prompts,
    old: TokenStats,
    settings: StepSettings,
    step: int,
    moved: bool,
    process_group: ProcessGroup | None,
) -> _Plan:
    objective, selection = settings.objective, settings.selection
    sequence_level = ALGORITHMS[objective.algorithm].ratio_level == "sequence"
    stats = old
    if moved and (selection.score_policy == "current" or sequence_level):
        stats = response_stats(
            policy,
            prompts,
            batch,
            temperature=settings.temperature,
            micro_batch_tokens=settings.micro_batch_tokens,
        )
    check_finite(
        {
            "old log-prob": batch.old_log_probs,
            "log-prob": stats.log_probs,
            "entropy": stats.entropy,
            "reference log-prob": batch.ref_log_probs,
        },
        batch,
        step,
        process_group,
    )
    terms = objective_terms(stats.log_probs, batch, objective)
    scored_stats, scored_terms = stats, terms
    if moved and selection.score_policy == "old" and sequence_level:
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
    parts = plan_micro_batches(
        row_lengths(prompts, batch.response_mask), settings.micro_batch_tokens
    )
    chosen = select_tokens(
        scores,
        batch,
        selection,
        seed=settings.seed,
        step=step,
        process_group=process_group,
        micro_batch_ids=_micro_batch_ids(parts, batch),
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
    return _Plan(
        stats=stats,
        terms=terms,
        scores=scores,
        selection=chosen,
        weights=weights,
        micro_batches=parts,
        exact=not moved or stats is not old,
    )


def _micro_batch_ids(parts: Sequence[Sequence[int]], batch: TokenBatch) -> Tensor:
    ids = torch.zeros_like(batch.sample_ids)
    for number, rows in enumerate(parts):
        ids[torch.tensor(rows, device=ids.device)] = number
    return ids


def _backward(
    policy: Any, batch: TokenBatch, prompts: Prompts, plan: _Plan, settings: StepSettings
) -> Tensor:
    """Add up gradients; return how many of this rank's tokens had an omega other than 0."""
    needed = plan.weights.pg != 0
    if plan.exact:
        needed = needed & (plan.terms.pg_omega != 0)
    if settings.objective.beta > 0:
        needed = needed | (plan.weights.kl != 0)
    live = torch.zeros((), dtype=torch.long, device=needed.device)
    head = head_of(policy)
    lengths = row_lengths(prompts, needed)
    for rows in plan_micro_batches(lengths, settings.micro_batch_tokens):
        index = torch.tensor(rows, device=needed.device)
        part, wanted = batch.rows(index), needed[index]
        hidden = response_hidden(policy, [prompts[row] for row in rows], part.response_ids, wanted)
        own = head_log_probs(
            hidden,
            head.weight,
            part.response_ids[wanted],
            temperature=settings.temperature,
            bias=head.bias,
        )
        # The other tokens of a row count in GSPO's s_i, without gradient.
        log_probs = plan.stats.log_probs[index]
        if plan.exact:
            # The scored value with this pass's gradient: another micro-batch's rounding must not
            # move a token over a clip bound.
            own = log_probs[wanted] + (own - own.detach())
        log_probs = log_probs.index_put(wanted.nonzero(as_tuple=True), own)
        terms = objective_terms(log_probs, part, settings.objective)
        loss = masked_sum(plan.weights.pg[index] * terms.pg_loss, wanted)
        loss = loss + masked_sum(plan.weights.kl[index] * terms.kl_loss, wanted)
        loss.backward()  # type: ignore[no-untyped-call]
        pulls = (plan.weights.pg[index] != 0) & (terms.pg_omega != 0)
        pulls = pulls | (plan.weights.kl[index] != 0) & (terms.kl_omega != 0)
        live += (pulls & wanted).sum()
    return live


def _complete_gradients(policy: Any, process_group: ProcessGroup | None) -> None:
    """Give every parameter a gradient, and sum gradients over ranks."""
    for parameter in policy.parameters():
        if parameter.requires_grad:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            if process_group is not None:
                parameter.grad = global_sum(parameter.grad, process_group)


def _global_max(values: Tensor, process_group: ProcessGroup | None) -> float:
    """Return the largest of values >= 0 over ranks, of which some may have none."""
    largest = torch.cat([values.flatten(), values.new_zeros(1)]).max()
    if process_group is not None:
        all_reduce(largest, op=ReduceOp.MAX, group=process_group)
    return float(largest)


def _metrics(
    plan: _Plan,
    batch: TokenBatch,
    settings: StepSettings,
    step: int,
    process_group: ProcessGroup | None,
) -> dict[str, float]:
    """Return sums over the mini-batch as shares of response tokens, and the selection's metrics."""
    mask, terms, beta = batch.response_mask, plan.terms, settings.objective.beta
    log_ratio = torch.where(mask, (plan.stats.log_probs - batch.old_log_probs).abs(), 0.0)
    clipped = terms.clipped_low | terms.clipped_high | terms.clipped_dual
    sums = torch.stack(
        [
            masked_sum(plan.weights.pg * terms.pg_loss + plan.weights.kl * terms.kl_loss, mask),
            masked_sum(plan.stats.entropy, mask),
            terms.clipped_low.sum(),
            terms.clipped_high.sum(),
            terms.clipped_dual.sum(),
            terms.clamped.sum(),
            masked_sum(terms.kl_loss, mask) / beta if beta else terms.clamped.sum() * 0,
            log_ratio.sum(),
        ]
    ).double()
    loss, *totals = global_sum(sums, process_group).tolist()
    entropy, low, high, dual, clamped, kl, ratio = (
        total / plan.selection.num_response_tokens for total in totals
    )
    metrics = {
        "train/loss": loss,
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
    return metrics | selection_metrics(
        plan.selection,
        plan.scores,
        plan.stats,
        batch,
        clipped,
        settings.selection,
        seed=settings.seed,
        step=step,
        micro_batch_ids=_micro_batch_ids(plan.micro_batches, batch),
        process_group=process_group,
    )
