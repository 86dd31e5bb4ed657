"""A Prefect worker that is started again when it dies, and whose lost runs are ended.

`python -m flows.worker POOL` is `prefect worker start` that ends with the supervisor above it.
"""

import argparse
import logging
import os
import runpy
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from types import FrameType

import httpx

from flows.engine import ROOT_VARIABLE
from flows.environment import api_url
from flows.lifeline import watch_ancestors
from flows.pools import POOLS, POOLS_VARIABLE
from flows.subprocesses import process_group

logger = logging.getLogger(__name__)

_SWEEP_SECONDS = 5.0
_SHORTEST_LIFE_SECONDS = 30.0
_LONGEST_PAUSE_SECONDS = 60.0


def run(options: argparse.Namespace) -> int:
    """Serve a pool, or every pool, until a signal ends it.

    A machine that serves every pool runs every stage of a pipeline itself.

    Raises:
        ValueError: If PREFECT_API_URL is not set.
    """
    api_url()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s  %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    signal.signal(signal.SIGTERM, _interrupt)
    pools = POOLS if options.pool is None else (options.pool,)
    environment, ending = _environment(options), threading.Event()
    keepers = [
        threading.Thread(target=_keep, args=(pool, options.root, environment, ending))
        for pool in pools
    ]
    for keeper in keepers:
        keeper.start()
    try:
        while True:
            _sweep(options.root)
            time.sleep(_SWEEP_SECONDS)
    except KeyboardInterrupt:
        return 0
    finally:
        ending.set()
        for keeper in keepers:
            keeper.join()


def _environment(options: argparse.Namespace) -> dict[str, str]:
    here = str(Path(sys.executable).parent)
    found = {
        ROOT_VARIABLE: str(options.root),
        # Runs whose machine is gone are found by the silence (flows/automations.py).
        "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
        # Flow runs start in a folder of Prefect's; this clone's code is found all the same.
        "PYTHONPATH": os.pathsep.join(
            filter(None, [str(options.root), os.environ.get("PYTHONPATH")])
        ),
        "PATH": f"{here}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    if options.pool is not None:
        found[POOLS_VARIABLE] = os.environ.get(POOLS_VARIABLE, options.pool)
    return found


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _keep(pool: str, root: Path, environment: dict[str, str], ending: threading.Event) -> None:
    """Start a worker whenever there is none."""
    pause = 1.0
    while not ending.is_set():
        start = time.monotonic()
        command = [sys.executable, "-m", "flows.worker", pool]
        with process_group(command, cwd=root, environment=environment) as worker:
            while worker.poll() is None and not ending.wait(1.0):
                pass
        if ending.is_set():
            return
        lived = time.monotonic() - start
        pause = 1.0 if lived > _SHORTEST_LIFE_SECONDS else min(2 * pause, _LONGEST_PAUSE_SECONDS)
        logger.warning(
            "the worker of pool %s ended with code %d; the next one starts in %.0f s",
            pool,
            worker.returncode,
            pause,
        )
        ending.wait(pause)


def _sweep(root: Path) -> None:
    from flows.roster import sweep

    try:
        sweep(root)
    except httpx.HTTPError as error:  # a server that is being restarted is asked again
        logger.warning("the Prefect server did not answer: %s", error)


if __name__ == "__main__":
    watch_ancestors()
    name = f"{socket.gethostname()}-{sys.argv[1]}-{os.getpid()}"
    sys.argv = ["prefect", "worker", "start", "--pool", sys.argv[1], "--type", "process"]
    sys.argv += ["--name", name, "--no-create-pool-if-not-found"]
    runpy.run_module("prefect", run_name="__main__", alter_sys=True)
