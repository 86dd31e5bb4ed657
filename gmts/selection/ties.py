"""A 64-bit counter-based hash of (seed, step, sample id, position).

It orders tied scores fairly and reproducibly: the same tokens win whatever the rank, the
micro-batch or the order of the batch, and no response is favoured for standing first.
"""

import torch
from jaxtyping import Int
from torch import Tensor

_TIES, _RANDOM = 0x7469, 0x726E
"""Separate streams for breaking ties and for random scores."""

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed 64-bit number
_MULTIPLIERS = (-4658895280553007687, -7723592293110705685)  # of splitmix64's finalizer
_RANDOM_BITS = 24


def tie_keys(
    sample_ids: Int[Tensor, " N"], positions: Int[Tensor, " N"], *, seed: int, step: int
) -> Int[Tensor, " N"]:
    """Return one 64-bit key per token; of tied tokens the one with the smaller key comes first.

    Keys count as unsigned numbers.
    """
    return _hash(sample_ids, positions, seed, step, _TIES)


def random_scores(
    sample_ids: Int[Tensor, " N"], positions: Int[Tensor, " N"], *, seed: int, step: int
) -> Tensor:
    """Return float32 scores in (0, 1], uniform over 2^24 values."""
    keys = _hash(sample_ids, positions, seed, step, _RANDOM)
    top = _shifted(keys, 64 - _RANDOM_BITS)
    scores: Tensor = (top + 1).float() / 2**_RANDOM_BITS
    return scores


def _hash(sample_ids: Tensor, positions: Tensor, seed: int, step: int, stream: int) -> Tensor:
    """Mix each field into the state in turn (splitmix64, Steele et al. 2014), modulo 2^64."""
    state = torch.zeros_like(sample_ids)
    for field in (stream, seed, step, sample_ids, positions):
        state = _mix(state * 31 + _GOLDEN + field)
    return state


def _mix(state: Tensor) -> Tensor:
    state = (state ^ _shifted(state, 30)) * _MULTIPLIERS[0]
    state = (state ^ _shifted(state, 27)) * _MULTIPLIERS[1]
    return state ^ _shifted(state, 31)


def _shifted(state: Tensor, bits: int) -> Tensor:
    """Return the unsigned right shift."""
    return (state >> bits) & ((1 << (64 - bits)) - 1)
