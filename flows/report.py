"""The report stage as a Prefect flow."""

from pathlib import Path
from typing import Any

from prefect import flow, task
from prefect.cache_policies import NO_CACHE

from flows.reporting import publish_result
from gmts.config import Params, parse_params
from gmts.stages.report import report as run_stage
from gmts.stages.workspace import StageResult, Workspace


@task(name="report", cache_policy=NO_CACHE)
def report_task(params: Params, workspace: Workspace) -> StageResult:
    """Do the stage's work."""
    return run_stage(params, workspace)


@flow(name="report", validate_parameters=False)
def report(params: dict[str, Any], root: str) -> None:
    """Run the stage on the experiment `params` in the clone at `root`."""
    publish_result(report_task(parse_params(params), Workspace(Path(root))))
