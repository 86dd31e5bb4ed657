"""Where metrics go: metrics.jsonl always, TensorBoard, DVCLive, W&B and MLflow if asked for."""

import importlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from torch.utils.tensorboard import SummaryWriter

from gmts.trainers.config import TrackingConfig

METRICS_FILE = "metrics.jsonl"


class Tracker(Protocol):
    """Takes a step's metrics."""

    keeps_history: bool
    """True if a resumed run finds its earlier steps there; else they are told again."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Take the metrics of `step`."""

    def close(self) -> None:
        """Finish writing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a tracker may want to know about the run."""

    folder: Path
    """Live files of the run; trackers that write files use a folder in it of their own."""
    project: str
    run_id: str
    settings: Mapping[str, Any]
    """Parameters of the run, for trackers that show them."""


class TensorBoardTracker:
    """Event files in tensorboard/."""

    keeps_history = False

    def __init__(self, run: Run) -> None:
        shutil.rmtree(run.folder / "tensorboard", ignore_errors=True)
        self._writer = SummaryWriter(str(run.folder / "tensorboard"), flush_secs=10)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write one scalar per metric."""
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Flush and close the event file."""
        self._writer.close()


class DvcLiveTracker:
    """DVCLive's files in dvclive/, and nothing else: no experiment, no dvc.yaml, no Studio."""

    keeps_history = False

    def __init__(self, run: Run) -> None:
        # Read by DVCLive's client of DVC Studio, which a token on this machine would switch on.
        os.environ["DVC_STUDIO_OFFLINE"] = "true"
        dvclive = importlib.import_module("dvclive")
        shutil.rmtree(run.folder / "dvclive", ignore_errors=True)
        # DVCLive opens the DVC repository around it, which writes .dvc/.gitignore and fails in a
        # git repository without commits; files are all that is wanted here.
        live = type("FilesOnlyLive", (dvclive.Live,), {"_init_dvc": lambda live: None})
        self._live = live(
            str(run.folder / "dvclive"), save_dvc_exp=False, dvcyaml=None, report=None
        )

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Append to each metric's history and rewrite the summary.

        `Live.next_step` and `Live.end` are not called: the first writes signal files into .dvc, the
        second adds the folder to git under `dvc exp run`.
        """
        self._live.step = step
        for name, value in metrics.items():
            self._live.log_metric(name, value)
        self._live.make_summary()

    def close(self) -> None:
        """Do nothing: every step is on disk already."""


class WandbTracker:
    """A Weights & Biases run whose id is the run's fingerprint."""

    keeps_history = True

    def __init__(self, run: Run) -> None:
        wandb = _package("wandb")
        (run.folder / "wandb").mkdir(parents=True, exist_ok=True)
        self._run = wandb.init(
            project=run.project,
            id=run.run_id,
            resume="allow",
            dir=str(run.folder),
            config=dict(run.settings),
        )

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log to the run; steps it has already are ignored there."""
        self._run.log(dict(metrics), step=step)

    def close(self) -> None:
        """End the run."""
        self._run.finish()


class MlflowTracker:
    """An MLflow run; without MLFLOW_TRACKING_URI its store is a file of the run."""

    keeps_history = True

    def __init__(self, run: Run) -> None:
        self._mlflow = _package("mlflow")
        if "MLFLOW_TRACKING_URI" not in os.environ:
            self._mlflow.set_tracking_uri(f"sqlite:///{run.folder / 'mlflow.db'}")
        self._mlflow.set_experiment(run.project)
        id_file = run.folder / "mlflow_run_id"
        known = id_file.read_text(encoding="utf-8") if id_file.exists() else None
        active = self._mlflow.start_run(run_id=known, run_name=run.run_id)
        if known is None:
            self._mlflow.log_params(dict(run.settings))
            id_file.write_text(active.info.run_id, encoding="utf-8")

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log one value per metric."""
        self._mlflow.log_metrics(dict(metrics), step=step)

    def close(self) -> None:
        """End the run."""
        self._mlflow.end_run()


_TRACKERS: dict[str, Callable[[Run], Tracker]] = {
    "tensorboard": TensorBoardTracker,
    "dvclive": DvcLiveTracker,
    "wandb": WandbTracker,
    "mlflow": MlflowTracker,
}


def check_trackers(config: TrackingConfig) -> None:
    """Refuse trackers whose package is missing.

    Raises:
        ValueError: Naming the key and what to install.
    """
    for name in ("wandb", "mlflow"):
        if getattr(config, name):
            _package(name)


def open_trackers(config: TrackingConfig, run: Run) -> list[Tracker]:
    """Open what `config` asks for."""
    return [make(run) for name, make in _TRACKERS.items() if getattr(config, name)]


class RunLog:
    """metrics.jsonl, one JSON object per step, and the trackers beside it."""

    def __init__(self, folder: Path, *, length: int, trackers: Sequence[Tracker]) -> None:
        """Continue the file in `folder` after its first `length` bytes and drop the rest.

        Trackers without a history of their own are told the steps that remain.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / METRICS_FILE).open("a+b")
        self._file.truncate(length)
        self._trackers = trackers
        told = [tracker for tracker in trackers if not tracker.keeps_history]
        for record in read_metrics(folder / METRICS_FILE):
            step = int(record.pop("step"))
            for tracker in told:
                tracker.log(step, record)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Append one line and tell the trackers.

        Raises:
            ValueError: If a value is NaN or infinite, which JSON cannot hold.
        """
        line = json.dumps({"step": step, **dict(sorted(metrics.items()))}, allow_nan=False)
        self._file.write(f"{line}\n".encode())
        self._file.flush()
        for tracker in self._trackers:
            tracker.log(step, metrics)

    def synced_bytes(self) -> int:
        """Return the file's length once all of it is on disk."""
        os.fsync(self._file.fileno())
        return os.fstat(self._file.fileno()).st_size

    def close(self) -> None:
        """Close the file and every tracker."""
        self._file.close()
        for tracker in self._trackers:
            tracker.close()


def read_metrics(path: Path) -> list[dict[str, float]]:
    """Return the records of a metrics file, in order.

    Raises:
        ValueError: If a line is damaged; the message names file and line.
    """
    records = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            records.append(json.loads(line))
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: not valid JSON: {error}") from error
    return records


def metrics_bytes(folder: Path) -> int:
    """Return the length of metrics.jsonl in `folder`; 0 if there is none."""
    path = folder / METRICS_FILE
    return path.stat().st_size if path.exists() else 0


def _package(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ValueError(
            f"tracking.{name} must be false where the {name} package is not installed "
            f"(`pip install {name}`), got true"
        ) from error
