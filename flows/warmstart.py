"""The warmstart stage as a Prefect flow."""

from pathlib import Path
from typing import Any

from prefect import flow, task
from prefect.cache_policies import NO_CACHE

from flows.reporting import publish_result
from gmts.config import Params, parse_params
from gmts.stages.warmstart import warmstart as run_stage
from gmts.stages.workspace import StageResult, Workspace


@task(name="warmstart", cache_policy=NO_CACHE)
def warmstart_task(params: Params, workspace: Workspace) -> StageResult:
    """Do the stage's work."""
    return run_stage(params, workspace)


@flow(name="warmstart", validate_parameters=False)
def warmstart(params: dict[str, Any], root: str) -> None:
    """Run the stage on the experiment `params` in the clone at `root`."""
    publish_result(warmstart_task(parse_params(params), Workspace(Path(root))))
