"""verl with vLLM on a CPU, in an environment of its own: `make test-vllm`."""

import json
import os

import pytest

from gmts.models.identity import weights_sha256
from gmts.stages.evaluate import evaluate
from gmts.stages.prepare import prepare
from gmts.stages.train import train
from gmts.stages.warmstart import warmstart
from gmts.stages.workspace import Workspace
from gmts.trainers.watch.tracking import read_metrics
from tests.support.sections import small_verl_params

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]

STEPS = 3
SHOWN = ("step", "time/step", "time/rollout", "rollout/probability_gap_max")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    settings = small_verl_params(
        warmstart__hidden_size=64,
        warmstart__num_heads=2,  # vLLM's attention wants 32 or more per head
        warmstart__num_key_value_heads=1,
        train__steps=STEPS,
        verl__rollout_engine="vllm",
        runtime__train_python=os.environ["GMTS_TRAIN_PYTHON"],
    )
    workspace = Workspace(tmp_path_factory.mktemp("vllm"))
    prepare(settings, workspace)
    warmstart(settings, workspace)
    train(settings, workspace)
    return settings, workspace


def test_the_policy_that_vllm_samples_from_is_the_one_that_is_trained(trained):
    records = read_metrics(trained[1].train_dir / "metrics.jsonl")
    assert [record["step"] for record in records] == list(range(STEPS + 1))
    for record in records[1:]:
        print({name: record[name] for name in SHOWN})
        # After an update too: each step's weights have reached vLLM.
        assert record["rollout/probability_gap_max"] < 1e-3
        assert record["train/grad_norm"] > 0


def test_vllm_sampled(trained):
    log = next(trained[1].work_dir.glob("train/*/verl.log")).read_text(errors="replace")
    assert "gmts.trainers.verl.platform.vllm.worker.CPUWorkerExtension" in log
    assert "vLLM" in log


def test_the_trained_model_is_another_and_is_evaluated(trained):
    settings, workspace = trained
    assert weights_sha256(workspace.last_dir) != weights_sha256(workspace.initial_dir)
    summary = json.loads((workspace.train_dir / "summary.json").read_text())
    assert summary["optimizer_steps"] == 2 * STEPS
    assert evaluate(settings, workspace, "last").values["sampled"] == 2 * 6
