r"""The verdict on a mathematical answer."""

import time
from collections.abc import Mapping
from typing import Any

from gmts.rewards.extract import after_thinking, last_boxed, last_statement
from gmts.rewards.math.equal import same
from gmts.rewards.math.lexer import TooLargeError
from gmts.rewards.math.normalise import MAX_ANSWER_CHARS, normalise
from gmts.rewards.math.read import read_answer
from gmts.rewards.verdict import SHOWN_CHARS, RewardError, Verdict, binary


def judge_math(
    response: str, ground_truth: str, meta: Mapping[str, Any], *, require_box: bool
) -> Verdict:
    r"""Judge a mathematical answer.

    Args:
        response: The whole response; what is judged is found after its thinking part, in the last
            box, else in the last statement of an answer.
        ground_truth: The right answer in LaTeX, with or without $ or \boxed{}.
        meta: `rel_tol`: share of the right number by which the answer may differ; absent: none.
        require_box: Look at boxes only.

    Raises:
        RewardError: If the ground truth is missing, or rel_tol is no number in [0, 1).
    """
    start = time.perf_counter()
    tolerance = _tolerance(meta)
    if not normalise(ground_truth):
        raise RewardError("the ground truth must be non-empty text, got nothing")
    text = after_thinking(response)
    answer = last_boxed(text)
    if answer is None and not require_box:
        answer = last_statement(text)
    correct, reason = False, "no answer"
    if answer is not None:
        correct, reason = _compare(answer, ground_truth, tolerance)
        answer = answer[:SHOWN_CHARS]
    return binary(correct, reason, answer, time.perf_counter() - start)


def _compare(answer: str, ground_truth: str, tolerance: float) -> tuple[bool, str]:
    if len(answer) > MAX_ANSWER_CHARS:
        return False, "too large"
    if normalise(answer) == normalise(ground_truth):
        return True, "right"
    try:
        correct = same(read_answer(ground_truth), read_answer(answer), tolerance)
    except TooLargeError:
        return False, "too large"
    return correct, "right" if correct else "wrong"


def _tolerance(meta: Mapping[str, Any]) -> float:
    value = meta.get("rel_tol") or 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise RewardError(f"rel_tol must be a number in [0, 1), got {value!r:.80}")
    return float(value)
