"""Both trainers learn the committed task alike, over three seeds."""

import json
from statistics import mean

import pytest

from gmts.stages.evaluate import evaluate
from gmts.stages.prepare import prepare
from gmts.stages.train import train
from gmts.stages.warmstart import warmstart
from gmts.stages.workspace import Workspace
from tests.support.sections import params

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]

SEEDS = (0, 1, 2)
STEPS = 16
SHORT = {
    "train__steps": STEPS,
    "train__validation_every": STEPS,
    "train__checkpoint_every": STEPS,
    "train__dump_every": 0,
    "evaluate__samples": 8,
    "evaluate__pass_at": [1],
}
WANTED_POINTS = 4.0
NOISE_POINTS = 5.0
"""Of the mean over seeds; docs/verl.md has the gains."""


def average(workspace, model):
    return (
        100
        * json.loads((workspace.evaluation_dir(model) / "scores.json").read_text())["average"][
            "value"
        ]
    )


@pytest.fixture(scope="module")
def gains(tmp_path_factory):
    """Points gained on the held-out questions, by backend, in the order of SEEDS."""
    found = {"standalone": [], "verl": []}
    for seed in SEEDS:
        workspace = Workspace(tmp_path_factory.mktemp(f"seed-{seed}"))
        first = params(seed=seed, **SHORT)
        prepare(first, workspace)
        warmstart(first, workspace)
        evaluate(first, workspace, "initial")
        before = average(workspace, "initial")
        for backend, gained in found.items():
            experiment = params(seed=seed, train__backend=backend, **SHORT)
            train(experiment, workspace)
            evaluate(experiment, workspace, "last")
            gained.append(average(workspace, "last") - before)
            print(f"seed {seed}, {backend}: {before:.1f} {gained[-1]:+.1f}")
    return found


def test_each_backend_learns_on_each_seed(gains):
    assert min(gains["standalone"] + gains["verl"]) >= WANTED_POINTS


def test_the_backends_gain_the_same_within_noise(gains):
    differences = [a - b for a, b in zip(gains["standalone"], gains["verl"], strict=True)]
    assert abs(mean(differences)) <= NOISE_POINTS
