"""Which flow runs this clone's processes are at, and what to do about those whose process is gone.

Each process holds a lock on a file named after its run; the kernel lets go of it even on SIGKILL.
A run whose file nobody holds has ended or lost its process. Then what is left of its tree is
killed, its slot of a limit is given back and the server is told, so that nothing stays Running.
"""

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterId,
    TaskRunFilter,
    TaskRunFilterState,
    TaskRunFilterStateType,
)
from prefect.client.schemas.objects import State, StateType
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled, Crashed

from flows.trees import TREE_VARIABLE, below, kill_tree

logger = logging.getLogger(__name__)

_UNFINISHED = (StateType.RUNNING, StateType.PENDING, StateType.CANCELLING)
_held: dict[str, int] = {}
_MESSAGE = "The process of this run is gone (killed, out of memory, or its machine restarted)."


def enroll(flow: Any, flow_run: Any, state: Any) -> None:
    """Hold the run's file until this process ends; an on_running hook of every flow."""
    hold(str(flow_run.id), Path.cwd())


def hold(run: str, root: Path) -> None:
    """Hold the file of a run in the clone `root` until this process ends.

    Processes that are started from now on carry the run's id as the name of a tree. What an earlier
    try of the run has left is cleared away.
    """
    if run in _held:
        return
    folder = _folder(root)
    folder.mkdir(parents=True, exist_ok=True)
    with _abandoned(folder / run) as abandoned:
        if abandoned:
            with get_client(sync_client=True) as client:
                _clear(client, folder / run)
    temporary = folder / f".{run}"
    handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    fcntl.flock(handle, fcntl.LOCK_EX)
    temporary.rename(folder / run)  # locked before anybody can see it
    _held[run] = handle
    os.environ[TREE_VARIABLE] = below(run)


def note_lease(lease: UUID) -> None:
    """Write the lease of a slot into this process's files, for the sweep to give back."""
    for handle in _held.values():
        os.pwrite(handle, str(lease).encode(), 0)


def sweep(root: Path) -> list[str]:
    """End the runs whose process is gone; return their ids.

    A run that was being cancelled becomes Cancelled, any other Crashed.
    """
    ended = []
    with get_client(sync_client=True) as client:
        for file in _folder(root).glob("[!.]*"):
            with _abandoned(file) as abandoned:
                if not abandoned:
                    continue
                killed = _clear(client, file)
                if _end(client, UUID(file.name)):
                    logger.warning("run %s: %s %d left over", file.name, _MESSAGE, killed)
                    ended.append(file.name)
                file.unlink()
    return ended


def _clear(client: SyncPrefectClient, file: Path) -> int:
    """Kill what is left of a run and give its slot back; return how many were killed."""
    killed = kill_tree(file.name)
    lease = file.read_text()
    if lease:
        client.release_concurrency_slots_with_lease(UUID(lease))
    return killed


@contextmanager
def _abandoned(file: Path) -> Iterator[bool]:
    try:
        handle = os.open(file, os.O_RDWR)
    except FileNotFoundError:  # swept by another process just now
        yield False
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield file.exists()
    except BlockingIOError:
        yield False
    finally:
        os.close(handle)


def _end(client: SyncPrefectClient, run: UUID) -> bool:
    try:
        state = client.read_flow_run(run).state
    except ObjectNotFound:  # of another server
        return False
    if state is None or state.type not in _UNFINISHED:
        return False
    cancelled = state.type == StateType.CANCELLING
    new: State[Any] = Cancelled(message="cancelled") if cancelled else Crashed(message=_MESSAGE)
    running = TaskRunFilter(
        state=TaskRunFilterState(type=TaskRunFilterStateType(any_=list(_UNFINISHED)))
    )
    this = FlowRunFilter(id=FlowRunFilterId(any_=[run]))
    for task_run in client.read_task_runs(flow_run_filter=this, task_run_filter=running):
        client.set_task_run_state(task_run.id, new, force=True)
    client.set_flow_run_state(run, new, force=True)
    return True


def _folder(root: Path) -> Path:
    return root / "work" / "flow-runs"
