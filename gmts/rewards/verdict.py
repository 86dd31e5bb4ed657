"""What a scorer says about one response."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A judged response."""

    correct: bool
    """The verdict: dynamic sampling and accuracy look at this alone."""
    score: float
    """The reward: 1.0 or 0.0 unless an own scorer grades."""
    reason: str
    """Why, in a few words; docs/rewards.md lists those of mathematics and multiple choice."""
    extracted: str | None
    """The answer found in the response; None if there was none."""
    seconds: float
    """Time the scorer took."""
    statuses: Mapping[str, str] = field(default_factory=dict)
    """Where tests come in sets (base, plus), what became of each: pass, fail or timeout."""


class RewardError(RuntimeError):
    """A scorer failed; a failure is never a silent 0."""


TIMEOUT = "timeout"
"""Reason: the verdict did not come within the deadline, and its worker was ended."""
MEMORY = "memory limit"
"""Reason: judging needed more memory than a worker may have."""
TOO_LONG = "response too long"
"""Reason: the response is longer than what is judged."""
ERROR = "error"
"""Start of a reason: the scorer raised; the rest says what."""

SHOWN_CHARS = 500
"""Of an extracted answer that a verdict keeps."""


def binary(correct: bool, reason: str, extracted: str | None, seconds: float) -> Verdict:
    """Return a verdict that is right or wrong, with nothing between."""
    return Verdict(
        correct=correct,
        score=float(correct),
        reason=reason,
        extracted=extracted,
        seconds=seconds,
    )
