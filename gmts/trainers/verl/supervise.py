"""Runs a command whose whole tree ends with it, and with whoever started this process.

    python -m gmts.trainers.verl.supervise COMMAND...

Ray puts its servers into sessions of their own and lets them outlive the program that started
them. This process adopts every descendant whose parent ends (a child subreaper), so that it can
end them all when the command ends, when it is told to, or when its standard input is closed: the
other end of that pipe is held by the caller and closes even if the caller is killed.
"""

import ctypes
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from types import FrameType

import psutil

_PR_SET_CHILD_SUBREAPER = 36
_POLL_SECONDS = 0.2
_GRACE_SECONDS = 5.0
CANCELLED = 143
"""Exit code after SIGTERM or a closed pipe."""


class _Cancelled(Exception):
    """The caller wants an end, or is gone."""


def main(command: Sequence[str]) -> int:
    """Run `command` and return its exit code once all of its tree is gone."""
    _adopt_orphans()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _cancel)
    # A session of its own: a terminal's Ctrl-C comes here alone.
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        code = _watched(process)
    except _Cancelled:
        code = CANCELLED
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        end_descendants()
    return code


def _adopt_orphans() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def _cancel(number: int, frame: FrameType | None) -> None:
    raise _Cancelled


def _watched(process: subprocess.Popen[bytes]) -> int:
    """Return the command's exit code.

    Raises:
        _Cancelled: If standard input is closed first.
    """
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin, selectors.EVENT_READ)
        while (code := process.poll()) is None:
            if selector.select(_POLL_SECONDS) and not os.read(sys.stdin.fileno(), 1024):
                raise _Cancelled
    return code if code >= 0 else 128 - code


def end_descendants() -> None:
    """End every descendant of this process: SIGTERM, and SIGKILL after a grace period."""
    me = psutil.Process()
    deadline = time.monotonic() + _GRACE_SECONDS
    told: set[psutil.Process] = set()
    while children := _alive(me):
        for child in children:
            late = time.monotonic() > deadline
            if late or child not in told:
                _signal(child, signal.SIGKILL if late else signal.SIGTERM)
                told.add(child)
        psutil.wait_procs(children, timeout=_POLL_SECONDS)


def _alive(me: psutil.Process) -> list[psutil.Process]:
    """Return the descendants that run; those that have ended are reaped."""
    running = []
    for child in me.children(recursive=True):
        try:
            if child.status() != psutil.STATUS_ZOMBIE:
                running.append(child)
            elif child.ppid() == me.pid:
                os.waitpid(child.pid, os.WNOHANG)
        except (psutil.NoSuchProcess, ChildProcessError):
            continue
    return running


def _signal(process: psutil.Process, number: int) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
