"""One Prefect server for a whole run, instead of an embedded one per stage."""

import os
import socket
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
    """Yield the API address of a new Prefect server that is coming up; see `wait_until_healthy`.

    It listens on a free loopback port, keeps its database under PREFECT_HOME and ends with the
    block.
    """
    port = _free_port()
    log = root / "work" / "prefect" / "server.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "flows.serve", "--no-services", "--analytics-off"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    url = f"http://127.0.0.1:{port}/api"
    with (
        log.open("w") as file,
        process_group(command, cwd=root, environment={}, stdout=file.fileno()),
    ):
        yield url


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until_healthy(root: Path) -> None:
    """Wait until the server at PREFECT_API_URL answers.

    Raises:
        RuntimeError: If it does not within two minutes; the message names its log.
    """
    url = os.environ["PREFECT_API_URL"]
    deadline = time.monotonic() + _STARTUP_SECONDS
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2):
                return
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.1)
    raise RuntimeError(
        f"the Prefect server at {url} must answer within {_STARTUP_SECONDS:.0f} s; if gmts started "
        f"it, its log is {root / 'work' / 'prefect' / 'server.log'}"
    )
