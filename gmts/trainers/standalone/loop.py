"""The run around the steps: resuming, validation, checkpoints, logs, dumps."""

import logging
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gmts.trainers.config import TrackingConfig, TrainConfig
from gmts.trainers.standalone.checkpoint import Checkpoint, CheckpointStore
from gmts.trainers.standalone.dumps import drop_dumps_after, write_dump
from gmts.trainers.standalone.state import Best, LoopState, copied_weights, unique_weights
from gmts.trainers.standalone.trainer import Trainer
from gmts.trainers.watch.progress import Progress
from gmts.trainers.watch.tracking import (
    METRICS_FILE,
    Run,
    RunLog,
    metrics_bytes,
    open_trackers,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """Where a run lives and how it is watched."""

    folder: Path
    """Resumable state and live files; held by this process (see `checkpoint.exclusive`)."""
    fingerprint: str
    train: TrainConfig
    tracking: TrackingConfig
    settings: Mapping[str, Any]
    """Parameters, for trackers that show them."""
    watcher: Callable[[int, int, str], None] | None = None
    """Called with the step, the number of steps and a line for people."""

    @property
    def live_dir(self) -> Path:
        """metrics.jsonl, tensorboard/, dvclive/, rollouts/ while the run goes on."""
        return self.folder / "live"

    @property
    def rollouts_dir(self) -> Path:
        """Dumps of responses."""
        return self.live_dir / "rollouts"


def run_training(trainer: Trainer, plan: RunPlan) -> int:
    """Train to the last step, from the newest intact checkpoint if there is one.

    Weights, metrics (time/* and memory/* aside) and dumps end up the same whether or not the run
    was interrupted. Afterwards `trainer` holds the last policy and, in its state, the best one:
    the highest validation accuracy, of equals the earliest, the initial policy included.

    Returns:
        The step that the run was resumed from; 0 for a fresh start.

    Raises:
        ValueError: If a checkpoint was written by another version of gmts.
    """
    store = CheckpointStore(
        plan.folder / "checkpoints", fingerprint=plan.fingerprint, kept=plan.train.checkpoints_kept
    )
    store.clear_leftovers()
    found = store.newest(metrics_bytes=metrics_bytes(plan.live_dir))
    length = _restore(trainer, found, plan)
    run = Run(
        folder=plan.live_dir,
        project=plan.tracking.project,
        run_id=plan.fingerprint[:32],
        settings=plan.settings,
    )
    log = RunLog(plan.live_dir, length=length, trackers=open_trackers(plan.tracking, run))
    resumed_from = trainer.state.step
    try:
        if found is None:
            log.log(0, _validated(trainer))
        with Progress(
            total=plan.train.steps,
            done=resumed_from,
            validation=trainer.state.accuracy,
            watcher=plan.watcher,
        ) as progress:
            while trainer.state.step < plan.train.steps:
                metrics = _one_step(trainer, plan)
                log.log(trainer.state.step, metrics)
                progress.show(trainer.state.step, metrics)
                if _due(trainer.state.step, plan.train.checkpoint_every, plan.train.steps):
                    store.save(_checkpoint(trainer, log))
    finally:
        log.close()
    return resumed_from


def _restore(trainer: Trainer, found: Checkpoint | None, plan: RunPlan) -> int:
    """Put trainer and live files where the checkpoint left them; return metrics.jsonl's length."""
    if found is None:
        if plan.live_dir.exists():
            shutil.rmtree(plan.live_dir)
        logger.info("training starts; its live metrics are in %s", plan.live_dir / METRICS_FILE)
        return 0
    trainer.restore(
        found.weights,
        found.optimizer,
        LoopState.restored(found.counters, found.carried, found.best_weights),
    )
    drop_dumps_after(plan.rollouts_dir, trainer.state.step)
    logger.info(
        "training resumes after step %d; its live metrics are in %s",
        trainer.state.step,
        plan.live_dir / METRICS_FILE,
    )
    return found.metrics_bytes


def _one_step(trainer: Trainer, plan: RunPlan) -> dict[str, float]:
    step = trainer.state.step + 1
    wanted = plan.train.dump_every > 0 and _due(step, plan.train.dump_every, plan.train.steps)
    metrics, responses = trainer.step()
    if wanted:
        write_dump(plan.rollouts_dir, step, responses, limit=plan.train.dump_max_responses)
    if _due(step, plan.train.validation_every, plan.train.steps):
        metrics |= _validated(trainer)
    return metrics


def _validated(trainer: Trainer) -> dict[str, float]:
    metrics = trainer.validate()
    accuracy = trainer.state.accuracy = metrics["validation/accuracy"]
    best = trainer.state.best
    if best is None or accuracy > best.accuracy:
        trainer.state.best = Best(
            step=trainer.state.step, accuracy=accuracy, weights=copied_weights(trainer.policy)
        )
    return metrics


def _checkpoint(trainer: Trainer, log: RunLog) -> Checkpoint:
    state = trainer.state
    return Checkpoint(
        weights=unique_weights(trainer.policy),
        best_weights=None if state.best is None else state.best.weights,
        optimizer=trainer.optimizer_state(),
        carried=state.packed_groups(),
        counters=state.counters(),
        metrics_bytes=log.synced_bytes(),
    )


def _due(step: int, every: int, last: int) -> bool:
    return step % every == 0 or step == last
