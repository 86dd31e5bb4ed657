"""`python -m flows STAGE` runs one stage here; `python -m flows pipeline` runs all that are due."""

import argparse
import importlib
import os
import subprocess
import sys
from pathlib import Path

from flows.environment import quiet_environment
from flows.lifeline import watch_ancestors
from flows.names import STAGES
from flows.pools import POOLS

BAD_INPUT = 2
"""Exit code for input that breaks a rule, as of argparse itself."""

COMMANDS = {
    "pipeline": ("flows.local", "run all stages that are due"),
    "deploy": ("flows.deploy", "set the Prefect server up"),
    "status": ("flows.status", "say what runs where"),
    "doctor": ("flows.doctor", "check this machine"),
    "worker": ("flows.worker", "take runs from a pool"),
    "server": ("flows.serve", "keep a Prefect server running"),
}
"""Each module's `run(options)` returns the exit code."""


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line, run it, and return the exit code."""
    options = _parser().parse_args(arguments)
    options.root = options.root.resolve()
    watch_ancestors()
    quiet_environment(options.root)
    module = COMMANDS[options.flow][0] if options.flow in COMMANDS else "flows.local"
    try:
        # Its server fails on a database in a folder that is not there.
        Path(os.environ["PREFECT_HOME"]).mkdir(parents=True, exist_ok=True)
        code: int = importlib.import_module(module).run(options)
    except (ValueError, OSError, RuntimeError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"{options.flow}: {error}\n")
        return BAD_INPUT if isinstance(error, ValueError | OSError) else 1
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m flows", description=__doc__)
    flows = parser.add_subparsers(dest="flow", required=True, metavar="FLOW")
    found = {stage: flows.add_parser(stage, help=f"run the stage {stage} here") for stage in STAGES}
    found |= {name: flows.add_parser(name, help=help) for name, (_, help) in COMMANDS.items()}
    for command in found.values():
        command.add_argument("--root", type=Path, default=Path(), help="the clone to work in")
    found["pipeline"].add_argument(
        "--until", choices=STAGES, default=STAGES[-1], help="last stage of the pipeline"
    )
    found["evaluate"].add_argument("--benchmark", help="on this benchmark of params.yaml")
    found["deploy"].add_argument(
        "--gpu-slots", type=int, help="stages that may hold a GPU at once; 1 at first"
    )
    found["worker"].add_argument(
        "pool", nargs="?", choices=POOLS, help="the only pool this machine serves; else every pool"
    )
    for option, default in (("--host", "127.0.0.1"), ("--port", "4200")):
        found["server"].add_argument(option, default=default)
    return parser


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
