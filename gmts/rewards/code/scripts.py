"""Programs that read standard input: a sandbox for each case, the output compared here."""

import os
import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from gmts.rewards.code.bench import Bench, Outcome
from gmts.rewards.guest.channel import Channel, ChannelError
from gmts.rewards.sandbox.process import Sandbox

_MAX_OUTPUT_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What a program reads, and what it has to write."""

    stdin: str
    stdout: str


def same_lines(written: str, expected: str) -> bool:
    """Whether lines are equal, blanks at their ends and blank lines at the end left out."""
    return _lines(written) == _lines(expected)


def run_cases(
    bench: Bench,
    solution: str,
    cases: list[Case],
    timeout_s: float,
    same: Callable[[str, str], bool] = same_lines,
) -> Outcome:
    """Run a program once for each case, until one fails.

    A case passes if the program ends with status 0 within `timeout_s` and what it has written is
    the `same` as what is expected.
    """
    for number, case in enumerate(cases, 1):
        sandbox = bench.take()
        try:
            problem = _run_case(sandbox, solution, case, timeout_s, same)
        finally:
            sandbox.kill()
        if problem is not None:
            return Outcome(passed=False, reason=f"case {number} of {len(cases)}: {problem}")
    return Outcome(passed=True, reason=f"{len(cases)} cases passed")


def _run_case(
    sandbox: Sandbox,
    solution: str,
    case: Case,
    timeout_s: float,
    same: Callable[[str, str], bool],
) -> str | None:
    """What is wrong with one run; None if nothing is."""
    deadline = time.monotonic() + timeout_s
    reader, writer = os.pipe()
    stdin = _readable(case.stdin.encode("utf-8", "surrogatepass"))
    try:
        try:
            _send(sandbox.channel, solution, [stdin, writer])
        except (ChannelError, OSError):
            return "the program's process is gone"
        finally:
            os.close(writer)
            os.close(stdin)
        written = _collect(reader, deadline)
    finally:
        os.close(reader)
    if written is None:
        return f"not done within {timeout_s:g} s, or too much output"
    status = sandbox.wait(max(0.0, deadline - time.monotonic()))
    if status is None:
        return f"not done within {timeout_s:g} s"
    if status != 0:
        return f"exit status {status}"
    if not same(written.decode("utf-8", "replace"), case.stdout):
        return "wrong output"
    return None


def _send(channel: socket.socket, solution: str, descriptors: list[int]) -> None:
    request = {"op": "script", "values": [solution], "objects": [], "definitions": []}
    Channel(channel.fileno()).send({**request, "updates": [], "released": []})
    socket.send_fds(channel, [b"f"], descriptors)


def _readable(data: bytes) -> int:
    """A descriptor that `data` can be read from, and nothing written to."""
    memory = os.memfd_create("stdin")
    try:
        with open(memory, "wb", closefd=False) as file:
            file.write(data)
        return os.open(f"/proc/self/fd/{memory}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(memory)


def _collect(descriptor: int, deadline: float) -> bytes | None:
    """All output; None if it does not end in time or is more than fits."""
    parts: list[bytes] = []
    size = 0
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([descriptor], [], [], left)[0]:
            return None
        part = os.read(descriptor, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
        if size > _MAX_OUTPUT_BYTES:
            return None
    return None


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]
