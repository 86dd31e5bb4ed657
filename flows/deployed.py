"""The flow of the stage deployments: one stage, after whatever it needs, in the worker's clone."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed

from flows.clone import clone_alone
from flows.dvc import RETRIES, RETRY_JITTER, dvc, has_remote, heals, retry_delays
from flows.experiment import CURRENT, Overrides, Preset, Seed, Target, write_experiment
from flows.handover import context_variable
from flows.pools import check_here, stage_pool
from flows.roster import enroll, sweep
from flows.slots import slot
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
    preset: Preset = CURRENT,
    overrides: Overrides = [],  # noqa: B006  (the form shows it; nothing changes it)
    seed: Seed = None,
    params: dict[str, Any] | None = None,
    code: str | None = None,
) -> None:
    """Bring `target` up to date in the current folder, which must be a clone.

    Args:
        target: The stage to bring up to date, after whatever it needs.
        preset: Start from this preset in configs/, or from params.yaml as it is in the clone.
        overrides: Changes to it, each as key=value, e.g. selection.ratio=0.1
        seed: Seed of everything that is drawn; empty: as it is.
        params: The complete experiment, in place of preset, overrides and seed.
        code: The hash of the code that it must be run with, if that matters.

    Raises:
        ConfigError: If the experiment is not valid, or this machine or its code is not the right
            one.
        StageError: If DVC or a stage fails.
    """
    root = Path.cwd()
    sweep(root)
    check_here(target, root)
    if code is not None and code != code_sha256(root):
        raise ConfigError(
            f"{root} must hold the code of the clone that asked for {target} ({code}), got "
            f"{code_sha256(root)}: check the same commit out here"
        )
    shared = has_remote(root)
    on_gpu = stage_pool(target, root) == "gpu"
    with clone_alone(root):
        write_experiment(root, preset, overrides, seed, params)
        with slot(GPU_LIMIT) if on_gpu else nullcontext():
            reproduce(target, str(root), shared=shared)
        if shared:
            push(target, str(root))
