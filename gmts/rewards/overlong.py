"""Soft overlong punishment: what a response's length costs. Source: arXiv 2503.14476, equation 13.

It is added to the reward that advantages are taken of and to nothing else: verdicts, accuracy and
dynamic sampling never see it.
"""

from collections.abc import Sequence

from gmts.rewards.config import OverlongConfig


def overlong_penalty(num_tokens: int, config: OverlongConfig, *, max_response_tokens: int) -> float:
    """Return what is added to the reward of a response, between -factor and 0.

    0 up to max_response_tokens - buffer_tokens, from there falling linearly to -factor at
    max_response_tokens; 0 everywhere if buffer_tokens is None.

    Args:
        num_tokens: Length of the response, its end token included.
        config: Buffer and factor.
        max_response_tokens: The length limit of rollouts.
    """
    if config.buffer_tokens is None:
        return 0.0
    over = num_tokens - (max_response_tokens - config.buffer_tokens)
    return -config.factor * min(over / config.buffer_tokens, 1.0) if over > 0 else 0.0


def overlong_metrics(
    lengths: Sequence[int], config: OverlongConfig, *, max_response_tokens: int
) -> dict[str, float]:
    """Return reward/overlong_mean, the mean penalty over responses; nothing where it is off."""
    if config.buffer_tokens is None:
        return {}
    total = sum(
        overlong_penalty(length, config, max_response_tokens=max_response_tokens)
        for length in lengths
    )
    return {"reward/overlong_mean": total / len(lengths)}
