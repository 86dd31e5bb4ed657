"""Scorers: a response, the ground truth and the task's entry in, a verdict out."""

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from reasoning_gym.factory import DATASETS, get_score_answer_fn

from gmts.imports import load_function
from gmts.rewards.config import RewardsConfig
from gmts.rewards.extract import EXTRACTORS
from gmts.rewards.verdict import RewardError, Verdict

Scorer = Callable[[str, str, Mapping[str, Any]], Verdict]
"""(response, ground truth, meta) -> verdict."""


def make_scorer(config: RewardsConfig) -> Scorer:
    """Return the scorer that `config` names, an own function imported and checked.

    Raises:
        ValueError: If rewards.custom cannot be imported or called.
    """
    return _SCORERS[config.scorer](config)


def _reasoning_gym(config: RewardsConfig) -> Scorer:
    """The task's own scorer; partial credit counts as wrong."""
    extract = EXTRACTORS[config.answer]
    functions: dict[str, Callable[..., float]] = {}

    def score(response: str, ground_truth: str, meta: Mapping[str, Any]) -> Verdict:
        start = time.perf_counter()
        _check_ground_truth(ground_truth)
        answer = extract(response)
        if answer is None:
            return _verdict(False, f"no answer ({config.answer})", None, start)
        task = str(meta["metadata"]["source_dataset"])
        if task not in functions:
            if task not in DATASETS:
                raise RewardError(f"{task!r} is not a reasoning-gym task")
            functions[task] = get_score_answer_fn(task)
        correct = functions[task](answer, meta) == 1.0
        return _verdict(correct, "right" if correct else "wrong", answer, start)

    return score


def _custom(config: RewardsConfig) -> Scorer:
    """An own function (response, ground_truth, meta) -> bool, number or Verdict.

    What it raises stops the run, with its own traceback.
    """
    function = load_function("rewards.custom", str(config.custom), 3)
    extract = EXTRACTORS[config.answer]

    def score(response: str, ground_truth: str, meta: Mapping[str, Any]) -> Verdict:
        start = time.perf_counter()
        _check_ground_truth(ground_truth)
        result = function(response, ground_truth, meta)
        if isinstance(result, Verdict):
            return result
        if not isinstance(result, bool | int | float) or math.isnan(result):
            raise RewardError(
                f"rewards.custom {config.custom} must return a bool, a number or a Verdict, got "
                f"{result!r}"
            )
        return Verdict(
            correct=result >= 1,
            score=float(result),
            reason="own scorer",
            extracted=extract(response),
            seconds=time.perf_counter() - start,
        )

    return score


def _check_ground_truth(ground_truth: str) -> None:
    if not ground_truth.strip():
        raise RewardError("the ground truth must be non-empty text, got nothing")


def _verdict(correct: bool, reason: str, extracted: str | None, start: float) -> Verdict:
    return Verdict(
        correct=correct,
        score=float(correct),
        reason=reason,
        extracted=extracted,
        seconds=time.perf_counter() - start,
    )


_SCORERS: dict[str, Callable[[RewardsConfig], Scorer]] = {
    "reasoning_gym": _reasoning_gym,
    "custom": _custom,
}
