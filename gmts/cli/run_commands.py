"""`gmts runs`: what has been finished in this clone."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from gmts.cli.workplace import clone_root
from gmts.stages.runs import delete_run, list_runs, read_run, restore_run

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)

Root = Annotated[Path, typer.Option("--root", help="The clone to work in.", show_default="here")]
Name = Annotated[str, typer.Argument(help="Name of a run, as `gmts runs list` prints it.")]


@app.command("list")
def list_command(root: Root = Path()) -> None:
    """List finished runs, newest first."""
    runs = list_runs(clone_root(root))
    if not runs:
        typer.echo("No finished run yet; start one with `gmts run`.")
        return
    table = Table("name", "finished", "preset", "before", "after", "gain", box=None, pad_edge=False)
    for run in runs:
        table.add_row(
            run.name,
            run.finished,
            run.summary["preset"],
            f"{run.summary['before']['value']:.3f}",
            f"{run.summary['after']['value']:.3f}",
            f"{100 * run.summary['gain']:+.1f}",
        )
    Console().print(table)


@app.command()
def show(name: Name, root: Root = Path()) -> None:
    """Print one run's summary."""
    from gmts.stages.summary import render_summary

    run = read_run(clone_root(root), name)
    typer.echo(render_summary(run.summary))
    typer.echo(f"`gmts runs restore {run.name}` brings its params.yaml back.")


@app.command()
def restore(name: Name, root: Root = Path()) -> None:
    """Bring a run's params.yaml back; `gmts run` then finds its results in DVC's cache."""
    difference = restore_run(clone_root(root), name)
    typer.echo(difference or "params.yaml already says this.")


@app.command()
def delete(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Delete; without it, only say what.")] = False,
    root: Root = Path(),
) -> None:
    """Forget a run: its record and its copy of params.yaml (DVC's cache is left to `dvc gc`)."""
    folder = delete_run(clone_root(root), name, dry_run=not yes)
    typer.echo(f"Deleted {folder}." if yes else f"Would delete {folder}; run again with --yes.")
