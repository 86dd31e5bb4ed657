"""`gmts inspect`: rows as the model sees them, verdicts, the worst questions."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gmts.cli.workplace import clone_root

if TYPE_CHECKING:
    from gmts.stages.views import Comparison, SeenQuestion, SeenRow, StoredResponse

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)

Results = Annotated[
    Path,
    typer.Argument(
        metavar="RESULTS", help="A folder with scores, e.g. reports/benchmarks/math500/last."
    ),
]
_SPECIAL = "bold magenta reverse"
_VERDICTS = {True: ("right", "green"), False: ("wrong", "red")}


class Split(StrEnum):
    """Whose rows are shown."""

    train = "train"
    validation = "validation"
    test = "test"


@app.command()
def data(
    split: Annotated[Split, typer.Option("--split", "-s", help="Whose rows.")] = Split.train,
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="The first so many.")] = 3,
    row_id: Annotated[str | None, typer.Option("--id", help="This row alone.")] = None,
    root: Annotated[
        Path, typer.Option("--root", help="The clone to work in.", show_default="here")
    ] = Path(),
) -> None:
    """Print prepared rows as the model gets them: the token text, special tokens visible."""
    from gmts.config import load_params
    from gmts.stages.inspect import inspect_data
    from gmts.stages.workspace import Workspace

    workspace = Workspace(clone_root(root))
    params = load_params(workspace.params_file)
    found = inspect_data(params, workspace, split.value, limit=rows, row_id=row_id)
    _print(f"{len(found.rows)} of {found.num_rows} rows of {split.value}")
    for row in found.rows:
        _print()
        _print(_row(row))


@app.command()
def rewards(
    results: Results,
    correct: Annotated[
        bool | None, typer.Option("--right/--wrong", help="Only such responses.")
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", "-r", help="Only reasons that begin with this.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="Responses to print.")] = 5,
) -> None:
    """Print how often each reason was given, and stored responses with their verdicts."""
    from gmts.stages.inspect import inspect_rewards

    found = inspect_rewards(results, correct=correct, reason=reason)
    total = sum(counted.responses for counted in found.reasons)
    table = Table("reason", "responses", "share", "right", box=None, pad_edge=False)
    for counted in found.reasons:
        share = _percent(counted.responses / total)
        table.add_row(_visible(counted.reason), str(counted.responses), share, str(counted.right))
    Console().print(table)
    _print()
    _print(f"{min(limit, len(found.responses))} of {len(found.responses)} such responses")
    for response in found.responses[:limit]:
        _print()
        _print(_response(response))


@app.command("eval")
def evaluation(
    results: Results,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="Questions to print.")] = 5,
    against: Annotated[
        Path | None,
        typer.Option("--against", help="An earlier folder: print what changed most since."),
    ] = None,
) -> None:
    """Print a score with its interval and the worst questions, or those that changed most."""
    from gmts.stages.inspect import inspect_eval

    found = inspect_eval(results, against=against)
    earlier = found.comparison
    _print(_scores(found.scores))
    if earlier is None:
        _print()
        _print(f"the worst {min(limit, len(found.questions))} of {len(found.questions)} questions")
        for question in found.questions[:limit]:
            _print()
            _print(_question(question, _percent(question.right)))
        return
    _print(f"{'against':12}{_interval(*earlier.average)}")
    _print()
    _print(_counts(earlier))
    for change in earlier.changed[:limit]:
        _print()
        right = f"{_percent(change.before)} -> {_percent(change.after)}"
        _print(_question(change.question, right))


def _print(text: str | Text = "") -> None:
    # Lines are left to the terminal, so that a pipe gets them whole.
    Console(highlight=False).print(Text(text) if isinstance(text, str) else text, soft_wrap=True)


def _visible(text: str) -> str:
    """Return `text` with control and other invisible characters escaped."""
    return "".join(
        character if character.isprintable() or character in "\n\t" else _escaped(character)
        for character in text
    )


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _interval(value: float, low: float, high: float) -> str:
    return f"{_percent(value)}  [{100 * low:.1f}, {100 * high:.1f}]"


def _head(title: str, **facts: str) -> Text:
    text = Text(_visible(title), style="bold")
    for name, value in facts.items():
        text.append(f"  {name.replace('_', ' ')} ", style="not bold dim")
        text.append(_visible(value), style="not bold")
    return text.append("\n")


def _row(row: "SeenRow") -> Text:
    text = _head(
        row.id,
        tokens=str(row.num_tokens),
        source=row.source,
        kind=row.kind,
        ground_truth=row.ground_truth,
    )
    prompt = Text()
    for piece in row.prompt:
        prompt.append(_visible(piece.text), style=_SPECIAL if piece.special else "")
    return Text.assemble(text, prompt)


def _response(response: "StoredResponse") -> Text:
    word, style = _VERDICTS[response.correct]
    tokens = f"{response.num_tokens}{'' if response.finished else ', cut'}"
    text = _head(f"{response.id} sample {response.sample}", tokens=tokens)
    text.append(word, style=f"not bold {style}")
    for name, value in (
        ("reason", response.reason),
        ("extracted", _answer(response.extracted)),
        ("ground truth", response.ground_truth),
    ):
        text.append(f"  {name} ", style="not bold dim")
        text.append(_visible(value), style="not bold")
    return text.append(f"\n{_visible(response.text)}", style="not bold")


def _question(question: "SeenQuestion", right: str) -> Text:
    text = _head(
        question.id,
        right=right,
        cut=_percent(question.truncated),
        ground_truth=question.ground_truth,
    )
    text.append("answers", style="not bold dim")
    for answer in question.answers:
        word, style = _VERDICTS[answer.correct]
        text.append(f"  {answer.responses} x ", style="not bold")
        text.append(_visible(_answer(answer.text)), style=f"not bold {style}")
        text.append(f" ({word})", style="not bold dim")
    return text.append(f"\n{_visible(question.question)}", style="not bold")


def _answer(extracted: str | None) -> str:
    return "(none)" if extracted is None else extracted


def _scores(scores: Mapping[str, Any]) -> str:
    lines = [f"{scores['task']}, model {scores['model']}, {scores['questions']} questions"]
    named = {f"average@{scores['samples']}": scores["average"]}
    named |= {f"pass@{k}": scores["pass_at"][k] for k in sorted(scores["pass_at"], key=int)}
    lines += [
        f"{name:12}{_interval(score['value'], score['low'], score['high'])}"
        for name, score in named.items()
    ]
    lines.append(f"{'cut':12}{_percent(scores['truncated'])}")
    lines.append(f"{'no answer':12}{_percent(scores['no_answer'])}")
    return "\n".join(lines)


def _counts(earlier: "Comparison") -> str:
    better = sum(change.after > change.before for change in earlier.changed)
    worse = len(earlier.changed) - better
    same = earlier.common - len(earlier.changed)
    line = f"{better} questions better, {worse} worse, {same} the same"
    return f"{line}; {earlier.other} are in one folder only" if earlier.other else line
