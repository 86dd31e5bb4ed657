"""The tests' process: keeps pytest loaded, and forks a child for the tests of each solution.

The host sends a byte with two descriptors, the solution's socket and the pipe of the verdict, and
then the request. The tests run in the child. When it has ended or the host sends a second byte,
every process that it started is ended; after the second byte the answer is "done".
"""

import contextlib
import gc
import importlib.util
import json
import os
import select
import shutil
import signal
import socket
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gmts.rewards.guest.channel import Channel, ChannelError
from gmts.rewards.guest.tests_side import TestsSide

Result = tuple[bool, str]
"""Whether all tests passed, and why not."""


def main(arguments: list[str]) -> None:
    """Serve the host on the socket of this number until it goes away."""
    descriptor = int(arguments[0])
    if importlib.util.find_spec("numpy") is not None:
        importlib.import_module("numpy")  # a tenth of a second that no verdict should pay
    _warm_pytest()
    gc.freeze()  # what is loaded stays: children need not copy its pages to look it through
    control = socket.socket(fileno=descriptor)
    channel = Channel(descriptor)
    channel.send({"done": 0})
    number = 0
    while True:
        try:
            _, descriptors, _, _ = socket.recv_fds(control, 1, 2)
            request = channel.receive()
        except ChannelError:
            return
        number += 1
        folder = f"/tmp/{number}"
        os.mkdir(folder)
        child = os.fork()
        if child == 0:
            control.close()
            _child(request, folder, *descriptors)
        for given in descriptors:
            os.close(given)
        told = _await_end(child, control)
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)  # all but this process and the first one of the namespace
        os.waitpid(child, 0)
        shutil.rmtree(folder, ignore_errors=True)
        if not told:
            control.recv(1)
        try:
            channel.send({"done": number})
        except ChannelError:
            return


def _await_end(child: int, control: socket.socket) -> bool:
    """Return when the child has ended or the host says so; and whether the host did."""
    watched = os.pidfd_open(child)
    try:
        told = control.fileno() in select.select([watched, control.fileno()], [], [])[0]
    finally:
        os.close(watched)
    if told:
        control.recv(1)
    return told


def _child(request: dict[str, Any], folder: str, solution: int, verdict: int) -> None:
    os.chdir(folder)
    try:
        passed, reason = run(request, solution)
    except BaseException as error:  # noqa: BLE001 (the tests may raise anything)
        passed, reason = False, _describe(error)
    text = json.dumps([request["nonce"], passed, reason[:500]])
    os.write(verdict, text.encode("ascii"))
    os._exit(0)


def run(request: dict[str, Any], solution: int) -> Result:
    """Run the tests of a request against the solution behind a socket.

    Args:
        request: {solution, tests, kind, names, imports}: two sources, how the second is to be run
            (a key of `KINDS`), the names in it that only the solution can define, and imports of
            Python's own names that it leaves out.
        solution: Descriptor of the solution's socket.
    """
    side = TestsSide(solution)
    try:
        side.load(request["solution"])
    except BaseException as error:  # noqa: BLE001 (the solution may raise anything)
        return False, f"the solution raised {_describe(error)}"
    passed, reason = KINDS[request["kind"]](side, request)
    if side.peer.broken is not None:
        return False, f"the solution's process broke off: {side.peer.broken}"
    return passed, reason


def _run_assertions(side: TestsSide, request: dict[str, Any]) -> Result:
    """Run the tests from top to bottom."""
    module = types.ModuleType("tests")
    found = side.names(request["names"], names_classes=False)
    if request["names"] and not found:
        return False, f"the solution defines none of {', '.join(request['names'])}"
    module.__dict__.update(found)
    sys.modules["solution"] = side.module(request["names"])
    exec(request["imports"], module.__dict__)
    with open(os.devnull, "w", encoding="utf-8") as sink, contextlib.redirect_stdout(sink):
        exec(compile(request["tests"], "tests.py", "exec", dont_inherit=True), module.__dict__)
    return True, "all assertions hold"


def _run_pytest(side: TestsSide, request: dict[str, Any]) -> Result:
    """Run the tests with pytest; each one has to pass."""
    present = list(side.names(request["names"], names_classes=True))
    if request["names"] and not present:
        return False, f"the solution defines none of {', '.join(request['names'])}"
    sys.modules["solution"] = side.module(present)
    lines = request["tests"]
    imports = [f"from solution import {', '.join(present)}"] if present else []
    imports += [request["imports"]] if request["imports"] else []
    if imports:
        lines = insert_import(lines, "; ".join(imports))
    Path("test_solution.py").write_text(lines, encoding="utf-8")
    record = _Record()
    status = pytest.main([*_PYTEST, "test_solution.py"], plugins=[record])
    if record.problem is not None:
        return False, record.problem
    if status != 0 or record.passed == 0:
        return False, f"pytest ended with {int(status)}, {record.passed} tests passed"
    return True, f"{record.passed} tests passed"


def _warm_pytest() -> None:
    """Run a test once: half of pytest's time goes into modules it loads on the way."""
    os.mkdir("/tmp/0")
    os.chdir("/tmp/0")
    Path("test_nothing.py").write_text("def test_nothing(): pass", encoding="ascii")
    pytest.main([*_PYTEST, "test_nothing.py"])


_UNUSED = (
    "cacheprovider faulthandler pastebin junitxml doctest stepwise setuponly setupplan "
    "threadexception unraisableexception warnings"
)
_PYTEST = [
    *(f"-pno:{name}" for name in _UNUSED.split()),
    *("-q", "--assert=plain", "--tb=line", "-c", "/dev/null", "--rootdir=."),
]


class _Record:
    """What pytest reports."""

    def __init__(self) -> None:
        self.passed = 0
        self.problem: str | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome != "passed":
            self._note(report)
        elif report.when == "call":
            self.passed += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.outcome != "passed":
            self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if self.problem is None:
            last = (str(report.longrepr).strip().splitlines() or [""])[-1]
            self.problem = f"{report.nodeid or 'the tests'}: {report.outcome} {last}".strip()


def insert_import(source: str, statement: str) -> str:
    """Return `source` with an import before its first statement that may follow one."""
    lines = source.splitlines(keepends=True)
    future = [i for i, line in enumerate(lines) if line.startswith("from __future__")]
    position = future[-1] + 1 if future else 0
    return "".join([*lines[:position], f"{statement}\n", *lines[position:]])


def _describe(error: BaseException) -> str:
    text = str(error)
    trace = error.__traceback__
    line = ""
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "tests.py":
            line = f" (line {trace.tb_lineno} of the tests)"
        trace = trace.tb_next
    return f"{type(error).__name__}{': ' + text if text else ''}{line}"


KINDS: dict[str, Callable[[TestsSide, dict[str, Any]], Result]] = {
    "assert": _run_assertions,
    "pytest": _run_pytest,
    "unittest": _run_pytest,
}
"""pytest runs unittest's cases too."""
