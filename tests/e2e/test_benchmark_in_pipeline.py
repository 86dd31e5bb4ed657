"""A benchmark in params.yaml becomes a stage of DVC, and its results can be judged again."""

import json
import re

import pytest

from tests.support.clones import TINY, gmts, make_clone, run
from tests.support.exams import entry, own_file

pytestmark = pytest.mark.slow

OWN = "def score(response, ground_truth, meta):\n    return {body}\n"


def stages_run(output):
    return re.findall(r"Running stage '([\w@]+)'", output)


def test_a_benchmark_is_a_stage_of_its_own_and_is_rescored_after_a_repair(repository, tmp_path):
    clone = make_clone(repository, tmp_path)
    own_file(clone, 3)
    (clone / "own.py").write_text(OWN.format(body="False"))
    chosen = json.dumps(entry("amc.jsonl", custom="own:score"))
    named = ("--preset", "smoke", *TINY, f"benchmarks.amc23={chosen}")
    assert stages_run(gmts(clone, "evaluate", *named).stdout) == [
        "prepare", "warmstart", "train", "evaluate", "benchmark@amc23",
    ]  # fmt: skip
    assert "Everything is up to date." in gmts(clone, "evaluate").stdout
    own_file(clone, 4)
    output = gmts(clone, "evaluate").stdout
    assert "amc.jsonl has changed since it was read." in output
    assert stages_run(output) == ["benchmark@amc23"]
    scores = json.loads((clone / "reports/benchmarks/amc23/last/scores.json").read_text())
    assert (scores["questions"], scores["average"]["value"]) == (4, 0)
    output = gmts(clone, "run").stdout
    assert stages_run(output) == ["report", "publish"]
    assert "amc23 average@4:   0.0%" in output
    shown = [
        (clone / "reports/report/index.html").read_text(),
        next((clone / "published").glob("*/README.md")).read_text(),
        (clone / "reports/summary.json").read_text(),
    ]
    assert all("amc23" in text and "average@4" in text for text in shown)
    (clone / "own.py").write_text(OWN.format(body="True"))
    output = gmts(clone, "rescore", "reports/benchmarks/amc23/last").stdout
    assert re.search(r"average@4 +0\.00% +100\.00%", output)
    assert "16 responses are right now, 0 are wrong now" in output
    assert (clone / "reports/rescored/benchmarks/amc23/last/changes.json").is_file()
    assert run(["dvc", "status", "benchmark"], clone).stdout.strip().endswith("up to date.")
    git = run(["git", "status", "--porcelain"], clone).stdout.split("\n")
    assert sorted(filter(None, git)) == [
        " M params.yaml", "?? amc.jsonl", "?? dvc.lock", "?? own.py",
    ]  # fmt: skip
