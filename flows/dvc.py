"""DVC commands inside a flow run: their lines in its log, their failures with a cause."""

import logging
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prefect import get_run_logger
from prefect.client.schemas.objects import TaskRun
from prefect.tasks import Task, exponential_backoff

from flows.failure import Failure, forget_failure, last_failure
from flows.subprocesses import stream

RETRIES = 3
RETRY_JITTER = 0.5
retry_delays = exponential_backoff(backoff_factor=5)
"""5, 10 and 20 seconds, and up to half as much again."""

_RUNNING = "Running stage "
_BUSY = re.compile(r"^ERROR: .*(is busy|Unable to acquire lock)")
_TRANSFER = re.compile(r"^ERROR: (failed to (pull|push|fetch)|.*(timed out|[Cc]onnection))")
_BY_SIGNAL = re.compile(r"exited with (-\d+|137|143)$")


class StageError(RuntimeError):
    """A DVC command failed; the message is its cause.

    Attributes:
        code: Exit code of the stage; 2 for bad input.
        heals: Whether the same command may succeed if it is run again: a process was killed, DVC
            was busy or a transfer broke off. What a stage found wrong itself stays wrong.
    """

    def __init__(self, message: str, *, code: int = 1, heals: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.heals = heals


async def heals(task: Task[..., Any], run: TaskRun, state: Any) -> bool:
    """Tell Prefect whether to retry: the condition of every task that calls `dvc`."""
    error = await state.aresult(raise_on_failure=False)
    return isinstance(error, StageError) and error.heals


def dvc(
    root: Path, *arguments: str, stage: str, environment: Mapping[str, str] | None = None
) -> bool:
    """Run `dvc ARGUMENTS` in the clone and return whether it ran a stage.

    Args:
        root: The clone.
        arguments: The command and its options.
        stage: What a failure is told of.
        environment: Additions to this process's environment.

    Raises:
        StageError: If it fails.
    """
    log = get_run_logger()
    forget_failure(root)
    ran = False
    errors: list[str] = []
    try:
        for line in stream(
            [sys.executable, "-m", "dvc", *arguments],
            cwd=root,
            environment=environment or {},
            merge_errors=not sys.stderr.isatty(),
        ):
            ran = ran or line.startswith(_RUNNING)
            if line.startswith("ERROR:"):
                errors.append(line)
            if line.strip():
                log.log(logging.INFO, "%s", line)
    except subprocess.CalledProcessError as error:
        raise _failure(stage, last_failure(root), errors, error) from error
    return ran


def has_remote(root: Path) -> bool:
    """Tell whether the clone has a default DVC remote to share data through."""
    return default_remote(root) is not None


def default_remote(root: Path) -> str | None:
    """Return the name of the clone's default DVC remote, if it has one."""
    done = subprocess.run(
        [sys.executable, "-m", "dvc", "config", "core.remote"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or None


def remote_url(root: Path, name: str) -> str:
    """Return the URL of the clone's DVC remote `name`."""
    done = subprocess.run(
        [sys.executable, "-m", "dvc", "config", f"remote.{name}.url"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def _failure(
    stage: str,
    found: Failure | None,
    errors: list[str],
    error: subprocess.CalledProcessError,
) -> StageError:
    if found is not None:
        return StageError(f"{found.stage} failed: {found.message}", code=found.code)
    first = errors[0].removeprefix("ERROR: ") if errors else f"exit code {error.returncode}"
    killed = error.returncode < 0 or any(_BY_SIGNAL.search(line) for line in errors)
    passing = any(_BUSY.search(line) or _TRANSFER.search(line) for line in errors)
    return StageError(f"{stage} failed: dvc: {first}", heals=killed or passing)
