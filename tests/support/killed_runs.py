"""Runs the train stage again and again, killing it with SIGKILL; leaves the results in a folder.

One process pays for importing torch; every run is a fork of it. Used by test_train_resume.py as
`python -m tests.support.killed_runs FOLDER`.
"""

import functools
import os
import random
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tqdm import tqdm

import gmts.files
from gmts.rollout.sampler import Sampler
from gmts.stages.train import train
from gmts.stages.training import outputs
from gmts.stages.workspace import Workspace
from gmts.trainers.standalone import checkpoint
from gmts.trainers.watch import tracking
from tests.support.tiny_run import tiny_params, tiny_workspace

PARAMS = {
    "train__dynamic_sampling__enabled": True,  # so that there are carried groups
    "train__checkpoint_every": 2,
    "train__checkpoints_kept": 1,
    "objective__beta": 0.01,
}


def die(*args: object, **kwargs: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def on_call(number: int, function: Callable, instead: Callable = die) -> Callable:
    """Return `function` with call `number` (from 1) replaced by `instead`."""
    calls = 0

    @functools.wraps(function)
    def counted(*args, **kwargs):
        nonlocal calls
        calls += 1
        return (instead if calls == number else function)(*args, **kwargs)

    return counted


def before_the_first_checkpoint() -> None:
    Sampler.sample = on_call(2, Sampler.sample)


def with_weights_written_but_not_the_state() -> None:
    checkpoint.torch.save = on_call(2, checkpoint.torch.save)


def with_half_a_weights_file() -> None:
    def half(tensors, path):
        original(tensors, path)
        content = Path(path).read_bytes()
        Path(path).write_bytes(content[: len(content) // 2])
        die()

    original = checkpoint.save_file
    checkpoint.save_file = on_call(3, original, half)


def with_a_complete_folder_not_yet_in_place() -> None:
    def replace(source, target):
        if Path(target).name == "step-000004":
            die()
        original(source, target)

    original = os.replace
    gmts.files.os.replace = replace


def with_the_new_checkpoint_in_place_and_the_old_not_deleted() -> None:
    checkpoint.CheckpointStore._delete = on_call(1, checkpoint.CheckpointStore._delete)


def with_the_old_checkpoint_half_deleted() -> None:
    def half(path):
        (Path(path) / "checkpoint.json").unlink()
        die()

    checkpoint.shutil.rmtree = on_call(1, shutil.rmtree, half)


def within_a_line_of_metrics() -> None:
    def half(log, step, metrics):
        log._file.write(b'{"step": 5, "rew')
        log._file.flush()
        die()

    tracking.RunLog.log = on_call(6, tracking.RunLog.log, half)


def between_the_exports_of_last_and_best() -> None:
    outputs.save_model = on_call(2, outputs.save_model)


POINTS = [
    before_the_first_checkpoint,
    with_weights_written_but_not_the_state,
    with_half_a_weights_file,
    with_a_complete_folder_not_yet_in_place,
    with_the_new_checkpoint_in_place_and_the_old_not_deleted,
    with_the_old_checkpoint_half_deleted,
    within_a_line_of_metrics,
    between_the_exports_of_last_and_best,
]
RANDOM = ["at_random_moment_1", "at_random_moment_2", "at_random_moment_3"]


def without_outputs(workspace: Workspace) -> Workspace:
    """Delete the stage's outputs, as DVC does before it runs a stage again."""
    for folder in (workspace.last_dir, workspace.best_dir, workspace.train_dir):
        shutil.rmtree(folder, ignore_errors=True)
    return workspace


def started(workspace: Workspace, hook: Callable[[], None] | None = None) -> int:
    """Fork a run of the stage; return its process id."""
    child = os.fork()
    if child:
        return child
    code = 1
    # Its default lock is shared with the parent: a fork killed while it draws a bar would keep it.
    tqdm.set_lock(threading.RLock())
    try:
        if hook is not None:
            hook()
        train(tiny_params(**PARAMS), workspace)
        code = 0
    finally:
        os._exit(code)


def ended(child: int) -> int:
    """Return the exit code of a child; minus the signal if it was killed."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_at_random(workspace: Workspace, generator: random.Random, seconds: float) -> int:
    child = started(workspace)
    moment = generator.uniform(0.2, 0.9) * seconds
    sys.stderr.write(f"{workspace.root.name}: killed after {moment:.3f} s\n")
    time.sleep(moment)
    os.kill(child, signal.SIGKILL)
    return ended(child)


def main(folder: Path) -> None:
    base = tiny_workspace(folder / "base")

    def fresh(name: str) -> Workspace:
        shutil.copytree(base.root, folder / name)
        return Workspace(folder / name)

    train(tiny_params(**PARAMS), fresh("warm"))  # imports what every fork needs
    start = time.monotonic()
    assert ended(started(fresh("uninterrupted"))) == 0
    seconds = time.monotonic() - start
    for point in POINTS:
        workspace = fresh(point.__name__)
        assert ended(started(workspace, point)) == -signal.SIGKILL, point.__name__
        assert ended(started(without_outputs(workspace))) == 0, point.__name__
    generator = random.Random(int(time.time()))
    for name in RANDOM:
        workspace = fresh(name)
        killed_at_random(workspace, generator, seconds)
        killed_at_random(workspace, generator, seconds)
        assert ended(started(without_outputs(workspace))) == 0, name


if __name__ == "__main__":
    main(Path(sys.argv[1]))
