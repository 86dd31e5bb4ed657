"""Token selection in plain loops over Python numbers, by sorting; imports nothing of gmts."""

import math
from decimal import Decimal

_WORD = 2**64


def _mix(state: int, field: int) -> int:
    """Absorb a field into the state: splitmix64's finalizer, in Python integers modulo 2^64."""
    state = (state * 31 + 0x9E3779B97F4A7C15 + field) % _WORD
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % _WORD
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB % _WORD
    return state ^ (state >> 31)


def token_hash(stream: bytes, seed: int, step: int, sample_id: int, position: int) -> int:
    """Return the 64-bit hash of a token; stream b"ti" breaks ties, b"rn" makes random scores."""
    state = 0
    for field in (int.from_bytes(stream, "big"), seed, step, sample_id, position):
        state = _mix(state, field)
    return state


def select(
    scores: list[list[float]],
    mask: list[list[bool]],
    eligible: list[list[bool]],
    sample_ids: list[int],
    scopes: list[int],
    *,
    ratio: float,
    side: str,
    seed: int,
    step: int,
) -> list[list[bool]]:
    """Return the selected tokens of each row."""
    chosen = [[False] * len(row) for row in mask]
    share = Decimal(str(ratio)) if side == "top" else 1 - Decimal(str(ratio))
    for scope in sorted(set(scopes)):
        num_tokens = 0
        ranking = []
        for row in range(len(mask)):
            if scopes[row] != scope:
                continue
            num_tokens += sum(mask[row])
            start = mask[row].index(True) if any(mask[row]) else 0
            for column in range(len(mask[row])):
                if eligible[row][column]:
                    position = column - start
                    tie = token_hash(b"ti", seed, step, sample_ids[row], position)
                    order = (-scores[row][column], tie, sample_ids[row], position)
                    ranking.append((order, row, column))
        ranking.sort()
        top = min(math.ceil(share * num_tokens), len(ranking))
        for _, row, column in ranking[:top] if side == "top" else ranking[top:]:
            chosen[row][column] = True
    return chosen
