"""Benchmarks in a tiny workspace: files, parameters, and an own scorer that can be repaired."""

import json
from pathlib import Path
from types import SimpleNamespace

from gmts.models.build_tokenizer import build_tokenizer
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
