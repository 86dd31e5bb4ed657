"""SIGKILL in the middle of training: no orphan, and the next run resumes to the same end."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.support.clones import TINY, environment, gmts, make_clone, run

pytestmark = pytest.mark.slow

STEPS = 150


@pytest.fixture(scope="module")
def clone(repository, tmp_path_factory):
    clone = make_clone(repository, tmp_path_factory.mktemp("killed"))
    gmts(
        clone,
        "config",
        "use",
        "smoke",
        *TINY,
        f"train.steps={STEPS}",
        "train.validation_every=50",
        "train.checkpoint_every=5",
    )
    return clone


def checkpoints(clone):
    return list((clone / "work" / "train").glob("*/checkpoints/step*"))


def descendants(pid):
    """Return the command line of each process below `pid`."""
    return {child: child.cmdline() for child in psutil.Process(pid).children(recursive=True)}


def wait_for(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def kill_during_training(clone, *command):
    """SIGKILL `command` once a checkpoint is there; return its descendants at that moment."""
    with subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=clone,
        env=environment(clone),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        wait_for(lambda: checkpoints(clone) or process.poll() is not None)
        assert process.poll() is None, "training ended before it could be killed"
        children = descendants(process.pid)
        os.kill(process.pid, signal.SIGKILL)
    return children


def gone(process):
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def metrics(clone):
    lines = (clone / "reports" / "train" / "metrics.jsonl").read_text().splitlines()
    return [
        {k: v for k, v in json.loads(line).items() if not k.startswith(("time/", "memory/"))}
        for line in lines
    ]


def train_stage(clone):
    return json.loads((clone / "reports" / "stages" / "train.json").read_text())["values"]


def test_a_killed_run_leaves_no_orphan_and_the_next_one_resumes_to_the_same_end(clone):
    children = kill_during_training(clone, "gmts.cli", "train")
    names = " ".join(" ".join(child) for child in children.values())
    for part in ("flows.serve", "flows pipeline", "dvc repro", "flows train"):
        assert part in names
    wait_for(lambda: all(map(gone, children)), seconds=30)
    assert not (clone / "models" / "last").exists()
    assert "Nothing to clean" in gmts(clone, "clean", "--yes").stdout
    gmts(clone, "train")
    assert 0 < train_stage(clone)["resumed_from_step"] < STEPS
    resumed = (clone / "models" / "last" / "model.safetensors").read_bytes()
    steps = metrics(clone)
    assert [record["step"] for record in steps] == list(range(STEPS + 1))

    # From the start, without interruption: the same bytes.
    for folder in (clone / "work" / "train").iterdir():
        folder.rename(clone / f"set-aside-{folder.name[:6]}")
    run(["dvc", "repro", "--force", "--single-item", "train"], clone)
    assert train_stage(clone)["resumed_from_step"] == 0
    assert (clone / "models" / "last" / "model.safetensors").read_bytes() == resumed
    assert metrics(clone) == steps

    # A changed parameter is another experiment: it starts at step 0.
    output = gmts(clone, "train", "selection.ratio=0.35").stdout
    assert re.findall(r"Running stage '(\w+)'", output) == ["train"]
    assert train_stage(clone)["resumed_from_step"] == 0
    removable = gmts(clone, "clean").stdout
    assert removable.count("resumable state of another experiment") == 1


def test_c28_a_killed_dvc_repro_resumes_is_cached_and_never_resumes_another_experiment(clone):
    gmts(clone, "config", "set", "selection.ratio=0.45")
    run(["dvc", "repro", "warmstart"], clone)
    before = (clone / "dvc.lock").read_bytes()
    shutil.rmtree(clone / "work" / "train", ignore_errors=True)
    children = kill_during_training(clone, "dvc", "repro", "train")
    assert any("flows train" in " ".join(command) for command in children.values())
    wait_for(lambda: all(map(gone, children)), seconds=30)
    assert (clone / "dvc.lock").read_bytes() == before
    run(["dvc", "repro", "train"], clone)
    assert 0 < train_stage(clone)["resumed_from_step"] < STEPS
    assert "up to date" in run(["dvc", "repro", "train"], clone).stdout
    gmts(clone, "config", "set", "selection.ratio=0.4")
    run(["dvc", "repro", "train"], clone)
    assert train_stage(clone)["resumed_from_step"] == 0
