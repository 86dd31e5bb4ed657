"""A stage ends when the command that started it is gone, so that SIGKILL leaves no orphan.

PR_SET_PDEATHSIG would fire on the death of the spawning thread and misses grandchildren; watching
the ancestors does neither.
"""

import os
import signal
import sys
import threading
import time

import psutil

_POLL_SECONDS = 0.5
_OURS = ("dvc", "flows", "gmts")


def watch_ancestors() -> None:
    """Start a thread that kills this process and its children once it is orphaned.

    Watched are the ancestors up to the topmost that is a dvc, flows or gmts command; shells and
    terminals above may go (nohup keeps working).

    Raises:
        SystemExit: If DVC started this process and is gone already.
    """
    watched = _our_ancestors()
    if not watched and "DVC_STAGE" in os.environ:  # DVC sets it for the commands of stages
        sys.exit("the dvc process that started this stage has ended")
    if watched:
        threading.Thread(target=_watch, args=(watched,), daemon=True, name="lifeline").start()


def _our_ancestors() -> list[psutil.Process]:
    chain = psutil.Process().parents()
    ours = [index for index, process in enumerate(chain) if _is_ours(process)]
    return chain[: max(ours) + 1] if ours else []


def _is_ours(process: psutil.Process) -> bool:
    try:
        command = process.cmdline()
    except psutil.Error:
        return False
    # `dvc`, `.../bin/gmts`, `python -m flows`, `python -m gmts.cli`
    names = {os.path.basename(part).partition(".")[0] for part in command[:3]}
    return any(name in names for name in _OURS)


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _watch(watched: list[psutil.Process]) -> None:
    while all(_alive(process) for process in watched):
        time.sleep(_POLL_SECONDS)
    for child in psutil.Process().children(recursive=True):
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue
    os.kill(os.getpid(), signal.SIGKILL)
