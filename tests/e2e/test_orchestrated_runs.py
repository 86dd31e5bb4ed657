"""A server with all its services, `gmts deploy` and one worker: the page of a run, and its ends."""

import json
import re
import subprocess
import time
import uuid
from datetime import UTC, datetime

import pytest

from tests.support.browser import browser
from tests.support.clones import TINY, environment, make_clone
from tests.support.prefect_server import wait_for

pytestmark = pytest.mark.slow

STAGES = ["prepare", "warmstart", "train", "evaluate", "report", "publish"]


@pytest.fixture(scope="module")
def silent_runs(place):
    """Runs of machines that are gone: one has sent a sign of life, one was about to start."""
    flow = place.server.post("flows/", name="elsewhere")

    def made(state):
        return place.server.post("flow_runs/", flow_id=flow["id"], state={"type": state})["id"]

    running, pending = made("RUNNING"), made("PENDING")
    # The server may hear of the state after it has heard the first heartbeat.
    for event in ("heartbeat", "Running"):
        told = {
            "event": f"prefect.flow-run.{event}",
            "occurred": datetime.now(UTC).isoformat(),
            "resource": {"prefect.resource.id": f"prefect.flow-run.{running}"},
            "id": str(uuid.uuid4()),
        }
        place.server.ask("POST", "events", json=[told])
    return running, pending


@pytest.fixture(scope="module")
def finished(place, silent_runs):
    """A run of the whole pipeline that the form was filled in for."""
    run = place.server.submit("pipeline/pipeline", preset="smoke", overrides=list(TINY), seed=3)
    state = place.server.ended(run, 420)
    assert state["name"] == "Completed", state["message"]
    return run


def test_the_form_offers_the_presets_and_stages(place):
    fields = place.server.deployment("pipeline/pipeline")["parameter_openapi_schema"]["properties"]
    assert set(fields) == {"preset", "overrides", "seed", "target"}
    presets = {"params.yaml", "smoke", "paper", "released", "smollm2"}
    assert presets <= set(fields["preset"]["enum"])
    assert fields["preset"]["type"] == "string"  # a list to choose from
    assert fields["target"]["enum"] == STAGES
    assert all(field["description"] for field in fields.values())


def test_deploying_again_changes_nothing_and_leaves_the_switches_of_schedules_alone(
    place, silent_runs
):
    def found():
        pipeline = place.server.deployment("pipeline/pipeline")
        return (
            {schedule["slug"]: schedule["active"] for schedule in pipeline["schedules"]},
            pipeline["id"],
            len(place.server.post("deployments/filter")),
            sorted(pool["name"] for pool in place.server.post("work_pools/filter")),
            {found["name"]: found["id"] for found in place.server.post("automations/filter")},
        )

    before = found()
    assert before[0] == {"nightly-smoke": False, "weekly-full": False}
    assert before[2:4] == (7, ["cpu", "gpu"])
    assert len(before[4]) == 3
    pipeline = place.server.deployment("pipeline/pipeline")
    [nightly] = [s for s in pipeline["schedules"] if s["slug"] == "nightly-smoke"]
    path = f"deployments/{pipeline['id']}/schedules/{nightly['id']}"
    place.server.ask("PATCH", path, json={"active": True})
    place.server.call(place.clone, "deploy", **place.notify)
    assert found() == ({"nightly-smoke": True, "weekly-full": False}, *before[1:])
    pipeline = place.server.deployment("pipeline/pipeline")
    [nightly] = [s for s in pipeline["schedules"] if s["slug"] == "nightly-smoke"]
    path = f"deployments/{pipeline['id']}/schedules/{nightly['id']}"
    place.server.ask("PATCH", path, json={"active": False})


def test_the_runs_page_shows_scores_plots_links_and_lineage(place, finished, tmp_path):
    server = place.server
    summary = json.loads((place.clone / "reports" / "summary.json").read_text())
    found = server.post("artifacts/filter", flow_runs={"id": {"any_": [finished]}})
    ids = {artifact["key"]: artifact["id"] for artifact in found}
    with browser(tmp_path / "profile") as page:
        page.open(f"{server.address}/runs/flow-run/{finished}", "Completed", "6 Task runs")
        page.click("Artifacts", "scores", "lineage", "report-page", "model", "plot-accuracy")
        page.click("Task Runs", *STAGES)
        artifact = f"{server.address}/artifacts/artifact/"
        text = page.open(artifact + ids["scores"], "average@4", "initial", "last", "best")
        for bound in summary["before"].values():
            assert f"{100 * bound:.1f}".removesuffix(".0") in text
        page.open(artifact + ids["plot-accuracy"], "plot-accuracy")
        wait_for(lambda: page.loaded_images() == 1, 30, "the plot")
        text = page.open(artifact + ids["lineage"], summary["data_hash"], summary["params_hash"])
        assert "seed" in text
        page.open(artifact + ids["report-page"], "report page")
        # the last stages come again from the cache, and say so
        again = server.submit("pipeline/pipeline", target="warmstart")
        assert server.ended(again)["name"] == "Completed"
        page.open(f"{server.address}/runs/flow-run/{again}", "Completed", "2 Task runs")
        page.click("Task Runs", "warmstart")
        # once in the list of states to filter by, and once per task
        wait_for(lambda: page.text().count("Cached") == 3, 30, "two cached tasks")


def test_the_train_runs_page_shows_how_far_it_is(place, finished):
    # The subflow is in a process of its own; its bar ends at the last step.
    bars = place.server.post("artifacts/filter", artifacts={"key": {"any_": ["training"]}})
    [bar] = [bar for bar in bars if " of 4: " in bar["description"]]
    assert bar["data"] == 100.0
    assert re.match(r"step 4 of 4: reward .*, 0:00 left", bar["description"])


def test_a_failed_run_says_why_in_its_first_line_is_not_retried_and_is_told_of(place, finished):
    run = place.server.submit("pipeline/pipeline", overrides=["model.path=/nowhere"])
    state = place.server.ended(run)
    assert state["type"] == "FAILED"
    assert "/nowhere" in state["message"].splitlines()[0]
    tasks = place.server.post("task_runs/filter", flow_runs={"id": {"any_": [run]}})
    assert {task["run_count"] for task in tasks if task["state"]["type"] == "FAILED"} == {1}
    wait_for(lambda: any("/nowhere" in told["text"] for told in place.told), 60, place.told)
    bad = place.server.submit("pipeline/pipeline", overrides=["train.steps=0", "model.path=null"])
    state = place.server.ended(bad)
    assert "train.steps must be" in state["message"].splitlines()[0]


def test_three_submissions_run_one_after_the_other(place, finished):
    place.server.ended(place.server.submit("pipeline/pipeline", overrides=["model.path=null"]))
    runs = [place.server.submit("pipeline/pipeline", target="prepare") for _ in range(3)]
    together, states = [], {}
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        states = {run: place.server.state(run)["type"] for run in runs}
        together.append(sum(state == "RUNNING" for state in states.values()))
        if set(states.values()) == {"COMPLETED"}:
            break
        time.sleep(0.2)
    assert set(states.values()) == {"COMPLETED"}
    assert max(together) == 1


def test_the_servers_own_scheduler_starts_a_run(place, finished):
    pipeline = place.server.deployment("pipeline/pipeline")["id"]
    soon = {
        "schedule": {"interval": 20},
        "active": True,
        "slug": "soon",
        "parameters": {"target": "prepare"},
    }
    [schedule] = place.server.ask("POST", f"deployments/{pipeline}/schedules", json=[soon])

    def started():
        runs = place.server.runs("COMPLETED")
        return [run for run in runs if run["auto_scheduled"] and run["deployment_id"] == pipeline]

    wait_for(started, 120, "a scheduled run")
    path = f"deployments/{pipeline}/schedules/{schedule['id']}"
    place.server.ask("DELETE", path)


def test_three_pipelines_at_once_all_finish(place, finished, tmp_path):
    processes = []
    for number in range(3):
        (tmp_path / str(number)).mkdir()
        clone = make_clone(place.clone, tmp_path / str(number))
        processes.append(
            subprocess.Popen(
                ["python", "-m", "flows", "pipeline", "--until", "prepare"], cwd=clone,
                env=environment(clone) | {"PREFECT_API_URL": f"{place.server.address}/api"},
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True,
            )
        )  # fmt: skip
    for process in processes:
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, output


def test_a_run_whose_machine_is_gone_has_crashed(place, silent_runs):
    for run in silent_runs:
        state = place.server.ended(run, 300)
        assert (state["type"], "sign of life" in state["message"]) == ("CRASHED", True)
