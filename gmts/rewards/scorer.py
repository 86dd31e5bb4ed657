"""Scorers: a response, the ground truth and the task's entry in, a verdict out."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gmts.imports import load_function
from gmts.rewards.config import RewardsConfig
from gmts.rewards.extract import EXTRACTORS
from gmts.rewards.kinds import Job
from gmts.rewards.pool import RewardPool
from gmts.rewards.verdict import RewardError, Verdict, binary

Scorer = Callable[[str, str, Mapping[str, Any]], Verdict]
"""(response, ground truth, meta) -> verdict."""


def make_scorer(config: RewardsConfig) -> Scorer:
    """Return the scorer that `config` names, an own function imported and checked.

    Raises:
        ValueError: If rewards.custom cannot be imported or called.
        IsolationError: If programs are to be judged and cannot be isolated here.
    """
    return _SCORERS[config.scorer](config)


def judge_all(scorer: Scorer, jobs: Sequence[Job]) -> list[Verdict]:
    """Return the verdicts of `jobs` in their order, side by side where the scorer has a pool.

    What a scorer raises goes on with a note that names the row.
    """
    if isinstance(scorer, PooledScorer):
        return scorer.pool.score_all(jobs)
    return [_noted(scorer, job) for job in jobs]


def _noted(scorer: Scorer, job: Job) -> Verdict:
    try:
        return scorer(job.response, job.ground_truth, job.meta)
    except BaseException as error:
        error.add_note(f"while judging a response to row {job.id}")
        raise


class PooledScorer:
    """A scorer whose verdicts come from a pool of processes."""

    def __init__(self, pool: RewardPool) -> None:
        self.pool = pool

    def __call__(self, response: str, ground_truth: str, meta: Mapping[str, Any]) -> Verdict:
        """Return the verdict on one response.

        Raises:
            RewardError: If the ground truth or meta cannot be judged by.
        """
        job = Job(id="(alone)", response=response, ground_truth=ground_truth, meta=meta)
        return self.pool.score_all([job])[0]


def _pooled(config: RewardsConfig) -> Scorer:
    pool = RewardPool(config.scorer, config.pool, require_box=config.math.require_box)
    return PooledScorer(pool)


def _reasoning_gym(config: RewardsConfig) -> Scorer:
    """The task's own scorer; partial credit counts as wrong."""
    # Of the extra smoke, and seconds to load: only where its tasks are judged.
    # The package first: while another thread imports it, its factory alone knows few tasks.
    import reasoning_gym  # noqa: F401, PLC0415
    from reasoning_gym.factory import DATASETS, get_score_answer_fn  # noqa: PLC0415

    extract = EXTRACTORS[config.answer]
    functions: dict[str, Callable[..., float]] = {}

    def score(response: str, ground_truth: str, meta: Mapping[str, Any]) -> Verdict:
        start = time.perf_counter()
        _check_ground_truth(ground_truth)
        answer = extract(response)
        if answer is None:
            return binary(False, f"no answer ({config.answer})", None, time.perf_counter() - start)
        task = str(meta["metadata"]["source_dataset"])
        if task not in functions:
            if task not in DATASETS:
                raise RewardError(f"{task!r} is not a reasoning-gym task")
            functions[task] = get_score_answer_fn(task)
        correct = functions[task](answer, meta) == 1.0
        reason = "right" if correct else "wrong"
        return binary(correct, reason, answer, time.perf_counter() - start)

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


def _code(config: RewardsConfig) -> Scorer:
    """Programs, judged by the tests in meta, or where there are none in the ground truth."""
    del config
    from gmts.rewards.code.scorer import score as score_code  # noqa: PLC0415  (of the extra code)
    from gmts.rewards.sandbox.isolation import check_isolation  # noqa: PLC0415  (beside it)

    check_isolation()  # before anything is sampled

    def score(response: str, ground_truth: str, meta: Mapping[str, Any]) -> Verdict:
        return score_code(response, str(meta.get("tests") or ground_truth), meta)

    return score


_SCORERS: dict[str, Callable[[RewardsConfig], Scorer]] = {
    "reasoning_gym": _reasoning_gym,
    "math": _pooled,
    "choice": _pooled,
    "code": _code,
    "custom": _custom,
}
