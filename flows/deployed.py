"""The flow of the stage deployments: one stage, after whatever it needs, in the worker's clone."""

from pathlib import Path
from typing import Annotated, Any

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.concurrency.sync import concurrency
from prefect.states import Completed
from pydantic import Field

from flows.dvc import RETRIES, RETRY_JITTER, dvc, has_remote, heals, retry_delays
from flows.experiment import Overrides, Preset, Seed, Target, write_experiment
from flows.handover import context_variable
from flows.pools import check_here, stage_pool
from flows.roster import enroll, sweep
from gmts.config import ConfigError
from gmts.stages.code import code_sha256

GPU_LIMIT = "gpu-slots"
"""Global concurrency limit: stages that hold a GPU at once, over all machines and deployments."""


@task(
    name="reproduce",
    task_run_name="{stage}",
    cache_policy=NO_CACHE,
    retries=RETRIES,
    retry_delay_seconds=retry_delays,
    retry_jitter_factor=RETRY_JITTER,
    retry_condition_fn=heals,
)
def reproduce(stage: str, root: str, *, shared: bool) -> State[Any]:
    """Let DVC reproduce a stage after those before it; the state is Cached if nothing had to run.

    Args:
        stage: Its name in dvc.yaml.
        root: The clone.
        shared: Whether to take what the remote has.
    """
    pull = ["--pull"] if shared else []
    ran = dvc(Path(root), "repro", *pull, stage, stage=stage, environment=context_variable())
    if ran:
        return Completed(message="ran", data=stage)
    return Completed(name="Cached", message="DVC: up to date", data=None)


@task(
    name="push",
    cache_policy=NO_CACHE,
    retries=RETRIES,
    retry_delay_seconds=retry_delays,
    retry_jitter_factor=RETRY_JITTER,
    retry_condition_fn=heals,
)
def push(stage: str, root: str) -> None:
    """Put outputs and run cache on the remote, for the machine that asked for the stage."""
    dvc(Path(root), "push", "--run-cache", stage, stage=stage)


@flow(name="stage", flow_run_name="{target}", on_running=[enroll])
def stage(
    target: Target,
    preset: Preset = None,
    overrides: Overrides = [],  # noqa: B006  (the form shows it; nothing changes it)
    seed: Seed = None,
    params: Annotated[
        dict[str, Any] | None,
        Field(description="The complete experiment in place of preset, overrides and seed."),
    ] = None,
    code: Annotated[
        str | None, Field(description="The hash of the code it must be run with, if any.")
    ] = None,
) -> None:
    """Bring `target` up to date in the current folder, which must be a clone."""
    root = Path.cwd()
    sweep(root)
    check_here(target, root)
    if code is not None and code != code_sha256(root):
        raise ConfigError(
            f"{root} must hold the code of the clone that asked for {target} ({code}), got "
            f"{code_sha256(root)}: check the same commit out here"
        )
    write_experiment(root, preset, overrides, seed, params)
    shared = has_remote(root)
    limits = [GPU_LIMIT] if stage_pool(target, root) == "gpu" else []
    with concurrency(limits, occupy=1):
        reproduce(target, str(root), shared=shared)
    if shared:
        push(target, str(root))
