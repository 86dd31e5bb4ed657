"""Cancel and SIGKILL at every level: nothing is left, no run stays Running, work resumes."""

import signal
import subprocess

import pytest
from safetensors.torch import load_file

from tests.support.clones import TINY
from tests.support.prefect_server import wait_for

pytestmark = pytest.mark.slow

ENDLESS = ["train.steps=1000000", "train.validation_every=1000000", "train.checkpoint_every=5"]
CHILD = ["rewards.scorer=custom", "rewards.custom=tests.support.rewards:with_a_child"]


def retry_button(place, run):
    """Do what the Retry button of a run's page does."""
    state = {"type": "SCHEDULED", "name": "AwaitingRetry"}
    place.server.post(f"flow_runs/{run}/set_state", state=state, force=True)


def retry_command(place, run):
    environment = place.server.environment(place.clone)
    command = ["prefect", "flow-run", "retry", run]
    subprocess.run(command, cwd=place.clone, env=environment, check=True, stdout=subprocess.DEVNULL)


def nothing_left(place, seconds):
    wait_for(lambda: not place.at_work(), seconds, f"no process left of {place.at_work()}")


def nothing_goes_on(place):
    """Wait until no run seems to go on and no slot is taken."""
    unfinished = ("RUNNING", "PENDING", "CANCELLING")
    wait_for(lambda: not place.server.runs(*unfinished), 60, "no run that still seems to go on")
    wait_for(lambda: not slots(place), 60, "no slot that is still taken")


def slots(place):
    return place.server.get("v2/concurrency_limits/gpu-slots")["active_slots"]


def cancel(place, run):
    place.server.cancel(run)
    nothing_left(place, 30)
    assert place.server.ended(run, 60)["type"] == "CANCELLED"
    nothing_goes_on(place)


@pytest.fixture(scope="module")
def training(place):
    """A run that trains for as long as it is let, and has written a checkpoint."""
    overrides = [*TINY, *ENDLESS, *CHILD]
    run = place.server.submit("stage/train", preset="smoke", overrides=overrides)
    place.trained_on()
    return run


@pytest.mark.parametrize(
    ("victim", "retry"),
    [("flows.engine", retry_button), ("-m flows.worker gpu", retry_command)],
    ids=["flow", "worker"],
)
def test_a_run_without_its_process_ends_and_resumes_when_tried_again(
    place, training, victim, retry
):
    assert place.victim("sleep 9999").is_running()
    place.victim(victim).send_signal(signal.SIGKILL)
    nothing_left(place, 60)
    state = place.server.ended(training, 60)
    assert state["type"] == "CRASHED", state
    nothing_goes_on(place)
    reached, resumed = place.steps(), place.resumed()
    retry(place, training)
    place.trained_on()
    assert place.resumed() == [*resumed, reached]


def test_a_stage_without_dvc_ends_and_its_task_tries_again(place, training):
    resumed = place.resumed()
    below = {place.victim("-m flows train"), place.victim("sleep 9999")}
    place.victim("dvc repro").send_signal(signal.SIGKILL)
    wait_for(lambda: not below & {found[0] for found in place.marked()}, 60, "the stage's end")
    reached = place.steps()
    place.trained_on()
    assert place.resumed() == [*resumed, reached]
    assert place.server.state(training)["type"] == "RUNNING"


def test_training_goes_on_without_a_server_and_its_run_is_there_again(place, training):
    resumed = place.resumed()
    place.server.kill()
    place.trained_on()
    place.server.start()
    place.trained_on()
    assert place.resumed() == resumed
    assert place.server.state(training)["type"] == "RUNNING"
    assert slots(place) == 1


def test_c27_a_cancelled_run_leaves_nothing_within_30_seconds_but_a_valid_checkpoint(
    place, training
):
    assert place.victim("sleep 9999").is_running()
    cancel(place, training)
    newest = max((place.clone / "work" / "train").glob("*/checkpoints/step-*"))
    assert load_file(newest / "policy.safetensors")
    reached, resumed = place.steps(), place.resumed()
    again = place.server.submit("stage/train")
    place.trained_on()
    assert place.resumed() == [*resumed, reached]
    cancel(place, again)
