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

import psutil

from flows.subprocesses import process_group

_STARTUP_SECONDS = 120.0
_SERVER_PID = "GMTS_SERVER_PID"


@contextmanager
def local_server(root: Path) -> Iterator[dict[str, str]]:
    """Yield the environment of clients of a new Prefect server that is coming up.

    They wait for it with `wait_until_healthy`. It listens on a free loopback port, keeps its
    database under PREFECT_HOME and ends with the block.
    """
    port = _free_port()
    log = root / "work" / "prefect" / "server.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "flows.serve", "--no-services", "--analytics-off"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    url = f"http://127.0.0.1:{port}/api"
    with (
        log.open("w") as file,
        process_group(command, cwd=root, environment={}, stdout=file.fileno()) as server,
    ):
        yield {"PREFECT_API_URL": url, _SERVER_PID: str(server.pid)}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until_healthy(root: Path) -> None:
    """Wait until the server at PREFECT_API_URL answers.

    Raises:
        RuntimeError: If it has ended or does not answer within two minutes; the message names its
            log.
    """
    url = os.environ["PREFECT_API_URL"]
    deadline = time.monotonic() + _STARTUP_SECONDS
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2):
                return
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            if _ended():
                break
            time.sleep(0.1)
    raise RuntimeError(
        f"the Prefect server at {url} must answer within {_STARTUP_SECONDS:.0f} s; if gmts started "
        f"it, its log is {root / 'work' / 'prefect' / 'server.log'}"
    )


def _ended() -> bool:
    pid = os.environ.get(_SERVER_PID)
    if pid is None:
        return False
    try:
        return bool(psutil.Process(int(pid)).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
