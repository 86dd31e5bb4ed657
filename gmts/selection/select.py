"""Which response tokens carry loss."""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import torch
from jaxtyping import Bool, Int
from torch import Tensor, distributed
from torch.distributed import ProcessGroup

from gmts.batch import TokenBatch
from gmts.selection.checks import check_unique, input_problem, raise_everywhere
from gmts.selection.config import SelectionConfig, Side
from gmts.selection.radix import row_blocks, row_counts
from gmts.selection.scores import Scores
from gmts.selection.ties import first_positions, tie_states
from gmts.selection.topk import LARGEST_KEY, Candidates, Exchange, top_k
from gmts.tensors import gather_rows, global_sum


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The selected tokens of this rank, and counts over all ranks."""

    mask: Bool[Tensor, "B T"]
    threshold: float | None
    """Smallest selected score (side bottom: the largest) over all scopes; None if nothing is
    selected, and with score none."""
    num_selected: int
    num_eligible: int
    num_response_tokens: int
    """N."""
    saturated: bool
    """Fewer tokens were eligible than asked for, in some scope."""


def num_wanted(ratio: Fraction, num_tokens: int) -> int:
    """Return ceil(ratio * num_tokens) in exact arithmetic."""
    return math.ceil(ratio * num_tokens)


def exact_ratio(ratio: float) -> Fraction:
    """Return the number that the shortest decimal of `ratio` says: 0.1 is one tenth."""
    return Fraction(Decimal(str(ratio)))


def select_tokens(
    scores: Scores,
    batch: TokenBatch,
    config: SelectionConfig,
    *,
    seed: int,
    step: int,
    process_group: ProcessGroup | None = None,
    micro_batch_ids: Int[Tensor, " B"] | None = None,
    exchange: Exchange = "auto",
) -> Selection:
    """Return the tokens of the optimizer mini-batch that carry loss.

    The top side takes the k = min(ceil(ratio * N), eligible) largest scores of its scope, N being
    the scope's response tokens; bottom at ratio b takes the eligible tokens that top at 1 - b
    leaves. Ties are broken by a hash of (seed, step, sample id, position), so that the set depends
    on the scores alone: not on padding, order, micro-batches or ranks. A scope without eligible
    tokens selects none.

    Args:
        scores: Of the whole mini-batch; this rank's share of it.
        batch: The same rows. A rank may have none.
        config: Ratio, side, scope; score none selects every token.
        seed: Of the run.
        step: Optimizer step.
        process_group: Ranks that share the mini-batch; None for one process.
        micro_batch_ids: Micro-batch of each row, for scope micro_batch; never shared between ranks.
        exchange: See `gmts.selection.topk.top_k`.

    Raises:
        ValueError: If there is no response token at all, a score is NaN, infinite or negative,
            sample ids repeat, a mask is not bool, shapes disagree, or scope micro_batch comes
            without micro_batch_ids. Whichever rank has the fault, every rank raises.

    Source: arXiv 2608.30632, section 3.2; docs/objective.md.
    """
    problem = input_problem(scores, batch, config, micro_batch_ids)
    raise_everywhere(problem, batch.sample_ids.device, process_group)
    mask = batch.response_mask
    columns = (batch.sample_ids, batch.group_ids, row_counts(mask), row_counts(scores.eligible))
    rows = torch.stack([column.long() for column in columns], 1)
    everywhere, own = gather_rows(rows, process_group)
    check_unique(everywhere[:, 0])
    num_tokens, num_eligible = everywhere[:, 2:].sum(0).tolist()
    if num_tokens == 0:
        raise ValueError("the mini-batch must have at least one response token, got none")
    chosen, threshold, num_selected, saturated = mask, None, num_tokens, False
    if config.score != "none":
        ranks = process_group
        if config.scope == "micro_batch":  # which lies on one rank
            everywhere, own, ranks = rows, slice(0, len(rows)), None
        scopes, wanted, saturated = _scopes(everywhere, config, micro_batch_ids)
        candidates = _candidates(scores, batch, scopes[own], seed, step)
        chosen = top_k(candidates, wanted, process_group=ranks, exchange=exchange)
        if config.side == "bottom":
            chosen = scores.eligible & ~chosen
        threshold = _threshold(candidates.keys, chosen, config.side, process_group)
        counts = torch.tensor([int(torch.count_nonzero(chosen)), saturated], device=mask.device)
        num_selected, num_saturated = global_sum(counts, process_group).tolist()
        saturated = num_saturated > 0
    return Selection(
        mask=chosen,
        threshold=threshold,
        num_selected=num_selected,
        num_eligible=num_eligible,
        num_response_tokens=num_tokens,
        saturated=saturated,
    )


def _scopes(
    rows: Int[Tensor, "R 4"], config: SelectionConfig, micro_batch_ids: Int[Tensor, " R"] | None
) -> tuple[Int[Tensor, " R"], Int[Tensor, " S"], bool]:
    """Return the scope of each row, the top side's k in each, and whether one has too few tokens.

    Args:
        rows: Sample id, group id, response tokens and eligible tokens of every row that counts.
        config: Ratio, side, scope.
        micro_batch_ids: Micro-batch of each of these rows, if that is the scope.
    """
    ids = torch.zeros_like(rows[:, 1])
    if config.scope == "group":
        ids = rows[:, 1]
    elif config.scope == "micro_batch" and micro_batch_ids is not None:
        ids = micro_batch_ids
    names, scopes = torch.unique(ids, return_inverse=True)
    sizes = rows.new_zeros((len(names), 2)).index_add_(0, scopes, rows[:, 2:]).tolist()
    ratio = exact_ratio(config.ratio)
    top_ratio = ratio if config.side == "top" else 1 - ratio
    wanted = [min(num_wanted(top_ratio, size), eligible) for size, eligible in sizes]
    saturated = any(num_wanted(ratio, size) > eligible for size, eligible in sizes)
    return scopes, torch.tensor(wanted, dtype=torch.int64, device=rows.device), saturated


def _candidates(
    scores: Scores, batch: TokenBatch, scopes: Tensor, seed: int, step: int
) -> Candidates:
    # -0.0 becomes 0.0: equal scores must have equal bits.
    keys = (scores.values + 0.0).view(torch.int32)
    for rows in row_blocks(*keys.shape):
        keys[rows] |= scores.eligible[rows].int() - 1  # -1 where not eligible
    sample_ids = batch.sample_ids.long()
    return Candidates(
        keys=keys,
        scopes=scopes,
        sample_ids=sample_ids,
        tie_states=tie_states(sample_ids, seed=seed, step=step),
        first=first_positions(batch.response_mask),
    )


def _threshold(
    keys: Tensor, chosen: Tensor, side: Side, process_group: ProcessGroup | None
) -> float | None:
    """Return the smallest chosen score (side bottom: the largest) over all ranks, or None."""
    # The largest of the chosen keys, counted from the other end for side top.
    largest = keys.new_tensor(-1)
    for rows in row_blocks(*keys.shape):
        counted = keys[rows] if side == "bottom" else LARGEST_KEY - keys[rows]
        if counted.numel():
            largest = torch.maximum(largest, (counted | (chosen[rows].int() - 1)).amax())
    if process_group is not None:
        distributed.all_reduce(largest, op=distributed.ReduceOp.MAX, group=process_group)
    if int(largest) < 0:
        return None
    key = largest if side == "bottom" else LARGEST_KEY - largest
    return float(key.view(torch.float32))
