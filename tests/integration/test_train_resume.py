import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.killed_runs import POINTS, RANDOM

ROOT = Path(__file__).parents[2]
NAMES = [point.__name__ for point in POINTS] + RANDOM


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("killed")
    command = [sys.executable, "-m", "tests.support.killed_runs", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def _untimed(folder):
    lines = (folder / "reports" / "train" / "metrics.jsonl").read_text().splitlines()
    return [
        {k: v for k, v in json.loads(line).items() if not k.startswith(("time/", "memory/"))}
        for line in lines
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_and_resumed_run_equals_an_uninterrupted_one(runs, name):
    whole, resumed = runs / "uninterrupted", runs / name
    for model in ("last", "best"):
        file = Path("models") / model / "model.safetensors"
        assert (resumed / file).read_bytes() == (whole / file).read_bytes()
        card = Path("models") / model / "gmts.json"
        assert (resumed / card).read_bytes() == (whole / card).read_bytes()
    assert _untimed(resumed) == _untimed(whole)
    summary = Path("reports") / "train" / "summary.json"
    assert (resumed / summary).read_bytes() == (whole / summary).read_bytes()
    dumps = sorted((whole / "reports" / "train" / "rollouts").iterdir())
    assert len(dumps) == 2
    for dump in dumps:
        again = resumed / "reports" / "train" / "rollouts" / dump.name
        assert again.read_bytes() == dump.read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_nothing_half_written_is_left(runs, name):
    assert list((runs / name / "work").rglob(".*")) == []
    checkpoints = [p.name for p in (runs / name / "work" / "train").glob("*/checkpoints/*")]
    assert checkpoints == ["step-000006"]


def test_the_uninterrupted_run_moved_the_weights_and_recorded_every_step(runs):
    whole = runs / "uninterrupted"
    before = (whole / "models" / "initial" / "model.safetensors").read_bytes()
    assert (whole / "models" / "last" / "model.safetensors").read_bytes() != before
    assert [record["step"] for record in _untimed(whole)] == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("before_the_first_checkpoint", 0),
        ("with_weights_written_but_not_the_state", 2),
        ("with_half_a_weights_file", 2),
        ("with_a_complete_folder_not_yet_in_place", 2),
        ("with_the_new_checkpoint_in_place_and_the_old_not_deleted", 4),
        ("with_the_old_checkpoint_half_deleted", 4),
        ("within_a_line_of_metrics", 4),
        ("between_the_exports_of_last_and_best", 6),
    ],
)
def test_a_killed_run_goes_on_from_its_newest_complete_checkpoint(runs, name, step):
    result = json.loads((runs / name / "reports" / "stages" / "train.json").read_text())
    assert result["values"]["resumed_from_step"] == step
