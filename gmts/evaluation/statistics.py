"""average@k, pass@k and their bootstrap intervals over questions."""

from collections.abc import Mapping, Sequence
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


def set_rates(statuses: Sequence[Sequence[Mapping[str, str]]]) -> dict[str, list[float]]:
    """Return each question's share of responses that pass each set of tests, and their `mean`.

    A response passes a set only if it passes those before it too.

    Args:
        statuses: Of each response to each question; set -> pass or something else. At least one
            response has them.
    """
    names = list(next(one for group in statuses for one in group if one))
    rates = {
        name: [
            sum(all(one.get(earlier) == "pass" for earlier in names[: place + 1]) for one in group)
            / len(group)
            for group in statuses
        ]
        for place, name in enumerate(names)
    }
    means = [sum(values) / len(names) for values in zip(*rates.values(), strict=True)]
    return rates | {"mean": means}


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
