"""Runs verl in a process tree of its own and watches it."""

import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gmts.files import read_json
from gmts.trainers.config import TrackingConfig
from gmts.trainers.verl.checkpoints import prune, resume_point
from gmts.trainers.verl.entry_codes import NO_SIGNAL
from gmts.trainers.verl.environment import own_overrides, process_environment
from gmts.trainers.verl.records import Records, kept_length, logged_steps, validation_accuracy
from gmts.trainers.watch.progress import Progress
from gmts.trainers.watch.tracking import METRICS_FILE, Run, RunLog, open_trackers

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.5
_END_SECONDS = 30.0
_SHOWN_LINES = 25

_PHASES = (
    ("Started a local Ray instance", "Ray is up"),
    ("Connected to Ray cluster", "connected to Ray"),
    ("actor and ref model engine initialized", "models are loaded"),
    ("ready to fit", "training begins"),
)
"""Lines of verl's log that are worth a line in ours."""


class VerlError(RuntimeError):
    """verl ended with an error; the end of its log is in the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A run of verl."""

    folder: Path
    """Live files, log and checkpoints; held by the caller (see `exclusive`)."""
    overrides: Sequence[str]
    """Hydra overrides of verl, all but those that say where files and Ray are."""
    steps: int
    num_ranks: int
    checkpoints_kept: int
    platform: Literal["cpu", "nvidia"]
    python: str
    """The interpreter of verl's environment."""
    threads: int
    """Of each process of verl."""
    ray_address: str | None
    """Of a running cluster; None starts one that ends with the run."""
    num_cpus: int
    """Ray's processor slots on a cluster of our own."""
    tracking: TrackingConfig
    run_id: str
    settings: Mapping[str, Any]
    """Parameters, for trackers that show them."""
    watcher: Callable[[int, int, str], None] | None = None
    """Called with the step, the number of steps and a line for people."""

    @property
    def live_dir(self) -> Path:
        """metrics.jsonl and what trackers write."""
        return self.folder / "live"

    @property
    def checkpoints_dir(self) -> Path:
        """global_step_N folders."""
        return self.folder / "checkpoints"

    @property
    def log_file(self) -> Path:
        """Everything that verl and Ray print."""
        return self.folder / "verl.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended."""

    kind: Literal["finished", "no_signal"]
    message: str
    """What was found where there was no signal."""
    num_all_wrong: int
    num_all_right: int
    resumed_from: int
    """Step of the checkpoint that the run went on from; 0 for a fresh start."""


def run(launch: Launch) -> Outcome:
    """Train to the last step, from the newest usable checkpoint if there is one.

    Whether it succeeds, fails, is cancelled or this process is killed: verl's whole process tree,
    Ray included, ends with it.

    Raises:
        ValueError: If a checkpoint was written by another number of ranks.
        VerlError: If verl fails.
    """
    metrics_file = launch.live_dir / METRICS_FILE
    checkpoint = resume_point(
        launch.checkpoints_dir, logged_steps(metrics_file), num_ranks=launch.num_ranks
    )
    resumed_from = 0 if checkpoint is None else checkpoint.step
    length = kept_length(metrics_file, None if checkpoint is None else checkpoint.step)
    tracked = Run(
        folder=launch.live_dir,
        project=launch.tracking.project,
        run_id=launch.run_id,
        settings=launch.settings,
    )
    launch.checkpoints_dir.mkdir(parents=True, exist_ok=True)
    accuracy = validation_accuracy(metrics_file, resumed_from)
    log = RunLog(launch.live_dir, length=length, trackers=open_trackers(launch.tracking, tracked))
    with tempfile.TemporaryDirectory(prefix="gmts-verl-", ignore_cleanup_errors=True) as name:
        scratch = Path(name)
        records = Records(scratch / "records.jsonl")
        overrides = [
            *launch.overrides,
            *own_overrides(
                checkpoints=launch.checkpoints_dir,
                resume_from=None if checkpoint is None else checkpoint.path,
                scratch=scratch,
                ray_address=launch.ray_address,
                num_cpus=launch.num_cpus,
                num_gpus=launch.num_ranks if launch.platform == "cpu" else None,
                environment=process_environment(launch.platform, records.path, launch.threads),
            ),
        ]
        outcome_file = scratch / "outcome.json"
        try:
            with Progress(
                total=launch.steps, done=resumed_from, validation=None, watcher=launch.watcher
            ) as progress:

                def on_record(step: int, metrics: Mapping[str, float]) -> None:
                    log.log(step, metrics)
                    if "validation/accuracy" in metrics:
                        accuracy[step] = metrics["validation/accuracy"]
                    prune(
                        launch.checkpoints_dir,
                        kept=launch.checkpoints_kept,
                        newest_step=step,
                        accuracy=accuracy,
                    )
                    if step > 0:
                        progress.show(step, metrics)

                code = _watch(launch, [str(outcome_file), *overrides], records, on_record)
        finally:
            log.close()
        found = read_json(outcome_file) if code == NO_SIGNAL else {}
    if code not in (0, NO_SIGNAL):
        raise VerlError(_failure(launch.log_file, code))
    return Outcome(
        kind="no_signal" if found else "finished",
        message=found.get("message", ""),
        num_all_wrong=found.get("num_all_wrong", 0),
        num_all_right=found.get("num_all_right", 0),
        resumed_from=resumed_from,
    )


def _watch(
    launch: Launch,
    arguments: Sequence[str],
    records: Records,
    on_record: Callable[[int, Mapping[str, float]], None],
) -> int:
    """Run verl, pass on its records and phases, and return its exit code."""
    environment = process_environment(launch.platform, records.path, launch.threads)
    with _supervised(launch.python, arguments, launch.log_file, environment) as process:
        phases = _Phases(launch.log_file)
        while True:
            code = process.poll()
            phases.look()
            for step, metrics in records.new():
                on_record(step, metrics)
            if code is not None:
                return code
            time.sleep(_POLL_SECONDS)


@contextmanager
def _supervised(
    python: str, arguments: Sequence[str], log_file: Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Start verl below the supervisor; the pipe to it is the lifeline of the whole tree."""
    command = [sys.executable, "-m", "gmts.trainers.verl.supervise"]
    command += [python, "-m", "gmts.trainers.verl.entry", *arguments]
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            start_new_session=True,
        )
    assert process.stdin is not None
    try:
        yield process
    finally:
        process.stdin.close()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class _Phases:
    """Follows verl's log and says what is worth saying."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self._left = list(_PHASES)

    def look(self) -> None:
        """Read what is new."""
        with self._path.open("rb") as file:
            file.seek(self._position)
            text = file.read().decode(errors="replace")
            self._position = file.tell()
        for phase in list(self._left):
            if phase[0] in text:
                logger.info("verl: %s", phase[1])
                self._left.remove(phase)


def _failure(log_file: Path, code: int) -> str:
    lines = log_file.read_text(encoding="utf-8", errors="replace").splitlines()
    end = "\n".join(lines[-_SHOWN_LINES:])
    return f"verl ended with exit code {code}; its log is {log_file} and ends with\n{end}"


def clear_run(folder: Path) -> None:
    """Delete a run's live files, log and checkpoints, so that the next starts afresh."""
    for name in ("live", "checkpoints"):
        shutil.rmtree(folder / name, ignore_errors=True)
    (folder / "verl.log").unlink(missing_ok=True)
