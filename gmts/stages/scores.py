"""Scores on benchmarks, as the report, the model card and the pages show them."""

from collections.abc import Iterable, Mapping
from typing import Any

from gmts.files import read_json, write_atomic
from gmts.stages.workspace import MODELS, Workspace

_ABOUT = """One folder per entry of `benchmarks` in params.yaml, by MODEL: scores.json, and
responses.jsonl.gz with every response and its verdict.
"""


def describe_benchmarks(workspace: Workspace) -> None:
    """Write README.md among the scores: DVC needs the folder even if there is no benchmark."""
    workspace.benchmarks_dir.mkdir(parents=True, exist_ok=True)
    write_atomic(workspace.benchmarks_dir / "README.md", _ABOUT)


def benchmark_lines(workspace: Workspace, names: Iterable[str]) -> list[dict[str, Any]]:
    """Return a line per benchmark and measure: benchmark, measure, questions, and by model.

    The measure is average@k; of HumanEval and MBPP the rates base, plus and their mean. What is
    kept by model has value, low and high.

    Raises:
        ValueError: If scores are missing or broken; the message names the file.
    """
    lines = []
    for name in names:
        found = {
            model: read_json(workspace.benchmarks_dir / name / model / "scores.json")
            for model in MODELS
        }
        measures = {model: _measures(scores) for model, scores in found.items()}
        lines += [
            {
                "benchmark": name,
                "measure": measure,
                "questions": found["initial"]["questions"],
                **{model: measures[model][measure] for model in MODELS},
            }
            for measure in measures["initial"]
        ]
    return lines


def _measures(scores: Mapping[str, Any]) -> dict[str, Any]:
    rates = scores.get("pass_rates") or {f"average@{scores['samples']}": scores["average"]}
    return {
        name: {key: rate[key] for key in ("value", "low", "high")} for name, rate in rates.items()
    }
