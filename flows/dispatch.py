"""A stage of another machine's pool: its deployment runs it, DVC's remote carries the data."""

import time
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect import get_run_logger
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun, State, WorkPoolStatus
from prefect.deployments import run_deployment
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled, Cancelling

from flows.clone import clone_for_others
from flows.dvc import StageError, default_remote, dvc
from flows.guard import check_unchanged
from flows.names import STAGES
from flows.pools import stage_pool
from gmts.config import ConfigError
from gmts.stages.code import code_sha256

_POLL_SECONDS = 2.0


def run_elsewhere(stage: str, root: Path, params: dict[str, Any]) -> bool:
    """Have the stage run by a worker of its pool and bring its outputs; return whether it was due.

    Args:
        stage: Its name in dvc.yaml.
        root: This machine's clone.
        params: The complete experiment; it becomes params.yaml of the worker's clone.

    Raises:
        ConfigError: If there is no DVC remote, or no deployment of the stage.
        StageError: If the stage failed there, or what it made cannot be brought here.
    """
    if not dvc(root, "repro", "--single-item", "--dry", stage, stage=stage):
        return False
    pool = stage_pool(stage, root)
    if default_remote(root) is None:
        raise ConfigError(
            f"stage {stage} runs on pool {pool}, so this clone must have a default DVC remote that "
            "both machines reach, got none: `dvc remote add --default --local NAME URL`"
        )
    # The worker finds the stages before this one in the remote's run cache.
    dvc(root, "push", "--run-cache", *STAGES[: STAGES.index(stage)], stage=stage)
    get_run_logger().info("%s goes to pool %s", stage, pool)
    parameters = {"target": stage, "params": params, "code": code_sha256(root)}
    with clone_for_others():
        state = _final_state(f"stage/{stage}", pool, parameters)
    check_unchanged(params, root)
    if not state.is_completed():
        raise StageError(f"{stage} failed on pool {pool}: {state.name}: {state.message}")
    dvc(root, "repro", "--single-item", "--pull", stage, stage=stage)
    return True


def _final_state(deployment: str, pool: str, parameters: dict[str, Any]) -> State[Any]:
    """Run a deployment and return its final state; cancel it if this run ends first."""
    with get_client(sync_client=True) as client:
        try:
            if client.read_work_pool(pool).status == WorkPoolStatus.NOT_READY:
                get_run_logger().warning(
                    "pool %s has no worker yet; start one there: `gmts worker %s`", pool, pool
                )
            started: FlowRun = run_deployment(  # type: ignore[assignment]  # not in a loop
                deployment, parameters=parameters, timeout=0
            )
        except ObjectNotFound as error:
            raise ConfigError(
                f"the Prefect server must have the pool {pool} and the deployment {deployment}, "
                "got none: run `gmts deploy`"
            ) from error
        state: State[Any] = _state(client, started.id)
        try:
            while not state.is_final():
                time.sleep(_POLL_SECONDS)
                state = _state(client, started.id)
        finally:
            if not state.is_final():
                new: State[Any] = Cancelled() if state.is_scheduled() else Cancelling()
                client.set_flow_run_state(started.id, new, force=True)
    return state


def _state(client: SyncPrefectClient, run: UUID) -> State[Any]:
    state = client.read_flow_run(run).state
    if state is None:
        raise AssertionError("every run has a state from its creation on")
    return state
