"""What a scorer says about one response."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A judged response."""

    correct: bool
    """The verdict: dynamic sampling and accuracy look at this alone."""
    score: float
    """The reward: 1.0 or 0.0 unless an own scorer grades."""
    reason: str
    """Why, in a few words."""
    extracted: str | None
    """The answer found in the response; None if there was none."""
    seconds: float
    """Time the scorer took."""


class RewardError(RuntimeError):
    """A scorer failed; a failure is never a silent 0."""
