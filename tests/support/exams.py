"""Benchmarks in a tiny workspace: files, parameters, and an own scorer that can be repaired."""

import json
from pathlib import Path
from types import SimpleNamespace

from gmts.evaluation.config import BenchmarkConfig
from gmts.evaluation.results import read_results
from gmts.models.build_tokenizer import build_tokenizer
from gmts.stages.benchmark import benchmark
from gmts.stages.workspace import Workspace
from gmts.trainers.warmstart.model import build_model
from tests.support.tiny_run import put_initial, tiny_params

FIXED = SimpleNamespace(done=False)
"""Whether `fixable` has been repaired."""


def fixable(response: str, ground_truth: str, meta: dict) -> float:
    """Return 1.0 for a response with an `a`; before the repair only for one that begins with it."""
    return float("a" in response if FIXED.done else response.startswith("a"))


def own_file(folder: Path, count: int) -> str:
    """Write an AMC23 file of `count` questions and return its name."""
    rows = [{"problem": f"What is {i}?", "answer": float(i)} for i in range(count)]
    (folder / "amc.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return "amc.jsonl"


def entry(path: str, **changes) -> dict:
    """Return an entry of `benchmarks`."""
    names = ("path", "repo", "revision", "files", "rows", "sha256", "custom")
    own = {"path": path, "greedy": False, "custom": "tests.support.exams:fixable"}
    return dict.fromkeys(names) | own | changes


def file_config(path: str) -> BenchmarkConfig:
    """Return the configuration of a benchmark in a local file, everything else left open."""
    return BenchmarkConfig(**entry(path, custom=None, greedy=None))


def write_rows(path: Path, rows: list[dict]) -> None:
    """Write rows as JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def exam_params(benchmarks: dict, **changes):
    """Return parameters of a tiny evaluation on `benchmarks`."""
    settings = {
        "evaluate__samples": 4,
        "evaluate__pass_at": [1, 4],
        "evaluate__max_response_tokens": 6,
        "evaluate__batch_size": 8,
        "evaluate__bootstrap_samples": 200,
    }
    return tiny_params(benchmarks=benchmarks, **(settings | changes))


def text_workspace(root: Path, texts: list[str]) -> Workspace:
    """Write a random model of the smoke preset's size whose tokenizer knows `texts`."""
    tokenizer, workspace = build_tokenizer(texts, 512), Workspace(root)
    put_initial(workspace, build_model(tiny_params().warmstart, tokenizer, 0), tokenizer)
    return workspace


def asked_of_a_random_model(root: Path, name: str, texts: list[str], *, limit: int):
    """Score a random model on the first questions of rows.jsonl; return result, scores, questions.

    Each response has up to 32 tokens; how many there are is the benchmark's own choice.
    """
    workspace = text_workspace(root, texts)
    params = exam_params(
        {name: entry("rows.jsonl", greedy=None, custom=None)},
        evaluate__max_response_tokens=32,
        evaluate__question_limit=limit,
    )
    result = benchmark(params, workspace, name, "initial")
    return result, *read_results(workspace.benchmarks_dir / name / "initial")
