"""Exact top-k of token scores with a total order, on one process or over ranks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.distributed import ProcessGroup

from gmts.selection.radix import KeyColumn, Reduce, first_k
from gmts.tensors import gather_rows, global_sum

GATHER_LIMIT = 1 << 22
"""Above this many eligible tokens over all ranks, histograms travel instead of scores."""

Exchange = Literal["auto", "gather", "radix"]
_FLOAT_BITS, _KEY_BITS = 32, 64
_LARGEST_INT32 = 0x7FFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Eligible tokens of this rank: M scores and what tells tokens apart."""

    scores: Float[Tensor, " M"]
    """float32, >= 0."""
    ties: Callable[[Int[Tensor, " n"], Int[Tensor, " n"]], Int[Tensor, " n"]]
    """Tie keys of (sample ids, positions), see `gmts.selection.ties`."""
    sample_ids: Int[Tensor, " M"]
    positions: Int[Tensor, " M"]


def top_k(
    candidates: Candidates,
    k: int,
    *,
    process_group: ProcessGroup | None,
    exchange: Exchange = "auto",
) -> Bool[Tensor, " M"]:
    """Return which of this rank's candidates are among the `k` best over all ranks.

    Order: larger score, then smaller tie key, then smaller (sample id, position). The result does
    not depend on how tokens are spread over ranks, nor on the way of exchange.

    Args:
        candidates: This rank's.
        k: The same on every rank, at most the number of candidates over all ranks.
        process_group: The ranks; None for one process.
        exchange: gather: every rank sees all keys. radix: only histograms travel. auto: gather up
            to `GATHER_LIMIT` candidates.
    """
    if process_group is None:
        return _first(candidates, k, lambda counts: counts)
    if exchange == "auto":
        count = torch.tensor(len(candidates.scores), device=candidates.scores.device)
        exchange = "gather" if int(global_sum(count, process_group)) <= GATHER_LIMIT else "radix"
    if exchange == "radix":
        return _first(candidates, k, lambda counts: global_sum(counts, process_group))
    everywhere, own = gather_candidates(candidates, process_group)
    return _first(everywhere, k, lambda counts: counts)[own]


def gather_candidates(
    candidates: Candidates, process_group: ProcessGroup | None
) -> tuple[Candidates, slice]:
    """Return the candidates of all ranks, and where this rank's lie among them."""
    if process_group is None:
        return candidates, slice(0, len(candidates.scores))
    bits = candidates.scores.view(torch.int32).long()
    rows = torch.stack([bits, candidates.sample_ids, candidates.positions], 1)
    everywhere, own = gather_rows(rows, process_group)
    bits, sample_ids, positions = everywhere.unbind(1)
    return (
        Candidates(
            scores=bits.int().view(torch.float32),
            ties=candidates.ties,
            sample_ids=sample_ids,
            positions=positions,
        ),
        own,
    )


def top_k_per_group(
    candidates: Candidates, group_ids: Int[Tensor, " M"], k_of: dict[int, int]
) -> Bool[Tensor, " M"]:
    """Return which candidates are among the best `k_of[group]` of their own group, same order."""
    order = torch.arange(len(candidates.scores), device=candidates.scores.device)
    ties = candidates.ties(candidates.sample_ids, candidates.positions)
    flipped = ties ^ torch.iinfo(torch.int64).min  # unsigned order as signed order
    for keys in (
        candidates.positions,
        candidates.sample_ids,
        flipped,
        -candidates.scores.double(),
        group_ids,
    ):
        order = order[torch.argsort(keys[order], stable=True)]
    chosen = torch.zeros(len(order), dtype=torch.bool, device=order.device)
    groups, counts = torch.unique_consecutive(group_ids[order], return_counts=True)
    first = 0
    for group, count in zip(groups.tolist(), counts.tolist(), strict=True):
        chosen[order[first : first + min(k_of[group], count)]] = True
        first += count
    return chosen


def _first(candidates: Candidates, k: int, reduce: Reduce) -> Tensor:
    ids, positions = candidates.sample_ids, candidates.positions

    def descending(index: Tensor | None) -> Tensor:
        # Floats that are not negative order like their bits; larger scores come first.
        return _LARGEST_INT32 - _picked(candidates.scores, index).view(torch.int32)

    columns = [
        KeyColumn(keys=descending, bits=_FLOAT_BITS),
        KeyColumn(
            keys=lambda index: candidates.ties(_picked(ids, index), _picked(positions, index)),
            bits=_KEY_BITS,
        ),
        KeyColumn(keys=lambda index: _picked(ids, index), bits=_KEY_BITS),
        KeyColumn(keys=lambda index: _picked(positions, index), bits=_KEY_BITS),
    ]
    return first_k(columns, len(ids), k, reduce, ids.device)


def _picked(values: Tensor, index: Tensor | None) -> Tensor:
    return values if index is None else values[index]
