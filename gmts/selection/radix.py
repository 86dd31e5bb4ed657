"""Radix selection: the first k tokens of each scope by histograms of digits instead of sorting.

    S  scopes that are selected from at once, each with its own k

As in a radix sort that follows only the bucket in which the k-th token lies, from the highest digit
down. Over ranks nothing but histograms of 256 counters per scope travels, so the result is the same
wherever the tokens lie.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

DIGIT_BITS = 8
BUCKETS = 1 << DIGIT_BITS
_BLOCK_TOKENS = 1 << 15
"""Tokens that are looked at together: they stay in the cache, and memory stays small."""

Reduce = Callable[[Tensor], Tensor]
"""Adds a tensor of counters over the ranks; every rank calls it equally often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyColumn:
    """One column of keys; smaller comes first, as unsigned numbers."""

    keys: Int[Tensor, " M"]
    bits: int
    """A multiple of `DIGIT_BITS`; the keys are below 2^bits."""


def row_blocks(num_rows: int, num_columns: int) -> Iterator[slice]:
    """Yield slices of consecutive rows, together about `_BLOCK_TOKENS` tokens each."""
    size = max(1, _BLOCK_TOKENS // max(num_columns, 1))
    for first in range(0, num_rows, size):
        yield slice(first, first + size)


def row_counts(mask: Bool[Tensor, "B T"]) -> Int[Tensor, " B"]:
    """Return how many are True in each row, without writing the mask out as int64."""
    empty = torch.zeros(0, dtype=torch.int64, device=mask.device)
    return torch.cat([empty, *(mask[rows].sum(1) for rows in row_blocks(*mask.shape))])


def split_at(
    counts: Int[Tensor, "S buckets"], wanted: Int[Tensor, " S"]
) -> tuple[Int[Tensor, " S"], Int[Tensor, " S"], Int[Tensor, " S"]]:
    """Return the bucket of each scope's last wanted token, what is wanted of it, and its size."""
    running = counts.cumsum(1)
    bucket = torch.searchsorted(running, wanted[:, None])
    size, end = counts.gather(1, bucket)[:, 0], running.gather(1, bucket)[:, 0]
    return bucket[:, 0], wanted - (end - size), size


def kth_largest(
    keys: Int[Tensor, "B T"],
    scopes: Int[Tensor, " B"],
    wanted: Int[Tensor, " S"],
    reduce: Reduce,
) -> tuple[Int[Tensor, " S"], Int[Tensor, " S"], Int[Tensor, " S"]]:
    """Return each scope's k-th largest key, how many tokens with just that key are wanted, and all.

    Args:
        keys: int32; negative ones do not take part.
        scopes: Scope of each row, in [0, S).
        wanted: k per scope, from 1 to the number of its keys >= 0 over all ranks.
        reduce: Sum over the ranks.
    """
    num_scopes = len(wanted)
    prefix = torch.zeros(num_scopes, dtype=torch.int32, device=keys.device)
    size, width = wanted, BUCKETS // 2  # the sign bit is 0
    for shift in (24, 16, 8, 0):
        # Digits count from 1; 0 and width + 1 collect the tokens below and above the prefix.
        base = (prefix * width - 1)[scopes, None]
        offsets = (scopes.int() * (width + 2))[:, None]
        counts = torch.zeros(num_scopes * (width + 2), dtype=torch.int64, device=keys.device)
        for rows in row_blocks(*keys.shape):
            digits = (keys[rows] >> shift).sub_(base[rows]).clamp_(0, width + 1)
            digits.add_(offsets[rows])
            counts += torch.bincount(digits.flatten(), minlength=len(counts))
        digit_counts = counts.view(num_scopes, width + 2)[:, 1:-1]
        # The largest digit first.
        bucket, wanted, size = split_at(reduce(digit_counts.contiguous()).flip(1), wanted)
        prefix = prefix * width + (width - 1 - bucket).int()
        width = BUCKETS
    return prefix, wanted, size


def first_k(
    columns: Sequence[KeyColumn],
    scopes: Int[Tensor, " M"],
    wanted: Int[Tensor, " S"],
    sizes: Int[Tensor, " S"],
    reduce: Reduce,
) -> Bool[Tensor, " M"]:
    """Return which of this rank's tokens are among the first `wanted` of their scope.

    Args:
        columns: Keys of this rank's tokens, most significant column first; together they must
            tell any two tokens of a scope apart.
        scopes: Scope of each token, in [0, S).
        wanted: k per scope over all ranks, at most its size.
        sizes: Tokens of each scope over all ranks.
        reduce: Sum over the ranks.

    Raises:
        ValueError: If two tokens have equal keys and only one of them is wanted.
    """
    chosen = torch.zeros(len(scopes), dtype=torch.bool, device=scopes.device)
    rest = torch.arange(len(scopes), device=scopes.device)
    digits_left = [
        (column, shift)
        for column in columns
        for shift in range(column.bits - DIGIT_BITS, -1, -DIGIT_BITS)
    ]
    while True:
        settled = wanted == sizes  # all that is left of the scope is wanted
        chosen[rest[settled[scopes[rest]]]] = True
        wanted = torch.where(settled, 0, wanted)
        if not bool(wanted.any()):
            return chosen
        if not digits_left:
            raise ValueError("tokens must differ in (sample id, position), got two with the same")
        column, shift = digits_left.pop(0)
        rest = rest[wanted[scopes[rest]] > 0]
        scope = scopes[rest]
        digits = (column.keys[rest] >> shift) & (BUCKETS - 1)
        counts = torch.bincount(scope * BUCKETS + digits, minlength=len(wanted) * BUCKETS)
        bucket, wanted, sizes = split_at(reduce(counts.view(len(wanted), BUCKETS)), wanted)
        chosen[rest[digits < bucket[scope]]] = True
        rest = rest[digits == bucket[scope]]
