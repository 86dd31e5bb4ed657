"""`gmts status`: what runs where, on the Prefect server at PREFECT_API_URL."""

import argparse
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType, Worker
from prefect.client.schemas.sorting import FlowRunSort
from prefect.types._datetime import now
from pydantic import TypeAdapter
from rich.console import Console
from rich.table import Table

from flows.environment import api_url

_ACTIVE = (StateType.RUNNING, StateType.PENDING, StateType.CANCELLING, StateType.PAUSED)
_ENDED = (StateType.COMPLETED, StateType.FAILED, StateType.CRASHED, StateType.CANCELLED)
_SECTIONS = (
    ("running", _ACTIVE, 200, FlowRunSort.START_TIME_DESC),
    ("waiting", (StateType.SCHEDULED,), 10, FlowRunSort.NEXT_SCHEDULED_START_TIME_ASC),
    ("ended", _ENDED, 10, FlowRunSort.END_TIME_DESC),
)


def run(options: argparse.Namespace) -> int:
    """Print pools with their workers, runs that go on or wait, and the last that ended.

    Raises:
        ValueError: If PREFECT_API_URL is not set.
    """
    url = api_url()
    console = Console(file=sys.stdout)
    with get_client(sync_client=True) as client:
        console.print(f"Prefect server {url}", soft_wrap=True)
        console.print(_pools(client))
        names = {flow.id: flow.name for flow in client.read_flows(limit=200)}
        for title, states, limit, sort in _SECTIONS:
            found = client.read_flow_runs(flow_run_filter=_of(states), limit=limit, sort=sort)
            console.print(_runs(title, found, names))
    return 0


def _of(states: Sequence[StateType]) -> FlowRunFilter:
    return FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=list(states))))


def _pools(client: SyncPrefectClient) -> Table:
    table = Table("pool", "status", "runs at once", "workers", box=None, pad_edge=False)
    for pool in client.read_work_pools():
        answer = client.request(
            "POST",
            "/work_pools/{work_pool_name}/workers/filter",
            path_params={"work_pool_name": pool.name},
            json={"workers": {"status": {"any_": ["ONLINE"]}}},
        )
        workers = TypeAdapter(list[Worker]).validate_python(answer.json())
        status = "unknown" if pool.status is None else pool.status.value.lower()
        limit = "any number" if pool.concurrency_limit is None else str(pool.concurrency_limit)
        online = ", ".join(worker.name for worker in workers) or "none online"
        table.add_row(pool.name, status, limit, online)
    return table


def _runs(title: str, runs: Sequence[FlowRun], names: dict[UUID, str]) -> Table:
    columns = (title, "run", "state", "pool", "started", "seconds", "message")
    table = Table(*columns, box=None, pad_edge=False, title_justify="left")
    for found in runs:
        state: Any = found.state
        message = (state.message or "").splitlines()
        table.add_row(
            names.get(found.flow_id, "?"),
            found.name,
            state.name,
            found.work_pool_name or "here",
            _clock(found.start_time or found.expected_start_time),
            f"{_seconds(found.total_run_time)}",
            message[0] if message else "",
        )
    if not runs:
        table.add_row("none")
    return table


def _clock(moment: datetime | None) -> str:
    if moment is None:
        return ""
    local = moment.astimezone()
    day = "" if local.date() == now().astimezone().date() else f"{local:%Y-%m-%d} "
    return f"{day}{local:%H:%M:%S}"


def _seconds(length: timedelta) -> int:
    return round(length.total_seconds())
