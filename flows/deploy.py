"""`gmts deploy`: pools, a limit, deployments, automations; can be repeated."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import (
    GlobalConcurrencyLimitCreate,
    GlobalConcurrencyLimitUpdate,
    WorkPoolCreate,
    WorkPoolUpdate,
)
from prefect.exceptions import ObjectNotFound
from prefect.workers.process import ProcessWorker

from flows.automations import NOTIFY_VARIABLE, put_automations
from flows.deployed import GPU_LIMIT
from flows.environment import api_url
from flows.names import STAGES
from flows.pools import POOLS, stage_pool

_RUNS_PER_POOL = {"cpu": 1}
"""Runs at once where a pool is one clone; DVC allows one. The gpu pool has one per slot."""


def run(options: argparse.Namespace) -> int:
    """Set the server at PREFECT_API_URL up and say what it has; return the exit code.

    Raises:
        ValueError: If PREFECT_API_URL is not set, or prefect.yaml or the options are not valid;
            nothing has been changed then.
    """
    if options.gpu_slots is not None and options.gpu_slots < 1:
        raise ValueError(f"--gpu-slots must be >= 1, got {options.gpu_slots}")
    pools = {stage: stage_pool(stage, options.root) for stage in ("pipeline", *STAGES)}
    url = api_url()
    os.chdir(options.root)
    with get_client(sync_client=True) as client:
        slots = _put_gpu_slots(client, options.gpu_slots)
        for pool in POOLS:
            _put_pool(client, pool, _RUNS_PER_POOL.get(pool, slots))
        switches = _schedule_switches(client)
        _put_deployments(options.root)
        _restore(client, switches)
        automations = put_automations(client, os.environ.get(NOTIFY_VARIABLE))
    lines = [f"The Prefect server at {url} has"]
    lines += [f"  pool {pool}" for pool in POOLS]
    lines += [f"  limit {GPU_LIMIT}: {slots}"]
    lines += [f"  deployment {name} on pool {pool}" for name, pool in pools.items()]
    lines += [f"  automation {name!r}" for name in automations]
    lines += ["Start `gmts worker` where runs should happen; docs/orchestration.md has more."]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _put_gpu_slots(client: SyncPrefectClient, slots: int | None) -> int:
    """Set the limit, keep it if `slots` is None, and return what it is."""
    try:
        found = client.read_global_concurrency_limit_by_name(GPU_LIMIT).limit
    except ObjectNotFound:
        limit = slots or 1
        client.create_global_concurrency_limit(
            GlobalConcurrencyLimitCreate(name=GPU_LIMIT, limit=limit)
        )
        return limit
    if slots is None or slots == found:
        return found
    client.update_global_concurrency_limit(GPU_LIMIT, GlobalConcurrencyLimitUpdate(limit=slots))
    return slots


def _put_pool(client: SyncPrefectClient, name: str, limit: int) -> None:
    try:
        client.read_work_pool(name)
    except ObjectNotFound:
        client.create_work_pool(
            WorkPoolCreate(
                name=name,
                type=ProcessWorker.type,
                base_job_template=ProcessWorker.get_default_base_job_template(),
                concurrency_limit=limit,
            )
        )
    else:
        client.update_work_pool(name, WorkPoolUpdate(concurrency_limit=limit))


def _schedule_switches(client: SyncPrefectClient) -> dict[tuple[str, str], bool]:
    """Return by deployment and slug which schedules are on."""
    return {
        (deployment.name, str(schedule.slug)): schedule.active
        for deployment in client.read_deployments()
        for schedule in deployment.schedules
    }


def _restore(client: SyncPrefectClient, switches: dict[tuple[str, str], bool]) -> None:
    """Set the schedules to what they were; deploying has set them to what prefect.yaml says."""
    for deployment in client.read_deployments():
        for schedule in deployment.schedules:
            wanted = switches.get((deployment.name, str(schedule.slug)), schedule.active)
            if wanted != schedule.active:
                client.update_deployment_schedule(deployment.id, schedule.id, active=wanted)


def _put_deployments(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"],
        cwd=root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"`prefect deploy --all` must succeed, got:\n{done.stdout}")
