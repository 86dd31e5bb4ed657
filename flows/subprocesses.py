"""Child processes whose whole tree ends with them."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from flows.trees import TREE_VARIABLE, below, kill_tree, new_tree

_GRACE_SECONDS = 10.0


@contextmanager
def process_group(
    command: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    stdout: int | None = None,
    stderr: int | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """Start `command` in a session of its own and end its whole tree with the block.

    Its session gets SIGTERM, and after a grace period SIGKILL, whether the block succeeds, fails or
    is cancelled; then whatever has left that session. stderr is the caller's unless another is
    given, so that progress bars keep their terminal.
    """
    tree = new_tree()
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env={**os.environ, **environment, TREE_VARIABLE: below(tree)},
        stdout=stdout,
        stderr=stderr,
        stdin=subprocess.DEVNULL,
        text=True,
        bufsize=1,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        _end(process)
        kill_tree(tree)


def _end(process: subprocess.Popen[str]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            continue
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def stream(
    command: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    merge_errors: bool = False,
) -> Iterator[str]:
    """Yield the lines that `command` prints, with `merge_errors` those of stderr too.

    Raises:
        subprocess.CalledProcessError: If it ends with another exit code than 0.
    """
    with process_group(
        command,
        cwd=cwd,
        environment=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if merge_errors else None,
    ) as process:
        if process.stdout is None:
            raise AssertionError("stdout is a pipe")
        for line in process.stdout:
            yield line.rstrip("\n")
        code = process.wait()
    if code:
        raise subprocess.CalledProcessError(code, command)
