"""The train stage with backend verl: the same experiment, the same outputs, evaluated alike."""

import json

import pytest

from gmts.models.identity import weights_sha256
from gmts.stages.evaluate import evaluate
from gmts.stages.prepare import prepare
from gmts.stages.train import train
from gmts.stages.warmstart import warmstart
from gmts.stages.workspace import Workspace
from gmts.trainers.watch.tracking import read_metrics
from tests.support.sections import small_verl_params

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

STEPS = 2


def test_the_small_experiment_trains_with_verl_and_its_models_are_evaluated(tmp_path):
    settings = small_verl_params(train__steps=STEPS, verl__ranks_per_node=2)
    workspace, seen = Workspace(tmp_path), []
    prepare(settings, workspace)
    warmstart(settings, workspace)
    result = train(settings, workspace, lambda step, total, text: seen.append((step, total)))
    assert result.values["resumed_from_step"] == 0
    assert seen == [(0, STEPS), *((step, STEPS) for step in range(1, STEPS + 1))]
    summary = json.loads((workspace.train_dir / "summary.json").read_text())
    assert (summary["steps"], summary["optimizer_steps"]) == (STEPS, 2 * STEPS)
    records = read_metrics(workspace.train_dir / "metrics.jsonl")
    assert [record["step"] for record in records] == list(range(STEPS + 1))
    accuracy = {record["step"]: record["validation/accuracy"] for record in records}
    best = max(accuracy, key=lambda step: (accuracy[step], -step))
    assert summary["best"] == {"step": best, "validation_accuracy": accuracy[best]}
    assert summary["last"]["validation_accuracy"] == accuracy[STEPS]
    initial, last, chosen = map(
        weights_sha256, (workspace.initial_dir, workspace.last_dir, workspace.best_dir)
    )
    assert last != initial
    assert (chosen == initial) == (best == 0)
    assert (chosen == last) == (best == STEPS)
    score = evaluate(settings, workspace, "last")
    assert score.values["sampled"] == 2 * 6
