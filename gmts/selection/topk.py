"""Exact top-k of token scores in a total order, per scope, on one process or over ranks."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor, distributed
from torch.distributed import ProcessGroup

from gmts.selection.radix import (
    BUCKETS,
    DIGIT_BITS,
    KeyColumn,
    Reduce,
    first_k,
    kth_largest,
    row_blocks,
    split_at,
)
from gmts.selection.ties import tie_keys
from gmts.tensors import gather_rows, global_sum

GATHER_LIMIT = 1 << 22
"""Above this many tokens over all ranks, padding included, histograms travel instead of scores."""

Exchange = Literal["auto", "gather", "radix"]
LARGEST_KEY = 0x7FFFFFFF
"""Above the bits of every finite score."""
_FIRST_DIGIT = 64 - DIGIT_BITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The tokens of this rank, and what orders them."""

    keys: Int[Tensor, "B T"]
    """int32: the bits of the score (not -0.0), which order like scores >= 0; -1 if not eligible."""
    scopes: Int[Tensor, " B"]
    """Scope of each row, in [0, S), the same numbers on every rank."""
    sample_ids: Int[Tensor, " B"]
    tie_states: Int[Tensor, " B"]
    """See `gmts.selection.ties`."""
    first: Int[Tensor, " B"]
    """Column of position 0."""


def top_k(
    candidates: Candidates,
    wanted: Int[Tensor, " S"],
    *,
    process_group: ProcessGroup | None,
    exchange: Exchange = "auto",
) -> Bool[Tensor, "B T"]:
    """Return which tokens of this rank are among the `wanted` best of their scope over all ranks.

    Order: larger score, then smaller tie key, then smaller (sample id, position). The result does
    not depend on how tokens are spread over ranks, nor on the way of exchange.

    Args:
        candidates: This rank's.
        wanted: k per scope, the same on every rank, at most the scope's eligible tokens.
        process_group: The ranks; None for one process.
        exchange: gather: every rank sees all scores. radix: only histograms travel. auto: gather up
            to `GATHER_LIMIT` tokens.
    """
    if process_group is None:
        return _select(candidates, wanted, lambda counts: counts)
    num_columns = 0
    if exchange != "radix":
        shape = torch.tensor(candidates.keys.shape, device=candidates.keys.device)
        num_rows = int(global_sum(shape[0], process_group))
        distributed.all_reduce(shape, op=distributed.ReduceOp.MAX, group=process_group)
        num_columns = int(shape[1])
        if exchange == "auto":
            exchange = "gather" if num_rows * num_columns <= GATHER_LIMIT else "radix"
    if exchange == "radix":
        return _select(candidates, wanted, lambda counts: global_sum(counts, process_group))
    everywhere, own = _gather(candidates, num_columns, process_group)
    chosen = _select(everywhere, wanted, lambda counts: counts)
    return chosen[own, : candidates.keys.shape[1]]


def _gather(
    candidates: Candidates, num_columns: int, process_group: ProcessGroup
) -> tuple[Candidates, slice]:
    """Return the rows of all ranks, padded to one width, and where this rank's lie among them."""
    missing = num_columns - candidates.keys.shape[1]
    padded = torch.nn.functional.pad(candidates.keys, (0, missing), value=-1)
    keys, own = gather_rows(padded, process_group)
    columns = (candidates.scopes, candidates.sample_ids, candidates.tie_states, candidates.first)
    rows, _ = gather_rows(torch.stack(columns, 1), process_group)
    scopes, sample_ids, states, first = rows.unbind(1)
    everywhere = Candidates(
        keys=keys, scopes=scopes, sample_ids=sample_ids, tie_states=states, first=first
    )
    return everywhere, own


def _select(candidates: Candidates, wanted: Tensor, reduce: Reduce) -> Tensor:
    keys, scopes = candidates.keys, candidates.scopes
    asked = wanted > 0
    if not bool(asked.any()):
        return torch.zeros_like(keys, dtype=torch.bool)
    kth, missing, ties = kth_largest(keys, scopes, wanted, reduce)
    # Tokens above the bound are in; so are all that tie at it, unless some of them are not wanted.
    contested = asked & (missing < ties)
    bound = torch.where(contested, kth, kth - 1)
    bound = torch.where(asked, bound, LARGEST_KEY)
    chosen = keys > bound[scopes, None]
    if bool(contested.any()):
        level = torch.where(contested, kth, -2)
        _break_ties(candidates, level, torch.where(contested, missing, 0), chosen, reduce)
    return chosen


def _break_ties(
    candidates: Candidates, level: Tensor, wanted: Tensor, chosen: Tensor, reduce: Reduce
) -> None:
    """Mark in `chosen` the first `wanted` of the tokens whose key is `level`, scope by scope.

    The first digit of the tie keys is handled block by block, since every token may be tied; what
    then remains is about 1/256 of them.
    """
    keys, scopes = candidates.keys, candidates.scopes
    digits = torch.zeros_like(keys, dtype=torch.uint8)
    counts = torch.zeros(len(wanted) * 2 * BUCKETS, dtype=torch.int64, device=keys.device)
    for block in row_blocks(*keys.shape):
        tied = keys[block] == level[scopes[block], None]
        if not int(torch.count_nonzero(tied)):
            continue
        ties = _tie_keys(candidates, block) >> _FIRST_DIGIT
        digit = ties.short().bitwise_and_(BUCKETS - 1).bitwise_or_((~tied).short() << DIGIT_BITS)
        digits[block] = digit & (BUCKETS - 1)
        index = scopes[block, None].int() * (2 * BUCKETS) + digit
        counts += torch.bincount(index.flatten(), minlength=len(counts))
    tie_counts = counts.view(len(wanted), 2 * BUCKETS)[:, :BUCKETS].contiguous()
    last, wanted, sizes = split_at(reduce(tie_counts), wanted)
    last = last.to(torch.uint8)
    rest = [torch.zeros((0, 2), dtype=torch.int64, device=keys.device)]
    for block in row_blocks(*keys.shape):
        digit, end = digits[block], last[scopes[block], None]
        tied = keys[block] == level[scopes[block], None]
        chosen[block] |= tied & (digit < end)
        start = torch.tensor([block.start, 0], device=keys.device)
        rest.append((tied & (digit == end)).nonzero() + start)
    rows, columns = torch.cat(rest).unbind(1)
    positions = columns - candidates.first[rows]
    order = [
        # Their first digit is the same in a scope.
        KeyColumn(keys=tie_keys(candidates.tie_states[rows], positions), bits=_FIRST_DIGIT),
        KeyColumn(keys=candidates.sample_ids[rows], bits=64),
        KeyColumn(keys=positions, bits=64),
    ]
    taken = first_k(order, scopes[rows], wanted, sizes, reduce)
    chosen[rows[taken], columns[taken]] = True


def _tie_keys(candidates: Candidates, block: slice) -> Tensor:
    columns = torch.arange(candidates.keys.shape[1], device=candidates.keys.device)
    positions = columns - candidates.first[block, None]
    return tie_keys(candidates.tie_states[block, None], positions)
