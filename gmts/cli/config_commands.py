"""`gmts config`: presets and the effective experiment."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from gmts.cli.workplace import clone_root
from gmts.config import load_params, params_hash
from gmts.config.errors import flatten
from gmts.config.load import read_yaml
from gmts.config.presets import change, origins, preset_names, render_preset, write_params

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)

Root = Annotated[Path, typer.Option("--root", help="The clone to work in.", show_default="here")]


@app.command()
def use(
    preset: Annotated[str, typer.Argument(help="A preset in configs/.")],
    changes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PRESET|KEY=VALUE]...",
            help="Further presets, each changing what is left of it, and changes to values.",
        ),
    ] = None,
    root: Root = Path(),
) -> None:
    """Rewrite params.yaml from one preset or several, and show the difference."""
    folder = clone_root(root)
    presets = [preset, *(change for change in changes or [] if "=" not in change)]
    overrides = [change for change in changes or [] if "=" in change]
    difference = write_params(folder, render_preset(folder, "+".join(presets), overrides))
    typer.echo(difference or "params.yaml already says this.")


@app.command("set")
def set_values(
    overrides: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...", help="Changes.")],
    root: Root = Path(),
) -> None:
    """Change values of params.yaml, comments kept, and show the difference."""
    folder = clone_root(root)
    difference = write_params(folder, change(folder, overrides))
    typer.echo(difference or "params.yaml already says this.")


@app.command()
def show(root: Root = Path()) -> None:
    """Print every value of the experiment and where it comes from."""
    folder = clone_root(root)
    params = load_params(folder / "params.yaml")
    tree = read_yaml(folder / "params.yaml")
    where = origins(folder, tree)
    table = Table("key", "value", "origin", box=None, pad_edge=False)
    for key, value in flatten(tree).items():
        style = "bold" if where[key].startswith("changed") else ""
        table.add_row(key, repr(value), where[key], style=style)
    console = Console()
    console.print(table)
    console.print(f"params hash {params_hash(params)}", soft_wrap=True)


@app.command("list")
def list_presets(root: Root = Path()) -> None:
    """List the presets."""
    folder = clone_root(root)
    for name in preset_names(folder):
        lines = (folder / "configs" / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
        typer.echo(f"{name:20} {lines[0].removeprefix('# ') if lines else ''}")
