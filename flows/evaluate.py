"""The evaluate stage as a Prefect flow: one task per model."""

from pathlib import Path
from typing import Any

from prefect import flow, task
from prefect.cache_policies import NO_CACHE

from flows.reporting import publish_result
from gmts.config import Params, parse_params
from gmts.stages.evaluate import MODELS, ModelName
from gmts.stages.evaluate import evaluate as run_stage
from gmts.stages.workspace import StageResult, Workspace


@task(name="evaluate", task_run_name="evaluate-{model}", cache_policy=NO_CACHE)
def evaluate_task(params: Params, workspace: Workspace, model: ModelName) -> StageResult:
    """Score one model."""
    return run_stage(params, workspace, model)


@flow(name="evaluate", validate_parameters=False)
def evaluate(params: dict[str, Any], root: str) -> None:
    """Score the model before training, after it, and at its best on validation."""
    experiment = parse_params(params)
    for model in MODELS:
        publish_result(evaluate_task(experiment, Workspace(Path(root)), model))
