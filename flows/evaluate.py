"""The stages evaluate and benchmark as a Prefect flow: one task per model."""

from pathlib import Path
from typing import Any

from prefect import flow, task
from prefect.cache_policies import NO_CACHE

from flows.reporting import publish_result
from gmts.config import Params, parse_params
from gmts.stages.benchmark import benchmark as run_benchmark
from gmts.stages.evaluate import evaluate as run_stage
from gmts.stages.workspace import MODELS, ModelName, StageResult, Workspace


@task(name="evaluate", task_run_name="evaluate-{model}", cache_policy=NO_CACHE)
def evaluate_task(params: Params, workspace: Workspace, model: ModelName) -> StageResult:
    """Score one model on the test split."""
    return run_stage(params, workspace, model)


@task(name="benchmark", task_run_name="benchmark-{name}-{model}", cache_policy=NO_CACHE)
def benchmark_task(
    params: Params, workspace: Workspace, name: Any, model: ModelName
) -> StageResult:
    """Score one model on a benchmark."""
    return run_benchmark(params, workspace, name, model)


@flow(name="evaluate", validate_parameters=False)
def evaluate(params: dict[str, Any], root: str, benchmark: str | None = None) -> None:
    """Score the model before training, after it, and at its best on validation.

    Args:
        params: The complete experiment.
        root: The clone to work in.
        benchmark: Score on this benchmark; None: on the test split.
    """
    experiment, workspace = parse_params(params), Workspace(Path(root))
    for model in MODELS:
        if benchmark is None:
            result = evaluate_task(experiment, workspace, model)
        else:
            result = benchmark_task(experiment, workspace, benchmark, model)
        publish_result(result)
