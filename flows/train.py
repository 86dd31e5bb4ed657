"""The train stage as a Prefect flow."""

from pathlib import Path
from typing import Any

from prefect import flow, task
from prefect.cache_policies import NO_CACHE

from flows.progress import progress_page
from flows.reporting import publish_result
from gmts.config import Params, parse_params
from gmts.stages.train import train as run_stage
from gmts.stages.workspace import StageResult, Workspace


@task(name="train", cache_policy=NO_CACHE)
def train_task(params: Params, workspace: Workspace) -> StageResult:
    """Do the stage's work."""
    with progress_page() as watcher:
        return run_stage(params, workspace, watcher)


@flow(name="train", validate_parameters=False)
def train(params: dict[str, Any], root: str) -> None:
    """Run the stage on the experiment `params` in the clone at `root`."""
    publish_result(train_task(parse_params(params), Workspace(Path(root))))
