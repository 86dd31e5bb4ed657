"""`gmts rescore`: judge stored responses again."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gmts.cli.workplace import clone_root

_SHOWN_CHARS = 40


def rescore(
    results: Annotated[
        Path,
        typer.Argument(help="A folder with scores, e.g. reports/evaluation/last."),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where the new scores go.", show_default="see above"),
    ] = None,
    use_params: Annotated[
        bool,
        typer.Option(
            "--use-params", help="Judge by `rewards` in params.yaml, not as the results record."
        ),
    ] = False,
    shown: Annotated[int, typer.Option("--show", min=0, help="Changed responses to print.")] = 10,
    root: Annotated[
        Path, typer.Option("--root", help="The clone to work in.", show_default="here")
    ] = Path(),
) -> None:
    """Judge the responses of an evaluation again, after rewards were changed.

    No model is loaded. The old scores stay; the new ones go to reports/rescored for results of
    this clone, else to RESULTS-rescored. What has changed is printed and written to changes.json.
    """
    from gmts.config import load_params
    from gmts.stages.rescore import rescore as run
    from gmts.stages.workspace import Workspace

    folder = clone_root(root)
    rewards = None
    if use_params:
        from dataclasses import asdict

        rewards = asdict(load_params(Workspace(folder).params_file).rewards)
    done = run(results, folder, output=output, rewards=rewards)
    console = Console()
    console.print(_scores(done.before, done.after))
    console.print(_counts(done.changes), highlight=False)
    if done.changes and shown:
        console.print(_changed(done.changes[:shown]))
    console.print(Text(f"written to {done.folder}"), soft_wrap=True)


def _scores(before: Mapping[str, Any], after: Mapping[str, Any]) -> Table:
    table = Table("", "before", "after", box=None, pad_edge=False)
    samples = before["samples"]
    rows = [(f"average@{samples}", before["average"], after["average"])]
    rows += [(f"pass@{k}", before["pass_at"][k], after["pass_at"][k]) for k in before["pass_at"]]
    old_rates, new_rates = before.get("pass_rates", {}), after.get("pass_rates", {})
    rows += [
        (f"pass rate, {name}", old_rates[name], new_rates[name])
        for name in old_rates
        if name in new_rates
    ]
    for name, old, new in rows:
        table.add_row(name, *(f"{100 * score['value']:.2f}%" for score in (old, new)))
    table.add_row("no answer", *(f"{100 * scores['no_answer']:.2f}%" for scores in (before, after)))
    return table


def _counts(changes: list[dict[str, Any]]) -> str:
    right = sum(not c["before"]["correct"] and c["after"]["correct"] for c in changes)
    wrong = sum(c["before"]["correct"] and not c["after"]["correct"] for c in changes)
    return (
        f"{right} responses are right now, {wrong} are wrong now, "
        f"{len(changes) - right - wrong} have another reason, answer or score"
    )


def _changed(changes: list[dict[str, Any]]) -> Table:
    table = Table("question", "sample", "answer", "before", "after", box=None, pad_edge=False)
    for change in changes:
        table.add_row(
            Text(change["id"]),
            str(change["sample"]),
            Text(str(change["after"]["extracted"])[:_SHOWN_CHARS]),
            *(Text(_verdict(change[when])) for when in ("before", "after")),
        )
    return table


def _verdict(verdict: Mapping[str, Any]) -> str:
    return f"{'right' if verdict['correct'] else 'wrong'} ({verdict['reason'][:_SHOWN_CHARS]})"
