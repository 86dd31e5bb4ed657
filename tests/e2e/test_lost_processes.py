"""Cancel and SIGKILL at every level: nothing is left, no run stays Running, work resumes."""

import signal

import pytest
from safetensors.torch import load_file

from tests.support.clones import TINY
from tests.support.prefect_server import wait_for

pytestmark = pytest.mark.slow

ENDLESS = ["train.steps=1000000", "train.validation_every=1000000", "train.checkpoint_every=5"]


def retry(place, run):
    """Do what the Retry button of a run's page does."""
    state = {"type": "SCHEDULED", "name": "AwaitingRetry"}
    place.server.post(f"flow_runs/{run}/set_state", state=state, force=True)


def nothing_left(place, seconds):
    wait_for(lambda: not place.at_work(), seconds, f"no process left of {place.at_work()}")


def crashed(place, run):
    """Wait until nothing is left of a run that has lost a process, and until the server knows."""
    nothing_left(place, 60)
    state = place.server.ended(run, 60)
    assert state["type"] == "CRASHED", state
    unfinished = ("RUNNING", "PENDING", "CANCELLING")
    wait_for(lambda: not place.server.runs(*unfinished), 60, "no run that still seems to go on")


@pytest.fixture(scope="module")
def training(place):
    """A run that trains for as long as it is let, and has written a checkpoint."""
    overrides = [*TINY, *ENDLESS]
    run = place.server.submit("stage/train", preset="smoke", overrides=overrides)
    place.trained_on()
    return run


def test_no_process_of_a_run_outlives_the_one_that_is_killed(place, training):
    for victim in ("flows.engine", "-m flows.worker gpu"):
        place.victim(victim).send_signal(signal.SIGKILL)
        crashed(place, training)
        # and the same run goes on from its newest checkpoint when it is tried again
        reached, resumed = place.steps(), len(place.resumed())
        retry(place, training)
        place.trained_on()
        assert len(place.resumed()) == resumed + 1
        assert place.resumed()[-1] >= reached - 5

    # DVC: the stage below it ends, and the task tries again by itself.
    resumed = len(place.resumed())
    stage = place.victim("-m flows train")
    place.victim("dvc repro").send_signal(signal.SIGKILL)
    wait_for(lambda: not stage.is_running(), 60, "the end of the stage below DVC")
    place.trained_on()
    assert len(place.resumed()) == resumed + 1
    assert place.server.state(training)["type"] == "RUNNING"

    # The server: training goes on without it, and its run is there when it comes back.
    place.server.kill()
    place.trained_on()
    place.server.start()
    place.trained_on()
    assert place.server.state(training)["type"] == "RUNNING"


def test_c27_a_cancelled_run_leaves_nothing_within_30_seconds_but_a_valid_checkpoint(
    place, training
):
    assert place.at_work()
    place.server.cancel(training)
    nothing_left(place, 30)
    assert place.server.ended(training, 30)["type"] == "CANCELLED"
    unfinished = ("RUNNING", "PENDING", "CANCELLING")
    wait_for(lambda: not place.server.runs(*unfinished), 60, "no run that still seems to go on")
    newest = max((place.clone / "work" / "train").glob("*/checkpoints/step-*"))
    assert load_file(newest / "policy.safetensors")

    reached, resumed = place.steps(), len(place.resumed())
    again = place.server.submit("stage/train")
    place.trained_on()
    assert place.resumed()[resumed:] == [reached]
    place.server.cancel(again)
    nothing_left(place, 30)
    assert place.server.ended(again, 30)["type"] == "CANCELLED"
