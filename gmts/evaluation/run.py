"""One model's scores on questions, and everything needed to recompute them."""

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gmts.data.rows import Row
from gmts.evaluation.cache import Response
from gmts.evaluation.config import EvaluateConfig
from gmts.evaluation.lm import PolicyLM, score_with
from gmts.evaluation.results import RESPONSES, SCORES, SCORES_VERSION, Judged, write_responses
from gmts.evaluation.statistics import average_at, estimate, pass_at, set_rates
from gmts.evaluation.task import Judge, make_task, quiet_lm_eval, task_sha256
from gmts.files import file_sha256, text_sha256, write_json
from gmts.models.template import PromptTemplate
from gmts.rewards.scorer import Scorer
from gmts.rewards.verdict import Verdict

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What was asked, answered and judged."""

    rows: Sequence[Row]
    responses: Sequence[Sequence[Response]]
    verdicts: Sequence[Sequence[Verdict]]
    lm_eval_average: float | None = None
    """The mean that lm-eval itself reports; None where stored responses were judged again."""


def greedy_settings(config: EvaluateConfig) -> EvaluateConfig:
    """Return the settings of a greedy evaluation: one response, temperature 0."""
    return replace(config, samples=1, pass_at=(1,), temperature=0.0)


def evaluate_policy(
    lm: PolicyLM,
    template: PromptTemplate,
    scorer: Scorer,
    rows: Sequence[Row],
    config: EvaluateConfig,
    *,
    task: str = "gmts_test",
) -> Evaluation:
    """Ask every question `config.samples` times through lm-eval, and judge the responses."""
    judge = Judge(scorer, rows)
    with quiet_lm_eval():
        made = make_task(task, rows, template, judge, config)
        results = score_with(lm, made)["results"][task]
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
    summary = {
        "samples": k,
        "questions": len(correct),
        "average": asdict(estimate(average_at(correct, k), **interval)),
        "pass_at": {
            str(n): asdict(estimate(pass_at(correct, k, n), **interval)) for n in config.pass_at
        },
        "truncated": sum(not r.finished for r in responses) / len(responses),
        "no_answer": sum(v.extracted is None for v in verdicts) / len(verdicts),
        "mean_tokens": sum(r.num_tokens for r in responses) / len(responses),
    }
    if any(v.statuses for v in verdicts):
        rates = set_rates([[v.statuses for v in group] for group in evaluation.verdicts])
        summary["pass_rates"] = {
            name: asdict(estimate(values, **interval)) for name, values in rates.items()
        }
    if evaluation.lm_eval_average is not None:
        summary["lm_eval_average"] = evaluation.lm_eval_average
    return summary


def _interval(config: EvaluateConfig) -> dict[str, Any]:
    return {
        "num_resamples": config.bootstrap_samples,
        "confidence": config.confidence,
        "seed": config.seed,
    }


def write_evaluation(
    folder: Path,
    evaluation: Evaluation,
    config: EvaluateConfig,
    lineage: dict[str, Any],
    *,
    template: PromptTemplate,
    task: str,
) -> dict[str, Any]:
    """Write scores.json and responses.jsonl.gz into `folder`, and return the scores.

    Args:
        folder: Existing and empty.
        evaluation: Responses and verdicts.
        config: Samples, intervals.
        lineage: Model, hashes and settings, recorded with the scores.
        template: Of the prompts.
        task: lm-eval's name of the task.
    """
    judged = [
        Judged(row=row, responses=tuple(responses), verdicts=tuple(verdicts))
        for row, responses, verdicts in zip(
            evaluation.rows, evaluation.responses, evaluation.verdicts, strict=True
        )
    ]
    write_responses(folder / RESPONSES, judged)
    prompts = "\0".join(template.render(row.messages) for row in evaluation.rows)
    scores = {
        "schema_version": SCORES_VERSION,
        "task": task,
        "task_sha256": task_sha256(task, config),
        "prompts_sha256": text_sha256(prompts),
        "template_sha256": template.sha256,
        "responses_sha256": file_sha256(folder / RESPONSES),
        "settings": asdict(config),
        **lineage,
        **summarize(evaluation, config),
    }
    write_json(folder / SCORES, scores)
    if scores["truncated"] > config.truncated_warning:
        logger.warning(
            "%s: %.0f%% of the responses were cut at evaluate.max_response_tokens (%d): the score "
            "counts them as they are",
            task,
            100 * scores["truncated"],
            config.max_response_tokens,
        )
    return scores
