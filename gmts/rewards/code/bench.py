"""The two sandboxes of a verdict: a warm one for tests, and one for each solution, made ahead."""

import contextlib
import json
import os
import secrets
import select
import socket
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from gmts.rewards.guest.channel import Channel, ChannelError
from gmts.rewards.sandbox.isolation import IsolationError, Limits
from gmts.rewards.sandbox.process import Sandbox

SOLUTION_LIMITS = Limits()
TEST_LIMITS = Limits(cpu_s=60)
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 10.0
_MAX_VERDICT_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one run of tests."""

    passed: bool
    reason: str


class Bench:
    """One place where verdicts are made, one at a time; not for several threads at once."""

    def __init__(self, *, ahead: int = 2) -> None:
        """Start the tests' sandbox and `ahead` sandboxes for solutions.

        Raises:
            IsolationError: If sandboxes do not isolate here.
        """
        self._maker = ThreadPoolExecutor(1, thread_name_prefix="bench")
        self._ahead = ahead
        self._solutions: deque[Future[Sandbox]] = deque()
        self._tests = _start_tests()
        self._prepare()

    def run(self, request: dict[str, Any], timeout_s: float) -> Outcome:
        """Run tests against a solution, and end all of its processes.

        Args:
            request: As gmts.rewards.guest.testbed.run reads it, without the nonce.
            timeout_s: Wall clock, in seconds.

        Raises:
            IsolationError: If a sandbox does not start or does not end.
        """
        solution = self.take()
        try:
            return self._run(request, solution, timeout_s)
        finally:
            solution.kill()

    def take(self) -> Sandbox:
        """Return a fresh sandbox for one solution; its caller kills it."""
        while True:
            made = self._solutions.popleft()
            self._prepare()
            sandbox = made.result()
            if sandbox.alive:
                return sandbox
            sandbox.kill()

    def close(self) -> None:
        """End every sandbox."""
        self._ahead = 0
        while self._solutions:
            self._solutions.popleft().result().kill()
        self._maker.shutdown()
        self._tests.kill()

    def _prepare(self) -> None:
        while len(self._solutions) < self._ahead:
            self._solutions.append(
                self._maker.submit(Sandbox, "solution_side", limits=SOLUTION_LIMITS)
            )

    def _run(self, request: dict[str, Any], solution: Sandbox, timeout_s: float) -> Outcome:
        nonce = secrets.token_hex(16)
        reader, writer = os.pipe()
        try:
            try:
                self._send({**request, "nonce": nonce}, solution.channel, writer)
            finally:
                os.close(writer)
            # Only the tests' side speaks to the solution; a dead tests' side must be noticed.
            solution.channel.close()
            text = _read(reader, time.monotonic() + timeout_s)
        finally:
            os.close(reader)
        self._stop()
        if text is None:
            return Outcome(passed=False, reason=f"no verdict within {timeout_s:g} s")
        try:
            sent, passed, reason = json.loads(text)
        except ValueError:
            return Outcome(passed=False, reason="the tests' process ended without a verdict")
        if sent != nonce:
            return Outcome(passed=False, reason="the verdict does not bear its nonce")
        return Outcome(passed=bool(passed), reason=str(reason))

    def _send(self, request: dict[str, Any], solution: socket.socket, verdict: int) -> None:
        if not self._tests.alive:
            self._renew_tests()
        try:
            self._send_once(request, solution, verdict)
        except (ChannelError, OSError):
            self._renew_tests()
            self._send_once(request, solution, verdict)

    def _send_once(self, request: dict[str, Any], solution: socket.socket, verdict: int) -> None:
        control = self._tests.channel
        socket.send_fds(control, [b"r"], [solution.fileno(), verdict])
        Channel(control.fileno()).send(request)

    def _stop(self) -> None:
        """Have all that the tests started ended; renew a sandbox that does not answer."""
        control = self._tests.channel
        with contextlib.suppress(ChannelError, OSError):
            control.send(b"s")
            if select.select([control], [], [], _STOP_TIMEOUT_S)[0]:
                Channel(control.fileno()).receive()
                return
        self._renew_tests()

    def _renew_tests(self) -> None:
        self._tests.kill()
        self._tests = _start_tests()


def _start_tests() -> Sandbox:
    sandbox = Sandbox("testbed", limits=TEST_LIMITS)
    if not select.select([sandbox.channel], [], [], _START_TIMEOUT_S)[0]:
        sandbox.kill()
        raise IsolationError(f"the tests' sandbox did not start within {_START_TIMEOUT_S:.0f} s")
    try:
        Channel(sandbox.channel.fileno()).receive()
    except ChannelError as error:
        sandbox.kill()
        raise IsolationError(
            "the tests' sandbox ended at once; is pytest installed for this interpreter?"
        ) from error
    return sandbox


def _read(descriptor: int, deadline: float) -> bytes | None:
    """Everything written to a pipe until it is closed; None if it is open at the deadline."""
    text = b""
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            return None
        part = os.read(descriptor, _MAX_VERDICT_BYTES)
        if not part or len(text) > _MAX_VERDICT_BYTES:
            return text
        text += part
