"""One self-contained HTML page about a run: no script, no link to another host."""

import html
import re
import string
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from gmts.analysis.curves import read_metrics
from gmts.analysis.plots import draw_panels, draw_scores
from gmts.files import read_json, write_atomic

MODELS = ("initial", "last", "best")


def write_report(
    folder: Path,
    *,
    title: str,
    train_dir: Path,
    evaluation_dir: Path,
    benchmarks: Sequence[Mapping[str, Any]] = (),
    contamination: Mapping[str, Any] | None = None,
) -> None:
    """Write index.html and plots/ into `folder`.

    Args:
        folder: An existing, empty folder.
        title: Name of the run.
        train_dir: metrics.jsonl and summary.json of the train stage.
        evaluation_dir: MODEL/scores.json of the evaluate stage.
        benchmarks: Lines of `gmts.stages.scores.benchmark_lines`.
        contamination: What prepare found of each benchmark in train and validation, by split.

    Raises:
        ValueError: If an input is missing or broken; the message names the file.
    """
    plots = folder / "plots"
    plots.mkdir()
    scores = {model: read_json(evaluation_dir / model / "scores.json") for model in MODELS}
    metric = f"average@{scores['initial']['samples']}"
    bars = draw_scores({name: score["average"] for name, score in scores.items()}, metric, plots)
    panels = draw_panels(read_metrics(train_dir / "metrics.jsonl"), plots)
    page = string.Template(
        resources.files("gmts.analysis").joinpath("report.html").read_text(encoding="utf-8")
    ).substitute(
        title=html.escape(title),
        scores_table=_scores_table(scores),
        scores_plot=_inline_svg(bars),
        benchmarks=_benchmarks(benchmarks),
        contamination=_contamination(contamination or {}),
        training_table=_mapping_table(read_json(train_dir / "summary.json")),
        plots="\n".join(f"<figure>{_inline_svg(file)}</figure>" for _, file in panels),
    )
    write_atomic(folder / "index.html", page)


def _scores_table(scores: Mapping[str, Mapping[str, Any]]) -> str:
    passes = [f"pass@{k}" for k in scores["initial"]["pass_at"]]
    average = f"average@{scores['initial']['samples']}"
    header = ["model", average, *passes, "cut at the limit", "no answer", "questions"]
    rows = []
    for model, score in scores.items():
        values = [score["average"], *score["pass_at"].values()]
        rows.append(
            [
                model,
                *(_with_interval(value) for value in values),
                _percent(score["truncated"]),
                _percent(score["no_answer"]),
                str(score["questions"]),
            ]
        )
    return _table(header, rows)


def _benchmarks(lines: Sequence[Mapping[str, Any]]) -> str:
    if not lines:
        return ""
    rows = [
        [
            line["benchmark"],
            line["measure"],
            *(_with_interval(line[model]) for model in MODELS),
            str(line["questions"]),
        ]
        for line in lines
    ]
    return "<h2>Benchmarks</h2>" + _table(
        ["benchmark", "measure", *MODELS, "questions"],
        rows,
    )


def _contamination(found: Mapping[str, Any]) -> str:
    rows = [
        [name, split, str(of["near_questions"]), str(of["questions"]), str(of["near_rows"])]
        for split, by_name in found.items()
        for name, of in by_name.items()
    ]
    if not rows:
        return ""
    header = ["benchmark", "split", "its questions found", "of", "rows near them"]
    return "<h2>Benchmarks in the training data</h2>" + _table(header, rows)


def _with_interval(score: Mapping[str, float]) -> str:
    return f"{_percent(score['value'])} [{_percent(score['low'])}, {_percent(score['high'])}]"


def _percent(value: float) -> str:
    return f"{100 * value:.1f}%"


def _mapping_table(values: Mapping[str, Any]) -> str:
    return _table(["what", "value"], [[name, str(value)] for name, value in values.items()])


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _inline_svg(file: Path) -> str:
    """Return the <svg> element of a file, its ids made unique within the page."""
    text = file.read_text(encoding="utf-8")
    element = text[text.index("<svg") :]
    prefix = file.stem
    element = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', element)
    element = re.sub(r'"#([^"]+)"', rf'"#{prefix}-\1"', element)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", element)
