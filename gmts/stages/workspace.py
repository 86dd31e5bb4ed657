"""Where each stage finds its inputs and leaves its outputs, and what it reports."""

import json
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from gmts.files import locked, write_json

ModelName = Literal["initial", "last", "best"]
MODELS: tuple[ModelName, ...] = ("initial", "last", "best")
"""The models that are scored: before training, after it, and at its best on validation."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folders of one experiment, relative to the root of a clone."""

    root: Path

    @property
    def params_file(self) -> Path:
        """The complete experiment."""
        return self.root / "params.yaml"

    @property
    def prepared_dir(self) -> Path:
        """The splits as parquet, manifest.json and, for a built model, tokenizer/."""
        return self.root / "data" / "prepared"

    @property
    def initial_dir(self) -> Path:
        """initial.json, and the warm-started model where one was built."""
        return self.root / "models" / "initial"

    @property
    def last_dir(self) -> Path:
        """The policy after the final step, as a Hugging Face folder."""
        return self.root / "models" / "last"

    @property
    def best_dir(self) -> Path:
        """The policy with the highest validation score, as a Hugging Face folder."""
        return self.root / "models" / "best"

    @property
    def train_dir(self) -> Path:
        """metrics.jsonl, summary.json, rollouts/, tensorboard/, dvclive/."""
        return self.root / "reports" / "train"

    def evaluation_dir(self, model: str) -> Path:
        """Scores and compressed responses of `model`: initial, last or best."""
        return self.root / "reports" / "evaluation" / model

    @property
    def benchmarks_dir(self) -> Path:
        """BENCHMARK/MODEL/, each as of `evaluation_dir`."""
        return self.root / "reports" / "benchmarks"

    @property
    def report_dir(self) -> Path:
        """index.html and plots/."""
        return self.root / "reports" / "report"

    @property
    def published_dir(self) -> Path:
        """One Hugging Face folder per run name."""
        return self.root / "published"

    @property
    def summary_file(self) -> Path:
        """The run in one JSON file."""
        return self.root / "reports" / "summary.json"

    def stage_file(self, stage: str) -> Path:
        """The `StageResult` of `stage`, e.g. evaluate-initial."""
        return self.root / "reports" / "stages" / f"{stage}.json"

    @property
    def work_dir(self) -> Path:
        """Resumable state and caches; ignored by git and by DVC."""
        return self.root / "work"

    @property
    def lock_file(self) -> Path:
        """Held, shared, by every running stage; `gmts clean` wants it alone."""
        return self.work_dir / "stages.lock"

    def given_model(self, path: str) -> Path:
        """Return the folder that model.path names.

        Raises:
            ValueError: If it lies in a folder that the pipeline empties before it writes there.
        """
        found = (self.root / path).resolve()
        for own in (self.initial_dir, self.last_dir, self.best_dir, self.published_dir):
            if found.is_relative_to(own.resolve()):
                raise ValueError(
                    f"model.path must lie outside {own}, got {path}: the pipeline empties that "
                    "folder before it writes there, and the model would be lost; copy it first, "
                    "e.g. to work/models"
                )
        return found


StepWatcher = Callable[[int, int, str], None]
"""Takes a step of training, the number of steps and a line for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageResult:
    """What a stage did."""

    stage: str
    seconds: float
    peak_memory_mib: float
    values: Mapping[str, Any] = field(default_factory=dict)


class StageClock:
    """Collects what a stage reports; see `stage_run`."""

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self.values: dict[str, Any] = {}
        self._start = time.monotonic()

    def result(self) -> StageResult:
        """Return the stage's result so far: wall seconds, this process's peak resident memory."""
        peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return StageResult(
            stage=self.stage,
            seconds=round(time.monotonic() - self._start, 3),
            peak_memory_mib=round(peak_kib / 1024, 1),
            values=json.loads(json.dumps(self.values)),
        )


@contextmanager
def stage_run(stage: str, workspace: Workspace) -> Iterator[StageClock]:
    """Time a stage and write its `StageResult` to the workspace once the block succeeds."""
    clock = StageClock(stage)
    with locked(workspace.lock_file, shared=True):
        yield clock
        write_json(workspace.stage_file(stage), asdict(clock.result()))
