"""Our lm-eval task over the prepared test split."""

import contextlib
import io
import logging
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

from datasets import Dataset
from lm_eval.api.task import ConfigurableTask
from ruamel.yaml import YAML

from gmts.data.rows import Row
from gmts.files import text_sha256
from gmts.models.template import PromptTemplate
from gmts.rewards.kinds import Job
from gmts.rewards.scorer import Scorer, judge_all
from gmts.rewards.verdict import Verdict

TASK = "gmts_test"


def task_text() -> str:
    """Return the task's YAML."""
    file = resources.files("gmts.evaluation").joinpath("tasks", f"{TASK}.yaml")
    return file.read_text(encoding="utf-8")


def task_sha256() -> str:
    """Return the hash of the task's YAML."""
    return text_sha256(task_text())


class Judge:
    """lm-eval's process_results: judges with the scorer of training, and keeps the verdicts."""

    def __init__(self, scorer: Scorer, rows: Sequence[Row]) -> None:
        self._scorer = scorer
        self._rows = rows
        self.verdicts: dict[int, list[Verdict]] = {}
        """By the question's place in the split."""

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
    rows: Sequence[Row],
    template: PromptTemplate,
    judge: Judge,
    *,
    samples: int,
    temperature: float,
    max_response_tokens: int,
) -> SplitTask:
    """Return the task: every question asked `samples` times.

    Without the take_first_k filter lm-eval would score one response of them.

    Args:
        rows: The test split.
        template: Of training; prompts are rendered by it alone.
        judge: Receives each question's responses.
        samples: Repeats.
        temperature: Of sampling.
        max_response_tokens: Length limit.
    """
    config: dict[str, Any] = YAML(typ="safe").load(task_text())
    prompts = [template.render(row.messages) for row in rows]
    split = Dataset.from_list(
        [{"index": i, "ground_truth": row.ground_truth} for i, row in enumerate(rows)]
    )
    return SplitTask(
        config=config
        | {
            "custom_dataset": lambda **_: {"test": split},
            "doc_to_text": lambda doc: prompts[doc["index"]],
            "process_results": judge,
            "repeats": samples,
            "filter_list": [
                {"name": "all", "filter": [{"function": "take_first_k", "k": samples}]}
            ],
            "generation_kwargs": config["generation_kwargs"]
            | {
                "temperature": temperature,
                "max_gen_toks": max_response_tokens,
            },
        }
    )
