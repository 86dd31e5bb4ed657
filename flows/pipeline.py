"""The whole pipeline: DVC decides whether a stage runs, Prefect records how."""

import time
from pathlib import Path
from typing import Any

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed

from flows.dispatch import run_elsewhere
from flows.dvc import RETRIES, RETRY_JITTER, dvc, heals, retry_delays
from flows.experiment import Overrides, Preset, Seed, Target, write_experiment
from flows.guard import check_unchanged
from flows.handover import context_variable
from flows.names import STAGES
from flows.pools import is_elsewhere
from flows.roster import enroll, sweep
from gmts.stages.external import changed_inputs


@task(
    name="stage",
    task_run_name="{stage}",
    cache_policy=NO_CACHE,
    retries=RETRIES,
    retry_delay_seconds=retry_delays,
    retry_jitter_factor=RETRY_JITTER,
    retry_condition_fn=heals,
)
def stage_task(stage: str, root: str, params: dict[str, Any], *, force: bool = False) -> State[Any]:
    """Let DVC reproduce one stage; the state is Cached where nothing had to run.

    A stage of a pool that this machine does not serve runs through its deployment, and DVC brings
    what it has made.

    Args:
        stage: Its name in dvc.yaml.
        root: The clone to work in.
        params: The complete experiment.
        force: Run it even where DVC sees no change.

    Raises:
        StageError: If the stage failed.
    """
    folder = Path(root)
    if is_elsewhere(stage, folder):
        ran = run_elsewhere(stage, folder, params)
    else:
        forced = ["--force"] if force else []
        arguments = ["repro", "--single-item", *forced, stage]
        ran = dvc(folder, *arguments, stage=stage, environment=context_variable())
    if ran:
        return Completed(message="ran", data=stage)
    return Completed(name="Cached", message="DVC: up to date", data=None)


@flow(name="pipeline", flow_run_name="{target}", on_running=[enroll])
def pipeline(
    preset: Preset = None,
    overrides: Overrides = [],  # noqa: B006  (the form shows it; nothing changes it)
    seed: Seed = None,
    target: Target = "publish",
) -> dict[str, float]:
    """Run every stage that is due up to `target`, and return the wall seconds of each.

    Works in the current folder, which must be a clone.
    """
    root = Path.cwd()
    sweep(root)
    params = write_experiment(root, preset, overrides, seed)
    seconds = {}
    for stage in STAGES[: STAGES.index(target) + 1]:
        start = time.monotonic()
        check_unchanged(params, root)
        stage_task(stage, str(root), params)
        # After the stage: DVC may also have brought back what it made of other files.
        if changed_inputs(root, stage):
            stage_task(stage, str(root), params, force=True)
        seconds[stage] = round(time.monotonic() - start, 2)
    return seconds
