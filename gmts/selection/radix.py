"""The first k of many tokens in a total order, by histograms of digits instead of sorting.

Keys are compared column after column, each from its highest digit down, as in a radix sort that
follows only the bucket in which the k-th token lies. Over ranks nothing but the histogram of 256
counters travels, so the result is the same wherever the tokens lie.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

_DIGIT_BITS = 8
_BUCKETS = 1 << _DIGIT_BITS

Reduce = Callable[[Tensor], Tensor]
"""Adds a tensor of counters over the ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyColumn:
    """One column of keys; smaller comes first, as unsigned numbers."""

    keys: Callable[[Tensor | None], Tensor]
    """Keys of the tokens at some indices, or of all for None; called only for tokens that tie in
    every column before, so that costly keys are computed for few."""
    bits: int
    """32 for int32 keys, 64 for int64."""


def first_k(
    columns: Sequence[KeyColumn], count: int, k: int, reduce: Reduce, device: torch.device
) -> Bool[Tensor, " M"]:
    """Return the mask of the `k` tokens that come first over all ranks.

    Args:
        columns: Keys of this rank's tokens, most significant column first; together they must
            tell any two tokens apart.
        count: M, the number of this rank's tokens.
        k: At most the number of tokens over all ranks.
        reduce: Sum over the ranks; identity for one process. Called equally often on each.
        device: Where the tokens are.

    Raises:
        ValueError: If two tokens have equal keys and only one of them is wanted.
    """
    chosen = torch.zeros(count, dtype=torch.bool, device=device)
    candidates: Tensor | None = None  # indices; None for all, which need not be written out
    if k == 0:
        return chosen
    for column in columns:
        keys = column.keys(candidates)
        for shift in range(column.bits - _DIGIT_BITS, -1, -_DIGIT_BITS):
            digits = ((keys >> shift) & (_BUCKETS - 1)).to(torch.uint8)
            counts = reduce(torch.bincount(digits, minlength=_BUCKETS))
            bucket, before, inside = _bucket_of(counts, k)
            taken, kept = digits < bucket, digits == bucket
            if candidates is None:
                chosen |= taken
                candidates = kept.nonzero()[:, 0]
            else:
                chosen[candidates[taken]] = True
                candidates = candidates[kept]
            keys = keys[kept]
            k -= before
            if k == inside:
                chosen[candidates] = True
                return chosen
    raise ValueError("tokens must differ in (sample id, position), got two with the same")


def _bucket_of(counts: Tensor, k: int) -> tuple[int, int, int]:
    """Return the bucket that holds the k-th token, the tokens before it, and those in it."""
    running = counts.cumsum(0)
    bucket = int(torch.searchsorted(running, k))
    inside = int(counts[bucket])
    return bucket, int(running[bucket]) - inside, inside
