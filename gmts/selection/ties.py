"""A 64-bit counter-based hash of (seed, step, sample id, position).

It orders tied scores fairly and reproducibly: the same tokens win whatever the rank, the
micro-batch or the order of the batch, and no response is favoured for standing first. A token's
position is its distance from the first response token of its row, so that padding does not count.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

_TIES, _RANDOM = 0x7469, 0x726E
"""Separate streams for breaking ties and for random scores."""

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed 64-bit number
_MULTIPLIERS = (-4658895280553007687, -7723592293110705685)  # of splitmix64's finalizer
_RANDOM_BITS = 24
_SIGN, _MODULUS = 1 << 63, 1 << 64


def first_positions(response_mask: Bool[Tensor, "B T"]) -> Int[Tensor, " B"]:
    """Return the column of each row's first response token; 0 for a row without one."""
    if response_mask.shape[1] == 0:
        return torch.zeros(len(response_mask), dtype=torch.int64, device=response_mask.device)
    return response_mask.to(torch.uint8).argmax(1)


def tie_states(sample_ids: Int[Tensor, " B"], *, seed: int, step: int) -> Int[Tensor, " B"]:
    """Return the part of the tie keys that a response's tokens share, see `tie_keys`."""
    return _states(sample_ids, seed, step, _TIES)


def tie_keys(states: Int[Tensor, "*N"], positions: Int[Tensor, "*N"]) -> Int[Tensor, "*N"]:
    """Return one 64-bit key per token; of tied tokens the one with the smaller key comes first.

    Keys count as unsigned numbers. Within a response no two are equal.
    """
    return _absorb(states, positions)


def random_scores(
    sample_ids: Int[Tensor, " B"], response_mask: Bool[Tensor, "B T"], *, seed: int, step: int
) -> Float[Tensor, "B T"]:
    """Return float32 scores in (0, 1], uniform over 2^24 values; columns of padding are noise."""
    columns = torch.arange(response_mask.shape[1], device=response_mask.device)
    positions = columns - first_positions(response_mask)[:, None]
    keys = _absorb(_states(sample_ids, seed, step, _RANDOM)[:, None], positions)
    numbers: Tensor = (_shifted(keys, 64 - _RANDOM_BITS) + 1).float()
    return numbers.div_(2**_RANDOM_BITS)


def _states(sample_ids: Tensor, seed: int, step: int, stream: int) -> Tensor:
    state = torch.zeros_like(sample_ids, dtype=torch.int64)
    for field in (stream, _signed(seed), _signed(step), sample_ids):
        state = _absorb(state, field)
    return state


def _absorb(state: Tensor, field: Tensor | int) -> Tensor:
    """Mix a field into the state, modulo 2^64; Source: splitmix64 (Steele et al. 2014)."""
    state = state * 31 + _GOLDEN + field
    state.bitwise_xor_(_shifted(state, 30)).mul_(_MULTIPLIERS[0])
    state.bitwise_xor_(_shifted(state, 27)).mul_(_MULTIPLIERS[1])
    return state.bitwise_xor_(_shifted(state, 31))


def _shifted(state: Tensor, bits: int) -> Tensor:
    """Return the unsigned right shift."""
    return (state >> bits).bitwise_and_((1 << (64 - bits)) - 1)


def _signed(value: int) -> int:
    """Return the value modulo 2^64 as int64 holds it."""
    return (value + _SIGN) % _MODULUS - _SIGN
