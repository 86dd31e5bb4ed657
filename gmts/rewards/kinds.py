"""The verdicts that a pool's workers give, by kind. Nothing here loads before it is used."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gmts.rewards.verdict import TOO_LONG, Verdict, binary

MAX_RESPONSE_CHARS = 1_000_000
"""Longer responses are wrong without being read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A response to judge."""

    id: str
    """Of the question and the sample, for messages."""
    response: str
    ground_truth: str
    meta: Mapping[str, Any]
    """What the verdict needs besides: choices, rel_tol."""


def _math(job: Job, require_box: bool) -> Verdict:
    from gmts.rewards.math.judge import judge_math  # noqa: PLC0415  (loads sympy)

    return judge_math(job.response, job.ground_truth, job.meta, require_box=require_box)


def _choice(job: Job, require_box: bool) -> Verdict:
    from gmts.rewards.choice import judge_choice  # noqa: PLC0415  (beside _math)

    return judge_choice(job.response, job.ground_truth, job.meta)


JUDGES: dict[str, Callable[[Job, bool], Verdict]] = {"math": _math, "choice": _choice}
"""By kind; the second argument is rewards.math.require_box."""


def judge(kind: str, job: Job, *, require_box: bool) -> Verdict:
    """Return the verdict of one kind.

    Raises:
        RewardError: If the ground truth or meta cannot be judged by.
    """
    return too_long(job) or JUDGES[kind](job, require_box)


def too_long(job: Job) -> Verdict | None:
    """Return the verdict on a response that is too long to be read; None if it is not."""
    if len(job.response) <= MAX_RESPONSE_CHARS:
        return None
    return binary(False, TOO_LONG, None, 0.0)
