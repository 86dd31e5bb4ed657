"""One Prefect server for a whole run, instead of an embedded one per stage."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flows.subprocesses import process_group

_STARTUP_SECONDS = 120.0


@contextmanager
def local_server(root: Path) -> Iterator[str]:
    """Yield the API address of a Prefect server: the one of PREFECT_API_URL, or a new local one.

    The new one listens on a free loopback port, keeps its database under PREFECT_HOME and ends
    with the block.

    Raises:
        RuntimeError: If it does not come up; the message names its log.
    """
    if url := os.environ.get("PREFECT_API_URL"):
        yield url
        return
    port = _free_port()
    log = root / "work" / "prefect" / "server.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "prefect", "server", "start", "--no-services"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--analytics-off"]
    url = f"http://127.0.0.1:{port}/api"
    with (
        log.open("w") as file,
        process_group(
            ["sh", "-c", 'exec "$@" 2>&1', "sh", *command],
            cwd=root,
            environment={},
            stdout=file.fileno(),
        ) as process,
    ):
        _wait_until_healthy(url, process, log)
        os.environ["PREFECT_API_URL"] = url
        try:
            yield url
        finally:
            del os.environ["PREFECT_API_URL"]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_healthy(url: str, process: subprocess.Popen[str], log: Path) -> None:
    deadline = time.monotonic() + _STARTUP_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the Prefect server ended while starting; see {log}")
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2):
                return
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.1)
    raise RuntimeError(
        f"the Prefect server did not answer within {_STARTUP_SECONDS:.0f} s; see {log}"
    )
