"""The page of a pipeline run: scores, plots, links and lineage as artifacts."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prefect.artifacts import (
    create_image_artifact,
    create_link_artifact,
    create_markdown_artifact,
    create_table_artifact,
)

from gmts.config import load_params
from gmts.stages.runs import read_summary
from gmts.stages.scores import benchmark_lines
from gmts.stages.workspace import MODELS, Workspace


def publish_scores(root: Path) -> None:
    """Show each model's score with its interval, in percent."""
    rows = []
    for model in MODELS:
        file = Workspace(root).evaluation_dir(model) / "scores.json"
        scores = json.loads(file.read_text(encoding="utf-8"))
        average = scores["average"]
        rows.append(
            {
                "model": model,
                f"average@{scores['samples']}": _percent(average["value"]),
                "low": _percent(average["low"]),
                "high": _percent(average["high"]),
                "questions": scores["questions"],
                "truncated": _percent(scores["truncated"]),
            }
        )
    create_table_artifact(key="scores", table=rows, description="Test scores in percent")
    names = load_params(root / "params.yaml").benchmarks
    lines = [
        {name: _cell(value) for name, value in line.items()}
        for line in benchmark_lines(Workspace(root), names)
    ]
    if lines:
        create_table_artifact(
            key="benchmarks", table=lines, description="Scores on benchmarks in percent"
        )


def _cell(value: Any) -> Any:
    """Return a score with its interval as text, anything else as it is."""
    if not isinstance(value, Mapping):
        return value
    low, high = _percent(value["low"]), _percent(value["high"])
    return f"{_percent(value['value'])} [{low}, {high}]"


def publish_plots(root: Path) -> None:
    """Show the report's plots, and link to the page itself."""
    folder = Workspace(root).report_dir
    for file in sorted((folder / "plots").glob("*.png")):
        data = base64.b64encode(file.read_bytes()).decode()
        key = "plot-" + file.stem.lower().replace("_", "-")
        create_image_artifact(f"data:image/png;base64,{data}", key=key, description=file.stem)
    page = folder / "index.html"
    create_link_artifact(page.as_uri(), f"report page ({page})", key="report-page")


def publish_lineage(root: Path) -> None:
    """Show what the published model came from, and link to it."""
    summary = read_summary(root)
    model = root / summary["model"]
    create_link_artifact(model.as_uri(), f"model ({model})", key="model")
    create_markdown_artifact(_lineage(summary), key="lineage", description="What led to the model")


def _lineage(summary: Mapping[str, Any]) -> str:
    changed = ", ".join(f"`{key}`" for key in summary["changed_keys"]) or "nothing"
    rows = [
        ("model", f"`{summary['model']}`, the {summary['published_checkpoint']} checkpoint"),
        ("preset", f"{summary['preset']}, changed: {changed}"),
        ("gain", f"{100 * summary['gain']:+.1f} points of {summary['metric']}"),
        ("data", f"`{summary['data_hash']}`"),
        ("params", f"`{summary['params_hash']}`"),
        ("code", f"`{summary['code_version']}`"),
    ]
    costs = [
        f"| {stage} | {cost['seconds']:.1f} | {cost['peak_memory_mib']:.0f} |"
        for stage, cost in summary["stages"].items()
    ]
    return "\n".join(
        [f"# {summary['name']}", "", "| | |", "|---|---|"]
        + [f"| {name} | {value} |" for name, value in rows]
        + ["", "| stage | seconds | peak memory (MiB) |", "|---|---|---|", *costs]
    )


def _percent(value: float) -> float:
    return round(100 * value, 1)


PAGES = {"evaluate": publish_scores, "report": publish_plots, "publish": publish_lineage}
"""What becomes visible on the pipeline's page once a stage is up to date, run or cached."""
