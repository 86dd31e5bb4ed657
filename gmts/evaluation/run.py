"""One model's scores on the test split, and everything needed to recompute them."""

import gzip
import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gmts.data.rows import Row
from gmts.evaluation.cache import Response
from gmts.evaluation.config import EvaluateConfig
from gmts.evaluation.lm import PolicyLM, score_with
from gmts.evaluation.statistics import average_at, estimate, pass_at
from gmts.evaluation.task import Judge, make_task, quiet_lm_eval, task_sha256
from gmts.files import write_atomic, write_json
from gmts.models.template import PromptTemplate
from gmts.rewards.scorer import Scorer
from gmts.rewards.verdict import Verdict

logger = logging.getLogger(__name__)

SCORES_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What was asked, answered and judged."""

    rows: Sequence[Row]
    responses: Sequence[Sequence[Response]]
    verdicts: Sequence[Sequence[Verdict]]
    lm_eval_average: float
    """The mean that lm-eval itself reports."""


def evaluate_policy(
    lm: PolicyLM,
    template: PromptTemplate,
    scorer: Scorer,
    rows: Sequence[Row],
    config: EvaluateConfig,
) -> Evaluation:
    """Ask every question `config.samples` times through lm-eval, and judge the responses."""
    judge = Judge(scorer, rows)
    with quiet_lm_eval():
        task = make_task(
            rows,
            template,
            judge,
            samples=config.samples,
            temperature=config.temperature,
            max_response_tokens=config.max_response_tokens,
        )
        results = score_with(lm, task)["results"][task.config.task]
    return Evaluation(
        rows=rows,
        responses=lm.responses,
        verdicts=[judge.verdicts[index] for index in range(len(rows))],
        lm_eval_average=float(results["average,all"]),
    )


def summarize(evaluation: Evaluation, config: EvaluateConfig) -> dict[str, Any]:
    """Return average@k and each pass@k with its interval, and the shares that qualify them."""
    correct = [sum(v.correct for v in verdicts) for verdicts in evaluation.verdicts]
    k, interval = config.samples, _interval(config)
    responses = [r for group in evaluation.responses for r in group]
    verdicts = [v for group in evaluation.verdicts for v in group]
    return {
        "samples": k,
        "questions": len(correct),
        "average": asdict(estimate(average_at(correct, k), **interval)),
        "pass_at": {
            str(n): asdict(estimate(pass_at(correct, k, n), **interval)) for n in config.pass_at
        },
        "truncated": sum(not r.finished for r in responses) / len(responses),
        "no_answer": sum(v.extracted is None for v in verdicts) / len(verdicts),
        "mean_tokens": sum(r.num_tokens for r in responses) / len(responses),
        "lm_eval_average": evaluation.lm_eval_average,
    }


def _interval(config: EvaluateConfig) -> dict[str, Any]:
    return {
        "num_resamples": config.bootstrap_samples,
        "confidence": config.confidence,
        "seed": config.seed,
    }


def write_evaluation(
    folder: Path, evaluation: Evaluation, config: EvaluateConfig, lineage: dict[str, Any]
) -> dict[str, Any]:
    """Write scores.json and responses.jsonl.gz into `folder`, and return the scores.

    Args:
        folder: Existing and empty.
        evaluation: Responses and verdicts.
        config: Samples, intervals.
        lineage: Model, hashes and settings, recorded with the scores.
    """
    scores: dict[str, Any] = {"schema_version": SCORES_VERSION, "task_sha256": task_sha256()}
    scores |= lineage | summarize(evaluation, config)
    lines = [
        json.dumps(
            {
                "id": row.id,
                "messages": list(row.messages),
                "ground_truth": row.ground_truth,
                "responses": [
                    asdict(response)
                    | {
                        "correct": verdict.correct,
                        "reason": verdict.reason,
                        "extracted": verdict.extracted,
                    }
                    for response, verdict in zip(responses, verdicts, strict=True)
                ],
            },
            ensure_ascii=False,
        )
        for row, responses, verdicts in zip(
            evaluation.rows, evaluation.responses, evaluation.verdicts, strict=True
        )
    ]
    write_atomic(folder / "responses.jsonl.gz", gzip.compress("\n".join(lines).encode(), mtime=0))
    write_json(folder / "scores.json", scores)
    if scores["truncated"] > config.truncated_warning:
        logger.warning(
            "%.0f%% of the responses were cut at evaluate.max_response_tokens (%d): the score "
            "counts them as they are",
            100 * scores["truncated"],
            config.max_response_tokens,
        )
    return scores
