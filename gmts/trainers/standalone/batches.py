"""Groups as tensors: padding, advantages, old and reference log-probs, mini-batches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from gmts.batch import TokenBatch, TokenStats
from gmts.objective.advantage import group_advantages
from gmts.objective.config import ObjectiveConfig
from gmts.trainers.standalone.groups import Group

Prompts = Sequence[Sequence[int]]
LengthPenalty = Callable[[int], float]
"""What a response of so many tokens has added to its reward."""
StatsPass = Callable[[Prompts, TokenBatch], TokenStats]
"""Statistics of some policy at every response token, without gradient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """Whole groups, ready for optimizer steps. Rows lie group by group."""

    tokens: TokenBatch
    prompts: Prompts
    """One per response."""
    stats: TokenStats
    """Of the policy that sampled each response."""
    stale: bool
    """True if some responses were sampled, and measured, by an earlier policy."""
    group_rows: tuple[range, ...]

    def mini_batches(self, num_groups: int) -> list["Rollout"]:
        """Split into consecutive parts of `num_groups` whole groups; the last may hold fewer."""
        parts = []
        for first in range(0, len(self.group_rows), num_groups):
            chosen = self.group_rows[first : first + num_groups]
            start, stop = chosen[0].start, chosen[-1].stop
            index = torch.arange(start, stop, device=self.tokens.sample_ids.device)
            parts.append(
                Rollout(
                    tokens=self.tokens.rows(index),
                    prompts=self.prompts[start:stop],
                    stats=_stats_rows(self.stats, slice(start, stop)),
                    stale=self.stale,
                    group_rows=tuple(range(r.start - start, r.stop - start) for r in chosen),
                )
            )
        return parts


def measured(groups: Sequence[Group], policy: StatsPass, device: torch.device) -> list[Group]:
    """Return the groups with the statistics of `policy`, which sampled them.

    Groups that have some already were carried: they keep those of the policy that sampled them, so
    that importance ratios stay true.
    """
    new = [group for group in groups if group.stats is None]
    if not new:
        return list(groups)
    tokens = _tokens(new, device)
    stats = policy(_prompts(new), tokens)
    found = {}
    first = 0
    for group in new:
        rows = slice(first, first + len(group.samples))
        first = rows.stop
        found[group.draw] = replace(group, stats=_stats_rows(stats, rows))
    return [found.get(group.draw, group) for group in groups]


def rollout_of(
    groups: Sequence[Group],
    config: ObjectiveConfig,
    *,
    reference: StatsPass | None,
    penalty: LengthPenalty,
    fresh: set[int],
    device: torch.device,
) -> Rollout:
    """Assemble measured groups.

    Args:
        groups: At least one, each with statistics.
        config: Advantages and the overlong filter.
        reference: Pass of the reference model; None without a KL term.
        penalty: Shapes the rewards that advantages are taken of.
        fresh: Draws whose statistics are the present policy's.
        device: Where the tensors go.
    """
    tokens = _tokens(groups, device)
    width = tokens.response_mask.shape[1]
    stats = TokenStats(
        **{
            field.name: torch.cat(
                [_widened(getattr(g.stats, field.name), width).to(device) for g in groups]
            )
            for field in fields(TokenStats)
        }
    )
    scores = torch.tensor(
        [
            verdict.score + penalty(len(sample.token_ids))
            for group in groups
            for verdict, sample in zip(group.verdicts, group.samples, strict=True)
        ],
        dtype=torch.float32,
        device=device,
    )
    advantages = group_advantages(
        scores,
        tokens.group_ids,
        torch.ones_like(scores, dtype=torch.bool),
        normalize_by_std=config.normalize_by_std,
        std_ddof=config.std_ddof,
    )
    kept = advantages.valid
    if config.overlong_filter:
        kept = kept & _finished(groups, device)
    tokens = replace(
        tokens,
        response_mask=tokens.response_mask & kept[:, None],
        old_log_probs=stats.log_probs,
        ref_log_probs=None if reference is None else reference(_prompts(groups), tokens).log_probs,
        advantages=advantages.advantages,
    )
    return Rollout(
        tokens=tokens,
        prompts=_prompts(groups),
        stats=stats,
        stale=any(group.draw not in fresh for group in groups),
        group_rows=_rows(groups),
    )


def log_ratio_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Return how far the sampler's log-probs are from the training engine's (nats, over tokens)."""
    gaps = []
    for group in groups:
        assert group.stats is not None
        for sample, row in zip(group.samples, group.stats.log_probs, strict=True):
            own = torch.tensor(sample.log_probs, dtype=torch.float64)
            gaps.append((row[: len(own)].cpu().double() - own).abs())
    everything = torch.cat(gaps)
    return {
        "rollout/log_ratio_abs_mean": everything.mean().item(),
        "rollout/log_ratio_abs_max": everything.max().item(),
    }


def _tokens(groups: Sequence[Group], device: torch.device) -> TokenBatch:
    """Return all but old and reference log-probs and advantages, which are still zero or None."""
    samples = [sample for group in groups for sample in group.samples]
    width = max(len(sample.token_ids) for sample in samples)
    ids = torch.zeros(len(samples), width, dtype=torch.long)
    log_probs = torch.zeros(ids.shape)
    lengths = torch.tensor([len(sample.token_ids) for sample in samples])
    for row, sample in enumerate(samples):
        ids[row, : len(sample.token_ids)] = torch.tensor(sample.token_ids)
        log_probs[row, : len(sample.log_probs)] = torch.tensor(sample.log_probs)
    numbers = [
        (group.draw * len(group.samples) + place, group.draw)
        for group in groups
        for place in range(len(group.samples))
    ]
    sample_ids, group_ids = torch.tensor(numbers, device=device).unbind(1)
    return TokenBatch(
        response_ids=ids.to(device),
        response_mask=(torch.arange(width) < lengths[:, None]).to(device),
        old_log_probs=torch.zeros(ids.shape, device=device),
        ref_log_probs=None,
        advantages=torch.zeros(len(samples), device=device),
        sample_ids=sample_ids.contiguous(),
        group_ids=group_ids.contiguous(),
        rollout_log_probs=log_probs.to(device),
    )


def _rows(groups: Sequence[Group]) -> tuple[range, ...]:
    rows, first = [], 0
    for group in groups:
        rows.append(range(first, first + len(group.samples)))
        first += len(group.samples)
    return tuple(rows)


def _prompts(groups: Sequence[Group]) -> list[tuple[int, ...]]:
    return [group.prompt for group in groups for _ in group.samples]


def _finished(groups: Sequence[Group], device: torch.device) -> Tensor:
    finished = [sample.finished for group in groups for sample in group.samples]
    return torch.tensor(finished, dtype=torch.bool, device=device)


def _widened(values: Tensor, width: int) -> Tensor:
    return pad(values[:, :width], (0, max(0, width - values.shape[1])))


def _stats_rows(stats: TokenStats, rows: slice) -> TokenStats:
    return TokenStats(**{f.name: getattr(stats, f.name)[rows] for f in fields(TokenStats)})
