"""What the README claims: three seeds learn, two controls do not. Minutes, so `make test-slow`."""

import json
import shutil

import pyarrow.parquet as parquet
import pytest

from gmts.config import parse_params
from gmts.config.load import read_yaml
from gmts.stages.evaluate import evaluate
from gmts.stages.prepare import prepare
from gmts.stages.train import train
from gmts.stages.warmstart import warmstart
from gmts.stages.workspace import Workspace

pytestmark = pytest.mark.slow

WANTED_POINTS = 30.0
TOLERATED_POINTS = 8.0


def params(repository, **changes):
    tree = read_yaml(repository / "params.yaml")
    for key, value in changes.items():
        *sections, name = key.split("__")
        here = tree
        for section in sections:
            here = here[section]
        here[name] = value
    return parse_params(tree)


@pytest.fixture(scope="module")
def workspaces(repository, tmp_path_factory):
    """Workspaces by seed, with prepared data and a warm-started model; scores before training."""
    found = {}
    folder = tmp_path_factory.mktemp("learning")
    for seed in (0, 1, 2):
        workspace = Workspace(folder / str(seed))
        experiment = params(repository, seed=seed)
        prepare(experiment, workspace)
        warmstart(experiment, workspace)
        evaluate(experiment, workspace, "initial")
        found[seed] = workspace
    return found


def average(workspace, model):
    path = workspace.evaluation_dir(model) / "scores.json"
    scores = json.loads(path.read_text())
    assert scores["questions"] >= 200
    assert scores["samples"] == 16
    return 100 * scores["average"]["value"]


def gain(repository, workspace, *, seed, **changes):
    """Train with `changes`, score with the true rewards, and return the gain in points."""
    train(params(repository, seed=seed, **changes), workspace)
    evaluate(params(repository, seed=seed), workspace, "last")
    before, after = average(workspace, "initial"), average(workspace, "last")
    print(f"seed {seed} {changes or 'gmts'}: {before:.1f} -> {after:.1f} ({after - before:+.1f})")
    for folder in (workspace.last_dir, workspace.best_dir, workspace.train_dir):
        shutil.rmtree(folder)
    return after - before


def test_no_test_question_reached_warm_start_or_training(workspaces):
    for workspace in workspaces.values():
        questions = {
            split: {
                " ".join(message["content"] for message in row).split("problem:")[-1].strip()
                for row in parquet.read_table(workspace.prepared_dir / f"{split}.parquet")
                .column("messages")
                .to_pylist()
            }
            for split in ("train", "validation", "test")
        }
        assert len(questions["test"]) == 200
        assert not questions["test"] & (questions["train"] | questions["validation"])


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_reinforcement_learning_lifts_the_held_out_score(repository, workspaces, seed):
    assert gain(repository, workspaces[seed], seed=seed) >= WANTED_POINTS


def test_shuffled_rewards_teach_nothing(repository, workspaces):
    changes = {"rewards__scorer": "custom", "rewards__custom": "tests.support.rewards:shuffled"}
    assert gain(repository, workspaces[0], seed=0, **changes) <= TOLERATED_POINTS


def test_the_tokens_of_lowest_entropy_teach_nothing(repository, workspaces):
    changes = {"selection__score": "ets", "selection__side": "bottom"}
    assert gain(repository, workspaces[0], seed=0, **changes) <= TOLERATED_POINTS
