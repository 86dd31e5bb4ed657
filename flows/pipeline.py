"""The whole pipeline: DVC decides whether a stage runs, Prefect records how."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from prefect import flow, task
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed

from flows.clone import clone_alone
from flows.dispatch import run_elsewhere
from flows.dvc import RETRIES, RETRY_JITTER, dvc, heals, retry_delays
from flows.experiment import CURRENT, Overrides, Preset, Seed, Target, write_experiment
from flows.guard import check_unchanged
from flows.handover import context_variable
from flows.names import STAGES
from flows.pools import is_elsewhere
from flows.roster import enroll, sweep
from flows.runpage import PAGES
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
    preset: Preset = CURRENT,
    overrides: Overrides = [],  # noqa: B006  (the form shows it; nothing changes it)
    seed: Seed = None,
    target: Target = "publish",
) -> dict[str, float]:
    """Run every stage that is due up to `target`, and return the wall seconds of each.

    Works in the current folder, which must be a clone.

    Args:
        preset: Start from this preset in configs/, or from params.yaml as it is in the clone.
        overrides: Changes to it, each as key=value, e.g. selection.ratio=0.1
        seed: Seed of everything that is drawn; empty: as it is.
        target: The last stage to run.
    """
    root = Path.cwd()
    sweep(root)
    with clone_alone(root):
        params = write_experiment(root, preset, overrides, seed)
        return _run_stages(STAGES[: STAGES.index(target) + 1], root, params)


def _run_stages(stages: Sequence[str], root: Path, params: dict[str, Any]) -> dict[str, float]:
    """Reproduce the stages in order, fill the run's page, and return the wall seconds of each."""
    seconds = {}
    bar = _bar(stages)
    for number, stage in enumerate(stages):
        start = time.monotonic()
        bar(number)
        for item in _items(stage, params):
            check_unchanged(params, root)
            stage_task(item, str(root), params)
            # After the stage: DVC may also have brought back what it made of other files.
            if changed_inputs(root, item):
                stage_task(item, str(root), params, force=True)
        if stage in PAGES:
            PAGES[stage](root)
        seconds[stage] = round(time.monotonic() - start, 2)
    bar(len(stages))
    return seconds


def _items(stage: str, params: dict[str, Any]) -> list[str]:
    """Return the stages of dvc.yaml that belong to one of STAGES."""
    if stage != "evaluate":
        return [stage]
    return [stage, *(f"benchmark@{name}" for name in params["benchmarks"])]


def _bar(stages: Sequence[str]) -> Callable[[int], None]:
    """Put a progress bar on the run's page; return what moves it to the stage of a number."""
    artifact: Any = create_progress_artifact(0.0, "stages", "starting")

    def show(number: int) -> None:
        text = "done"
        if number < len(stages):
            text = f"stage {number + 1} of {len(stages)}: {stages[number]}"
        update_progress_artifact(artifact, 100 * number / len(stages), text)

    return show
