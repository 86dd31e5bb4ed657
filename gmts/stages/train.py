"""The train stage: reinforcement learning from the initial model."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from gmts.config import Params
from gmts.config.checks import ignored_switches
from gmts.stages.determinism import deterministic
from gmts.stages.workspace import StageResult, StepWatcher, Workspace, stage_run

logger = logging.getLogger(__name__)

Backend = Callable[[Params, Workspace, Mapping[str, str], StepWatcher | None], dict[str, Any]]
"""(experiment, clone, the run's identity, watcher) -> values for the stage's result."""


def train(params: Params, workspace: Workspace, watcher: StepWatcher | None = None) -> StageResult:
    """Write models/last, models/best and reports/train.

    `watcher`, if given, is called after each step and at the start with the step, the number of
    steps and a line for people.

    An interrupted run goes on from its newest checkpoint under work/train; with another parameter,
    other data, another initial model or other code it is another run.

    Raises:
        ValueError: If an input is missing, broken or not what was recorded of it, an own function
            cannot be used, a tracker's package is missing or another process trains this run;
            nothing has been done then. With backend verl also if no group of the rollouts differs
            in its verdicts within train.dynamic_sampling.max_batches.
        RewardError: If an own scorer fails.
        VerlError: If verl fails.
        OSError: If an output cannot be written.
    """
    with stage_run("train", workspace) as run, deterministic(params.runtime):
        from gmts.stages.training.inputs import check_writable, run_identity
        from gmts.trainers.watch.tracking import check_trackers

        if ignored := ignored_switches(params):
            logger.warning(
                "selection.score none trains every token; ignored: %s", ", ".join(ignored)
            )
        check_trackers(params.tracking)
        check_writable(workspace)
        backend = _BACKENDS[params.train.backend]
        run.values |= backend(params, workspace, run_identity(params, workspace), watcher)
    return run.result()


def _standalone(*arguments: Any) -> dict[str, Any]:
    from gmts.stages.training.standalone import train_here

    return train_here(*arguments)


def _verl(*arguments: Any) -> dict[str, Any]:
    from gmts.stages.training.verl import train_with_verl

    return train_with_verl(*arguments)


_BACKENDS: dict[str, Backend] = {"standalone": _standalone, "verl": _verl}
