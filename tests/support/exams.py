"""Benchmarks in a tiny workspace: files, parameters, and an own scorer that can be repaired."""

import json
from pathlib import Path
from types import SimpleNamespace

from gmts.files import new_folder
from gmts.models.build_tokenizer import build_tokenizer
from gmts.models.folder import load_tokenizer, save_model
from gmts.models.identity import settings_sha256
from gmts.models.initial import InitialModel, write_initial
from gmts.models.template import PromptTemplate
from gmts.stages.workspace import Workspace
from gmts.trainers.warmstart.model import build_model
from tests.support.tiny_run import tiny_params

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
    tokenizer = build_tokenizer(texts, 512)
    template = PromptTemplate.of(tokenizer, "tokenizer")
    workspace = Workspace(root)
    with new_folder(workspace.initial_dir) as folder:
        model = build_model(tiny_params().warmstart, tokenizer, 0)
        weights = save_model(folder, model, tokenizer, template, {"step": 0})
        template = PromptTemplate.of(load_tokenizer(folder), "tokenizer")
        write_initial(
            folder,
            InitialModel(
                path=Path(),
                weights_sha256=weights,
                settings_sha256=settings_sha256(folder),
                template_kind="tokenizer",
                template_sha256=template.sha256,
                built=True,
            ),
        )
    return workspace
