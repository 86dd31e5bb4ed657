"""A stage, or the pipeline, run on this machine by `python -m flows`."""

import argparse
import contextlib
import gc
import logging
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flows.failure import record_failure
from flows.subprocesses import process_group
from gmts.config import load_params

_BAD_INPUT = 2


def run(options: argparse.Namespace) -> int:
    """Run the stage or pipeline that was asked for, and return the exit code."""
    _show_log()
    os.chdir(options.root)
    if options.flow == "pipeline":
        return _pipeline(options.root, options.until)
    only = getattr(options, "benchmark", None)
    return _stage(options.flow, options.root, {} if only is None else {"benchmark": only})


def _show_log() -> None:
    """Print what the library says; Prefect sends it to the server but not to the terminal."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    console = logging.StreamHandler()
    console.setFormatter(logging.Formatter("%(asctime)s  %(message)s", "%H:%M:%S"))
    library = logging.getLogger("gmts")
    library.addHandler(console)
    library.setLevel(logging.INFO)
    library.propagate = False


def _stage(name: str, root: Path, only: dict[str, str]) -> int:
    """Run one stage; why it failed is left for the pipeline, as DVC does not pass it on."""
    try:
        _run_stage(name, root, only)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"{name}: {error}\n")
        with contextlib.suppress(OSError):  # the folder of the note may be what cannot be written
            record_failure(root, name, _BAD_INPUT, str(error))
        return _BAD_INPUT
    except Exception as error:
        record_failure(root, name, 1, f"{type(error).__name__}: {error}")
        raise
    return 0


def _run_stage(name: str, root: Path, only: dict[str, str]) -> None:
    from flows.guard import check_unchanged
    from flows.handover import parent_run
    from flows.pools import check_here
    from flows.registry import stage_flow

    check_here(name, root)
    params: dict[str, Any] = asdict(load_params(root / "params.yaml"))
    with parent_run():
        stage_flow(name)(params, str(root), **only)
    check_unchanged(params, root)
    gc.freeze()  # the interpreter would spend a second on collecting what dies with it


def _pipeline(root: Path, until: Any) -> int:
    """Run the pipeline, in a child of its own where a server has to be started for it.

    Prefect sends the last logs when its process ends; the server must outlive that.
    """
    from gmts.stages.preflight import (
        check_benchmarks,
        check_model_folder,
        check_own_functions,
    )

    experiment = load_params(root / "params.yaml")
    check_model_folder(experiment, root)
    check_own_functions(experiment, root)
    check_benchmarks(experiment, root)
    if "PREFECT_API_URL" not in os.environ:
        from flows.server import local_server

        command = [sys.executable, "-m", "flows", "pipeline", "--root", str(root), "--until", until]
        with (
            local_server(root) as server,
            process_group(command, cwd=root, environment=server) as child,
        ):
            return child.wait()
    from flows.dvc import StageError
    from flows.pipeline import pipeline
    from flows.server import wait_until_healthy

    wait_until_healthy(root)
    try:
        pipeline(target=until)
    except StageError as error:
        sys.stderr.write(f"{error}\n")
        return error.code
    return 0
