"""The lm-eval task of gmts, over the test split or a benchmark."""

import contextlib
import io
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, Self

from datasets import Dataset
from lm_eval.api.task import ConfigurableTask
from ruamel.yaml import YAML

from gmts.data.rows import Row
from gmts.evaluation.config import EvaluateConfig
from gmts.files import text_sha256
from gmts.models.template import PromptTemplate
from gmts.rewards.kinds import Job
from gmts.rewards.scorer import Scorer, judge_all
from gmts.rewards.verdict import Verdict


def task_text() -> str:
    """Return the task's YAML."""
    file = resources.files("gmts.evaluation").joinpath("tasks", "gmts.yaml")
    return file.read_text(encoding="utf-8")


def task_sha256(name: str, config: EvaluateConfig) -> str:
    """Return the hash of the task `name`: its YAML, and what `make_task` puts into it."""
    filled = [name, config.samples, config.temperature, config.max_response_tokens]
    return text_sha256(json.dumps([task_text(), *filled]))


class Judge:
    """lm-eval's process_results: judges with the scorer of training, and keeps the verdicts."""

    def __init__(self, scorer: Scorer, rows: Sequence[Row]) -> None:
        self._scorer = scorer
        self._rows = rows
        self.verdicts: dict[int, list[Verdict]] = {}
        """By the question's place in the split."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return itself: lm-eval copies a task's settings, and a pool of judges has no copy."""
        return self

    def __call__(self, doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, float]:
        """Return the metrics of one question from its responses."""
        texts = results[0] if isinstance(results[0], list) else list(results)
        row = self._rows[doc["index"]]
        verdicts = judge_all(
            self._scorer,
            [
                Job(id=row.id, response=text, ground_truth=row.ground_truth, meta=row.meta)
                for text in texts
            ],
        )
        self.verdicts[doc["index"]] = verdicts
        return {"average": sum(verdict.correct for verdict in verdicts) / len(verdicts)}


class SplitTask(ConfigurableTask):  # type: ignore[misc]  # lm-eval is not typed
    """lm-eval's task without its progress bar over prompts, which are there in an instant."""

    def build_all_requests(self, **settings: Any) -> None:
        """Build the requests, see lm-eval."""
        with contextlib.redirect_stderr(io.StringIO()):
            super().build_all_requests(**settings)


@contextlib.contextmanager
def quiet_lm_eval() -> Iterator[None]:
    """Let only errors of lm-eval through; it advises users of its own command line."""
    logger = logging.getLogger("lm_eval")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def make_task(
    name: str,
    rows: Sequence[Row],
    template: PromptTemplate,
    judge: Judge,
    config: EvaluateConfig,
) -> SplitTask:
    """Return the task: every question asked `config.samples` times.

    Without the take_first_k filter lm-eval would score one response of them.

    Args:
        name: What lm-eval calls it.
        rows: Of the test split or a benchmark.
        template: Of training; prompts are rendered by it alone.
        judge: Receives each question's responses.
        config: Samples, temperature (0 is greedy) and length limit.
    """
    tree: dict[str, Any] = YAML(typ="safe").load(task_text())
    prompts = [template.render(row.messages) for row in rows]
    split = Dataset.from_list(
        [{"index": i, "ground_truth": row.ground_truth} for i, row in enumerate(rows)]
    )
    return SplitTask(
        config=tree
        | {
            "task": name,
            "custom_dataset": lambda **_: {"test": split},
            "doc_to_text": lambda doc: prompts[doc["index"]],
            "process_results": judge,
            "repeats": config.samples,
            "filter_list": [
                {"name": "all", "filter": [{"function": "take_first_k", "k": config.samples}]}
            ],
            "generation_kwargs": tree["generation_kwargs"]
            | {
                "do_sample": config.temperature > 0,
                "temperature": config.temperature,
                "max_gen_toks": config.max_response_tokens,
            },
        }
    )
