"""One running sandbox: a socket to its guest, and an end after which no process of it is left."""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from gmts.rewards.sandbox.interpreter import Interpreter
from gmts.rewards.sandbox.isolation import (
    IsolationError,
    Limits,
    check_isolation,
    sandbox_command,
)

_END_TIMEOUT_S = 20.0


class Sandbox:
    """A started sandbox whose guest holds the other end of `channel` as its descriptor 3.

    Starting takes some ten milliseconds; use it once, then `kill` it.
    """

    def __init__(
        self,
        entry: str,
        arguments: Sequence[str] = (),
        *,
        limits: Limits,
        interpreter: Interpreter | None = None,
    ) -> None:
        """Start the guest module `entry`, by default in the Python that runs here.

        Raises:
            IsolationError: If sandboxes do not isolate here, or this one does not start.
        """
        gives_root_away = check_isolation()
        self.channel, guest_end = socket.socketpair()
        self._owner = os.getpid()
        info, guest_info = os.pipe()
        try:
            with guest_end:
                command = sandbox_command(
                    entry,
                    [str(guest_end.fileno()), *arguments],
                    limits=limits,
                    gives_root_away=gives_root_away,
                    info_fd=guest_info,
                    interpreter=interpreter,
                )
                self._process = _start(command, (guest_end.fileno(), guest_info))
            os.close(guest_info)
            self._init = _child_of(info, self._process)
        except BaseException:
            self.channel.close()
            raise
        finally:
            os.close(info)

    @property
    def alive(self) -> bool:
        """Whether the guest still runs."""
        return not select.select([self._init], [], [], 0)[0]

    def wait(self, timeout_s: float) -> int | None:
        """Return the guest's exit status, or None if it still runs after `timeout_s` seconds."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """End every process of the sandbox, and return when none is left.

        The first process of a process namespace is gone only after all others are.

        Raises:
            IsolationError: If the kernel does not end them; nothing should run on.
        """
        self.channel.close()
        if self._init < 0 or self._owner != os.getpid():
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._init, signal.SIGKILL)
        gone = select.select([self._init], [], [], _END_TIMEOUT_S)[0]
        os.close(self._init)
        self._init = -1
        if not gone:
            raise IsolationError(f"a sandbox did not end within {_END_TIMEOUT_S:.0f} s of SIGKILL")
        self._process.wait(_END_TIMEOUT_S)


def _start(command: list[str], descriptors: tuple[int, ...]) -> "subprocess.Popen[bytes]":
    """Start bubblewrap from a thread that lives as long as this process.

    The kernel ends a sandbox with its parent *thread* (PR_SET_PDEATHSIG), not with its process.
    """
    starter = _STARTERS.get(os.getpid())
    if starter is None:  # the first one, or a fork: threads do not come along
        starter = _STARTERS[os.getpid()] = ThreadPoolExecutor(1, thread_name_prefix="sandbox")
    return starter.submit(
        subprocess.Popen,
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=descriptors,
    ).result()


_STARTERS: dict[int, ThreadPoolExecutor] = {}


def _child_of(info: int, process: "subprocess.Popen[bytes]") -> int:
    """A descriptor of the sandbox's first process, whose id bubblewrap writes to `info`."""
    text = b""
    while chunk := os.read(info, 4096):
        text += chunk
        if text.rstrip().endswith(b"}"):
            return os.pidfd_open(json.loads(text)["child-pid"])
    process.wait()
    raise IsolationError(f"bubblewrap ended with status {process.returncode} before its program")
