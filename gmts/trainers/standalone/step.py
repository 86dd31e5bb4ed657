"""One optimizer step: score and select over the whole mini-batch, backward where it matters."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributed import ProcessGroup

from gmts.batch import TokenBatch, TokenStats
from gmts.logits import head_log_probs
from gmts.objective.terms import objective_terms
from gmts.selection.select import Selection
from gmts.tensors import global_sum, masked_sum
from gmts.trainers.config import OptimizerConfig
from gmts.trainers.standalone.forward import (
    Prompts,
    head_of,
    plan_micro_batches,
    response_hidden,
    response_stats,
    row_lengths,
)
from gmts.trainers.standalone.optimizer import set_rate
from gmts.trainers.update.finite import clipped_norm
from gmts.trainers.update.plan import (
    Plan,
    PlanSettings,
    needs_present_stats,
    plan_metrics,
    plan_update,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSettings(PlanSettings):
    """What stays the same from step to step."""

    optimizer: OptimizerConfig
    temperature: float
    micro_batch_tokens: int
    skip_no_signal: bool


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
    micro_batch_ids = _micro_batch_ids(batch, prompts, settings)
    present = None
    if needs_present_stats(settings, moved=moved):
        present = response_stats(
            policy,
            prompts,
            batch,
            temperature=settings.temperature,
            micro_batch_tokens=settings.micro_batch_tokens,
        )
    plan = plan_update(
        batch,
        stats,
        present,
        settings,
        step=step,
        moved=moved,
        micro_batch_ids=micro_batch_ids,
        process_group=process_group,
    )
    if on_selection is not None:
        on_selection(plan.selection)
    metrics = plan_metrics(
        plan,
        batch,
        settings,
        step=step,
        micro_batch_ids=micro_batch_ids,
        process_group=process_group,
    )
    metrics["train/lr"] = rate
    metrics["train/grad_norm"] = 0.0
    if plan.signal == "none" and settings.skip_no_signal:
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


def _micro_batch_ids(batch: TokenBatch, prompts: Prompts, settings: StepSettings) -> Tensor:
    """Return the micro-batch of each row as the scoring pass groups them."""
    lengths = row_lengths(prompts, batch.response_mask)
    ids = torch.zeros_like(batch.sample_ids)
    for number, rows in enumerate(plan_micro_batches(lengths, settings.micro_batch_tokens)):
        ids[torch.tensor(rows, device=ids.device)] = number
    return ids


def _backward(
    policy: Any, batch: TokenBatch, prompts: Prompts, plan: Plan, settings: StepSettings
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
