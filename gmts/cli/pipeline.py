"""`gmts run`: write params.yaml, let the pipeline do what is due, print the summary."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import typer

from gmts.config import STAGE_SECTIONS, Params, parse_params
from gmts.config.load import parse_yaml
from gmts.config.presets import change, changed_keys, render_preset, write_params
from gmts.files import read_json
from gmts.stages.external import changed_inputs
from gmts.stages.preflight import check_benchmarks, check_model_folder, check_own_functions
from gmts.stages.runs import record_run
from gmts.stages.summary import render_summary
from gmts.stages.workspace import Workspace

BAD_INPUT = 2


def run_pipeline(
    root: Path, preset: str | None, overrides: Sequence[str], *, until: str | None
) -> None:
    """Run the pipeline up to the stage `until`, or to the end, in the clone at `root`.

    Raises:
        ConfigError: If the experiment is not valid; nothing has been written or started then.
        typer.Exit: If a stage failed, with its exit code.
    """
    text, params = read_experiment(root, preset, overrides)
    check_model_folder(params, root)
    difference = write_params(root, text)
    if difference:
        typer.echo(difference)
    start = time.monotonic()
    stages = list(STAGE_SECTIONS)
    wanted = stages[: stages.index(until or stages[-1]) + 1]
    changed = [name for stage in wanted for name in changed_inputs(root, stage)]
    for name in dict.fromkeys(changed):
        typer.echo(f"{name} has changed since it was read.")
    due = bool(changed) or _is_due(root, until)
    if due:
        _run_flow(root, until)
    else:
        typer.echo("Everything is up to date.")
    seconds = time.monotonic() - start
    if until is None or until == "publish":
        summary = read_json(Workspace(root).summary_file)
        record_run(root)
        typer.echo(render_summary(summary))
        if due:
            _print_overhead(root, start_time=time.time() - seconds, seconds=seconds)


def read_experiment(root: Path, preset: str | None, overrides: Sequence[str]) -> tuple[str, Params]:
    """Return the experiment that a command names, as the text of params.yaml and parsed.

    Raises:
        ConfigError: If it is not valid, or an own function cannot be used.
    """
    text = render_preset(root, preset, overrides) if preset else change(root, overrides)
    tree = parse_yaml(text)
    changed_keys(root, tree)  # refuses a preset that is not there
    params = parse_params(tree)
    check_own_functions(params, root)
    check_benchmarks(params, root)
    return text, params


def environment() -> dict[str, str]:
    """Return the environment of the commands that `gmts` calls."""
    # The stages' `python` and `dvc` are those of this environment, activated or not.
    here = str(Path(sys.executable).parent)
    return {
        **os.environ,
        "PATH": f"{here}{os.pathsep}{os.environ.get('PATH', '')}",
        "DVC_NO_ANALYTICS": "1",
    }


def _is_due(root: Path, until: str | None) -> bool:
    if not (root / "dvc.lock").exists():
        return True
    command = [sys.executable, "-m", "dvc", "status", "--quiet"]
    if until:
        command += ["--with-deps", until, *(["benchmark"] if until == "evaluate" else [])]
    return subprocess.run(command, cwd=root, env=environment(), check=False).returncode != 0


def _run_flow(root: Path, until: str | None) -> None:
    command = [sys.executable, "-m", "flows", "pipeline", "--root", str(root)]
    if until:
        command += ["--until", until]
    code = subprocess.run(command, cwd=root, env=environment(), check=False).returncode
    if code:
        raise typer.Exit(code)


def _print_overhead(root: Path, *, start_time: float, seconds: float) -> None:
    """Print how long everything around the stages' own work took: DVC, Prefect, process starts."""
    ran = [
        file
        for file in (root / "reports" / "stages").glob("*.json")
        if file.stat().st_mtime >= start_time
    ]
    own = sum(read_json(file)["seconds"] for file in ran)
    if own > seconds:  # DVC has brought results of earlier runs back
        return
    typer.echo(
        f"{seconds:.0f} s in all: {own:.0f} s in the stages, {seconds - own:.0f} s around them "
        "(DVC, Prefect, process starts)."
    )
