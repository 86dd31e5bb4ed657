"""The run in one JSON file, and in a few lines for people."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gmts
from gmts.config import SCHEMA_VERSION, Params, params_hash
from gmts.config.load import read_yaml
from gmts.config.presets import changed_keys
from gmts.files import read_json
from gmts.stages.scores import benchmark_lines
from gmts.stages.workspace import MODELS, ModelName, StageResult, Workspace

_STAGES = ("prepare", "warmstart", "train", "evaluate-initial", "evaluate-last", "evaluate-best")


def build_summary(
    params: Params, workspace: Workspace, *, model_dir: Path, results: Mapping[str, StageResult]
) -> dict[str, Any]:
    """Return the summary of a run: scores, gain, cost and lineage.

    Args:
        params: The experiment.
        workspace: Where every stage up to the report has left its outputs.
        model_dir: The published folder.
        results: Stages whose own files are not written yet (the one that calls this).

    Raises:
        ValueError: If a stage's output is missing; the message names the file.
    """
    scores = {model: read_json(workspace.evaluation_dir(model) / "scores.json") for model in MODELS}
    published: ModelName = params.publish.checkpoint
    before, after = (_score(scores[model]) for model in ("initial", published))
    stages = {stage: read_json(workspace.stage_file(stage)) for stage in (*_STAGES, "report")}
    stages |= {
        stage: {"seconds": result.seconds, "peak_memory_mib": result.peak_memory_mib}
        for stage, result in results.items()
    }
    manifest = read_json(workspace.prepared_dir / "manifest.json")
    tree = read_yaml(workspace.params_file)
    return {
        "schema_version": SCHEMA_VERSION,
        "name": params.name,
        "preset": params.preset,
        "changed_keys": changed_keys(workspace.root, tree),
        "metric": f"average@{scores['initial']['samples']}",
        "before": before,
        "after": after,
        "last": _score(scores["last"]),
        "best": _score(scores["best"]),
        "published_checkpoint": published,
        "gain": round(after["value"] - before["value"], 6),
        "questions": scores["initial"]["questions"],
        "benchmarks": benchmark_lines(workspace, params.benchmarks),
        "stages": {
            stage: {key: result[key] for key in ("seconds", "peak_memory_mib")}
            for stage, result in stages.items()
        },
        "data_hash": manifest["rows_sha256"],
        "params_hash": params_hash(params),
        "code_version": code_version(workspace.root),
        "model": str(model_dir.relative_to(workspace.root)),
        "report": str((workspace.report_dir / "index.html").relative_to(workspace.root)),
    }


def code_version(root: Path) -> str:
    """Return the package version and, in a git clone, the commit and whether it was changed."""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return gmts.__version__
    return f"{gmts.__version__} ({found.stdout.strip()})"


def render_summary(summary: Mapping[str, Any]) -> str:
    """Return the summary as text for a terminal."""
    before, after, metric = summary["before"], summary["after"], summary["metric"]
    changed = f", changed: {', '.join(summary['changed_keys'])}" if summary["changed_keys"] else ""
    lines = [
        "",
        f"{summary['name']} (preset {summary['preset']}{changed})",
        f"  {metric} on {summary['questions']} held-out questions",
        f"    before training  {_interval(before)}",
        f"    after training   {_interval(after)}",
        f"    gain             {100 * summary['gain']:+.1f} points",
        f"    best checkpoint  {_interval(summary['best'])}",
        *(
            f"  {line['benchmark']} {line['measure']}: {_interval(line['initial'])} to "
            f"{_interval(line[summary['published_checkpoint']])}"
            for line in summary.get("benchmarks", [])
        ),
        "  seconds and peak memory",
    ]
    lines += [
        f"    {stage:17}{cost['seconds']:7.1f} s {cost['peak_memory_mib']:8.0f} MiB"
        for stage, cost in summary["stages"].items()
    ]
    lines += [
        f"  data    {summary['data_hash']}",
        f"  params  {summary['params_hash']}",
        f"  code    {summary['code_version']}",
        f"  model   {summary['model']}",
        f"  report  {summary['report']}",
    ]
    return "\n".join(lines)


def _score(scores: Mapping[str, Any]) -> dict[str, float]:
    average = scores["average"]
    return {"value": average["value"], "low": average["low"], "high": average["high"]}


def _interval(score: Mapping[str, float]) -> str:
    return f"{100 * score['value']:5.1f}%  [{100 * score['low']:.1f}, {100 * score['high']:.1f}]"
