"""`gmts run --dry-run`: the plan of an experiment, printed."""

import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from gmts.cli.pipeline import BAD_INPUT, read_experiment


def print_plan(
    root: Path, preset: str | None, overrides: Sequence[str], *, gpu_memory_gib: float
) -> None:
    """Print what the experiment would do and what stands in its way; write nothing.

    Raises:
        ConfigError: If the experiment is not valid.
        typer.Exit: With code 2 if a run would be refused or would not fit.
    """
    from gmts.stages.plan import make_plan

    _, params = read_experiment(root, preset, overrides)
    plan = make_plan(params, root, gpu_memory_gib=gpu_memory_gib)
    width = max(len(name) for name, _ in plan.lines)
    for name, value in plan.lines:
        typer.echo(f"{name:{width}}  {value}")
    for title, texts in (("note", plan.notes), ("not there yet", plan.missing)):
        for text in texts:
            typer.echo(f"{title}: {text}")
    if plan.problems:
        sys.stderr.writelines(f"error: {problem}\n" for problem in plan.problems)
        raise typer.Exit(BAD_INPUT)
    outcome = "No check failed; what is not there yet could not be checked."
    typer.echo(f"Nothing has been run. {outcome if plan.missing else 'All checks passed.'}")
