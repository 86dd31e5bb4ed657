"""`python -m flows STAGE` runs one stage here; `python -m flows pipeline` runs all that are due."""

import argparse
import contextlib
import gc
import logging
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from flows.environment import quiet_environment
from flows.failure import forget_failure, last_failure, record_failure
from flows.lifeline import watch_ancestors
from flows.names import STAGES
from flows.subprocesses import process_group

BAD_INPUT = 2
"""Exit code for input that breaks a rule, as of argparse itself."""


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line, run it, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m flows", description=__doc__)
    parser.add_argument(
        "flow",
        choices=[*STAGES, "pipeline"],
        help="a stage, or pipeline for all of them",
    )
    parser.add_argument(
        "--until", choices=STAGES, default=STAGES[-1], help="last stage of the pipeline"
    )
    parser.add_argument("--root", type=Path, default=Path(), help="the clone to work in")
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    watch_ancestors()
    quiet_environment(root)
    _show_log()
    return _run(options.flow, root, options.until)


def _show_log() -> None:
    """Print what the library says; Prefect sends it to the server but not to the terminal."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    console = logging.StreamHandler()
    console.setFormatter(logging.Formatter("%(asctime)s  %(message)s", "%H:%M:%S"))
    library = logging.getLogger("gmts")
    library.addHandler(console)
    library.setLevel(logging.INFO)
    library.propagate = False


def _run(name: str, root: Path, until: str) -> int:
    from gmts.config import load_params
    from gmts.stages.preflight import check_own_functions

    try:
        # Its server fails on a database in a folder that is not there.
        Path(os.environ["PREFECT_HOME"]).mkdir(parents=True, exist_ok=True)
        experiment = load_params(root / "params.yaml")
        params = asdict(experiment)
        if name == "pipeline":
            check_own_functions(experiment, root)
            return _pipeline(params, root, until)
        from flows.guard import check_unchanged
        from flows.handover import parent_run
        from flows.registry import stage_flow

        with parent_run():
            stage_flow(name)(params, str(root))
        check_unchanged(params, root)
        gc.freeze()  # the interpreter would spend a second on collecting what dies with it
    except (ValueError, OSError) as error:
        sys.stderr.write(f"{name}: {error}\n")
        with contextlib.suppress(OSError):  # the folder of the note may be what cannot be written
            record_failure(root, name, BAD_INPUT, str(error))
        return BAD_INPUT
    return 0


def _pipeline(params: dict[str, object], root: Path, until: str) -> int:
    """Run the pipeline, in a child of its own where a server has to be started for it.

    Prefect sends the last logs when its process ends; the server must outlive that.
    """
    if "PREFECT_API_URL" not in os.environ:
        from flows.server import local_server

        command = [sys.executable, "-m", "flows", "pipeline", "--root", str(root), "--until", until]
        with (
            local_server(root) as server,
            process_group(command, cwd=root, environment=server) as child,
        ):
            return child.wait()
    from flows.pipeline import pipeline
    from flows.server import wait_until_healthy

    try:
        wait_until_healthy(root)
        forget_failure(root)
        pipeline(params, str(root), until)
    except RuntimeError as error:
        sys.stderr.write(f"pipeline: {error}\n")
        return 1
    except subprocess.CalledProcessError as error:
        failure = last_failure(root)
        if failure is not None:
            sys.stderr.write(f"{failure.stage} failed: {failure.message}\n")
            return failure.code
        sys.stderr.write(f"{' '.join(error.cmd)} ended with code {error.returncode}\n")
        return 1
    return 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
