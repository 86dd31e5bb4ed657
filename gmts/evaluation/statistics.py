"""average@k, pass@k and their bootstrap intervals over questions."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean over questions with its interval, in [0, 1]."""

    value: float
    low: float
    high: float


def average_at(num_correct: Sequence[int], num_samples: int) -> list[float]:
    """Return each question's share of correct responses."""
    return [correct / num_samples for correct in num_correct]


def pass_at(num_correct: Sequence[int], num_samples: int, k: int) -> list[float]:
    """Return each question's chance that at least one of k responses is correct, unbiased.

    1 - C(n - c, k) / C(n, k) with n samples of which c are correct.

    Raises:
        ValueError: If k is not in [1, num_samples].

    Source: arXiv 2107.03374, equation 1.
    """
    if not 1 <= k <= num_samples:
        raise ValueError(f"k must be in [1, {num_samples}], got {k}")
    whole = comb(num_samples, k)
    return [1.0 - comb(num_samples - correct, k) / whole for correct in num_correct]


def estimate(
    values: Sequence[float], *, num_resamples: int, confidence: float, seed: int
) -> Estimate:
    """Return the mean of per-question values and its percentile bootstrap interval.

    Questions are resampled, not responses: responses to one question are not independent.

    Args:
        values: One per question.
        num_resamples: Bootstrap resamples.
        confidence: Level of the interval.
        seed: Of the resampling.

    Raises:
        ValueError: If there is no value.
    """
    if not values:
        raise ValueError("an estimate must have at least one question, got none")
    data = np.asarray(values, dtype=np.float64)
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(len(data), np.full(len(data), 1 / len(data)), size=num_resamples)
    means = counts @ data / len(data)
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return Estimate(value=float(data.mean()), low=float(low), high=float(high))
