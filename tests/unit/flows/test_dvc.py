import asyncio
import subprocess
import sys

import pytest
from prefect.context import TaskRunContext
from prefect.states import Failed

from flows import dvc as module
from flows.deployed import reproduce
from flows.dvc import StageError, heals
from flows.failure import Failure


def failure(*errors, code=255, found=None):
    called = subprocess.CalledProcessError(code, [sys.executable])
    return module._failure("train", found, [f"ERROR: {line}" for line in errors], called)


@pytest.mark.parametrize(
    ("errors", "code", "wanted"),
    [
        (["failed to reproduce 'train': failed to run: python -m flows train, exited with -9"],
         255, True),
        (["failed to reproduce 'train': failed to run: python -m flows train, exited with 1"],
         255, False),
        (["'data/prepared' is busy, it is being blocked by:"], 255, True),
        (["Unable to acquire lock. Most likely another DVC process is running"], 255, True),
        (["failed to push data to the cloud - 3 files failed to upload"], 255, True),
        (["bad DVC file name"], 255, False),
        ([], -9, True),
        ([], 1, False),
    ],
)  # fmt: skip
def test_only_what_another_attempt_can_heal_is_tried_again(errors, code, wanted):
    assert failure(*errors, code=code).heals is wanted


def test_what_a_stage_found_wrong_itself_is_its_cause_and_stays_wrong():
    found = Failure(stage="train", code=2, message="train.steps must be >= 1, got 0")
    error = failure("failed to reproduce 'train'", code=-9, found=found)
    assert str(error) == "train failed: train.steps must be >= 1, got 0"
    assert (error.code, error.heals) == (2, False)


def test_prefect_asks_for_another_attempt_only_where_it_heals():
    def asked(error):
        # from inside the run of a task that is not async
        with TaskRunContext.model_construct(task=reproduce):
            return asyncio.run(heals(None, None, Failed(data=error)))

    assert asked(StageError("killed", heals=True))
    assert not asked(StageError("bad input"))
    assert not asked(ValueError("bad input"))
