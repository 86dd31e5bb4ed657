"""BigCodeBench with its own checker, which runs in an environment of its own and in a sandbox.

Its package wants vLLM and pins of libraries that are not ours, so it is never imported here.
"""

import functools
import os
import select
import time
from collections.abc import Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from gmts.rewards.code.extract import NO_PROGRAM
from gmts.rewards.guest.channel import Channel, ChannelError
from gmts.rewards.sandbox.interpreter import Interpreter
from gmts.rewards.sandbox.isolation import Limits
from gmts.rewards.sandbox.process import Sandbox
from gmts.rewards.verdict import Verdict, binary

KIND = "bigcodebench"
"""meta.kind of rows that BigCodeBench judges."""
FIELDS = ("task_id", "code_prompt", "test", "entry_point")
"""Of a problem, what a program is judged by."""
VERSION = "0.2.5"
"""Of the checker."""
VARIABLE = "GMTS_BIGCODEBENCH_PYTHON"
"""Names the Python of the environment where it is."""
_DEFAULT = ".venv-bigcodebench/bin/python"

TIMEOUT_S = 240.0
"""The checker's TIMEOUT_LIMIT: of all tests of a task, whatever its solution took."""
_SPARE_S = 60.0  # to load the checker, and to end what the tests have started
# The checker lowers the address space to 30 GiB itself, and fails where less is allowed.
_LIMITS = Limits(
    memory_mib=30 * 1024, cpu_s=300, file_mib=256, tmp_mib=512, open_files=512, processes=256
)
_STATUSES = ("pass", "fail", "timeout")


def check_installed() -> None:
    """See that BigCodeBench is there.

    Raises:
        ValueError: If its environment is missing, or has another version.
    """
    _tool(_python())


def judge_bigcodebench(program: str | None, meta: Mapping[str, Any]) -> Verdict:
    """Return the verdict on a program: right if every test passes.

    As in BigCodeBench's own command, an empty function comes first ("calibrated"): a response that
    leaves the imports out is not wrong for that.

    Args:
        program: As the response holds it; None if it holds none, which fails.
        meta: `problem`, with the fields of BigCodeBench's data.

    Raises:
        ValueError: As `check_installed`.
        IsolationError: If code cannot be isolated here.
    """
    start = time.perf_counter()
    if program is None:
        reason = NO_PROGRAM
    else:
        problem = meta["problem"]
        calibrated = f"{problem['code_prompt']}\n    pass\n{program}"
        reason = _check(calibrated, problem["test"], problem["entry_point"])
    return binary(reason == "pass", reason, program, time.perf_counter() - start)


def _check(program: str, test: str, entry_point: str) -> str:
    """The status, with the first test that fails."""
    tool = _tool(_python())
    environment = tool.folders[-1]
    sandbox = Sandbox("bigcodebench_side", [environment], limits=_LIMITS, interpreter=tool)
    try:
        channel = Channel(sandbox.channel.fileno())
        request = {"program": program, "test": test, "entry_point": entry_point}
        try:
            channel.send(request | {"timeout_s": TIMEOUT_S})
            if not select.select([sandbox.channel], [], [], TIMEOUT_S + _SPARE_S)[0]:
                return "timeout"
            answer = channel.receive()
        except ChannelError:
            return "fail: it ended the checker"
    finally:
        sandbox.kill()
    return _reason(answer)


def _reason(answer: Mapping[str, Any]) -> str:
    """What the answer says; a program that attacks the checker can have sent it."""
    status, first = answer.get("status"), answer.get("first")
    if status not in _STATUSES:
        return "fail: it ended the checker"
    if status != "fail":
        return str(status)
    if first == "ALL":
        return f"fail before any test: {answer.get('error')!s:.200}"
    return f"fail: {first!s:.200}"


def _python() -> Path:
    return Path(os.environ.get(VARIABLE) or _DEFAULT).absolute()


@functools.cache
def _tool(python: Path) -> Interpreter:
    cure = f"`make install-bigcodebench`, or set {VARIABLE} to the Python that has it"
    try:
        found = Interpreter.of(python)
    except ValueError as error:
        raise ValueError(
            f"BigCodeBench needs an environment of its own: {cure}; {error}"
        ) from error
    installed = distributions(name="bigcodebench", path=list(found.packages))
    version = next((one.version for one in installed), "none")
    if version != VERSION:
        raise ValueError(f"{python} must have bigcodebench {VERSION}, got {version}: {cure}")
    return found
