"""One run at a time in a clone: it has one params.yaml, and DVC writes for one command at once."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prefect import get_run_logger

_held: list[int] = []


@contextmanager
def clone_alone(root: Path) -> Iterator[None]:
    """Have the clone for the block, after waiting for the run that has it; call inside a flow."""
    file = root / "work" / "run.lock"
    file.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            get_run_logger().info("waiting for another run in %s", root)
            fcntl.flock(handle, fcntl.LOCK_EX)
        _held.append(handle)
        yield
    finally:
        _held.clear()
        os.close(handle)


@contextmanager
def clone_for_others() -> Iterator[None]:
    """Let others have this process's clone for the block: a worker of another pool may work in it.

    The caller checks afterwards that params.yaml is still its own.
    """
    for handle in _held:
        fcntl.flock(handle, fcntl.LOCK_UN)
    try:
        yield
    finally:
        for handle in _held:
            fcntl.flock(handle, fcntl.LOCK_EX)
