"""Commands of `gmts`, one function each."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gmts.cli import (
    config_commands,
    inspect_commands,
    orchestration_commands,
    run_commands,
    score_commands,
)
from gmts.cli.dry_run import print_plan
from gmts.cli.pipeline import BAD_INPUT, run_pipeline
from gmts.cli.rescore_command import rescore
from gmts.cli.workplace import clone_root
from gmts.rewards.sandbox.isolation import IsolationError

app = typer.Typer(
    name="gmts",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Train reasoning models on the tokens that carry the gradient.\n\n"
    "Start with [bold]gmts run[/bold]: it prepares data, trains, evaluates, reports and publishes "
    "the experiment in params.yaml, doing only what is not done yet.",
)
app.add_typer(
    config_commands.app, name="config", help="Look at the experiment or start from a preset."
)
app.add_typer(run_commands.app, name="runs", help="List, show, restore or delete finished runs.")
app.add_typer(
    inspect_commands.app,
    name="inspect",
    help="Look at rows as the model sees them, at verdicts, at the worst questions.",
)
app.command()(score_commands.score)
app.command()(rescore)
for command in orchestration_commands.COMMANDS:
    app.command()(command)

Root = Annotated[Path, typer.Option("--root", help="The clone to work in.", show_default="here")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[KEY=VALUE]...", help="Changes to params.yaml, e.g. selection.ratio=0.1"
    ),
]
Preset = Annotated[
    str | None,
    typer.Option(
        "--preset", "-p", help="Start from this preset in configs/, or several: one+another."
    ),
]


@app.command()
def run(
    overrides: Overrides = None,
    preset: Preset = None,
    root: Root = Path(),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Plan and check; write and run nothing.")
    ] = False,
    gpu_memory: Annotated[
        float,
        typer.Option("--gpu-memory", min=1.0, help="GiB of one GPU, for the check of --dry-run."),
    ] = 79.0,
) -> None:
    """Run every stage that is due, and print what was learned.

    Without --preset the experiment is the one in params.yaml. Changes are written to params.yaml
    first, and shown.
    """
    if dry_run:
        print_plan(clone_root(root), preset, overrides or [], gpu_memory_gib=gpu_memory)
    else:
        run_pipeline(clone_root(root), preset, overrides or [], until=None)


@app.command()
def prepare(overrides: Overrides = None, preset: Preset = None, root: Root = Path()) -> None:
    """Make the train, validation and test splits."""
    run_pipeline(clone_root(root), preset, overrides or [], until="prepare")


@app.command()
def train(overrides: Overrides = None, preset: Preset = None, root: Root = Path()) -> None:
    """Train, after whatever training needs; resumes where an earlier attempt stopped."""
    run_pipeline(clone_root(root), preset, overrides or [], until="train")


@app.command()
def evaluate(overrides: Overrides = None, preset: Preset = None, root: Root = Path()) -> None:
    """Score the model before and after training on the test split."""
    run_pipeline(clone_root(root), preset, overrides or [], until="evaluate")


@app.command()
def publish(overrides: Overrides = None, preset: Preset = None, root: Root = Path()) -> None:
    """Write the model folder with card and lineage; upload it only if publish.hub_repo is set."""
    run_pipeline(clone_root(root), preset, overrides or [], until="publish")


@app.command()
def generate(
    question: Annotated[str, typer.Argument(help="What to ask, as a user would.")],
    model: Annotated[
        Path, typer.Option("--model", "-m", help="A model folder that gmts wrote.")
    ] = Path("models/last"),
    samples: Annotated[int, typer.Option("--samples", "-n", min=1, help="Responses to draw.")] = 1,
    temperature: Annotated[
        float, typer.Option("--temperature", "-t", min=0.0, help="0 is greedy.")
    ] = 0.0,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=1, help="Length limit.")] = 256,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the samples.")] = 0,
) -> None:
    """Ask a checkpoint a question, with the prompt template it was trained with."""
    from gmts.rollout.generate import ask

    answers = ask(
        model,
        question,
        num_samples=samples,
        temperature=temperature,
        max_response_tokens=max_tokens,
        seed=seed,
    )
    for answer in answers:
        typer.echo(answer)


@app.command()
def clean(
    yes: Annotated[bool, typer.Option("--yes", help="Delete; without it, only list.")] = False,
    root: Root = Path(),
) -> None:
    """Remove work folders that no current result needs (a dry run unless --yes)."""
    from gmts.stages.cleaning import delete_removable, removable

    folder = clone_root(root)
    found = delete_removable(folder) if yes else removable(folder)
    console = Console()
    if not found:
        console.print("Nothing to clean.")
        return
    for item in found:
        console.print(f"{item.size_mib:8.1f} MiB  {item.path}  ({item.reason})", soft_wrap=True)
    total = sum(item.size_mib for item in found)
    if yes:
        console.print(f"Deleted {total:.1f} MiB.")
    else:
        console.print(f"{total:.1f} MiB could be freed; run again with --yes to delete.")


def main() -> None:
    """Run the command line; bad input ends with one clear message and exit code 2."""
    try:
        app()
    except (ValueError, OSError, IsolationError) as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(BAD_INPUT)
