"""The whole pipeline: DVC decides whether a stage runs, Prefect records how."""

import logging
import sys
import time
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed

from flows.guard import check_unchanged
from flows.handover import context_variable
from flows.names import STAGES
from flows.subprocesses import stream
from gmts.stages.external import changed_inputs

_RUNNING = "Running stage "


@task(name="stage", task_run_name="{stage}", cache_policy=NO_CACHE)
def stage_task(stage: str, root: str, force: bool = False) -> State[Any]:
    """Let DVC reproduce one stage; the state is Cached where nothing had to run.

    Args:
        stage: Its name in dvc.yaml.
        root: The clone to work in.
        force: Run it even where DVC sees no change.

    Raises:
        subprocess.CalledProcessError: If the stage failed.
    """
    log = get_run_logger()
    ran = False
    forced = ["--force"] if force else []
    for line in stream(
        [sys.executable, "-m", "dvc", "repro", "--single-item", *forced, stage],
        cwd=Path(root),
        environment=context_variable(),
    ):
        ran = ran or line.startswith(_RUNNING)
        if line.strip():
            log.log(logging.INFO, "%s", line)
    if ran:
        return Completed(message="ran", data=stage)
    return Completed(name="Cached", message="DVC: up to date", data=None)


@flow(name="pipeline", validate_parameters=False)
def pipeline(params: dict[str, Any], root: str, until: str = STAGES[-1]) -> dict[str, float]:
    """Reproduce the stages up to `until` in order and return the wall seconds of each.

    Args:
        params: The complete experiment; params.yaml must say the same throughout.
        root: The clone to work in.
        until: The last stage.
    """
    seconds = {}
    for stage in STAGES[: STAGES.index(until) + 1]:
        start = time.monotonic()
        check_unchanged(params, Path(root))
        stage_task(stage, root)
        # After the stage: DVC may also have brought back what it made of other files.
        if changed_inputs(Path(root), stage):
            stage_task(stage, root, force=True)
        seconds[stage] = round(time.monotonic() - start, 2)
    return seconds
