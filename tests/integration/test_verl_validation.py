"""verl's own validation, in a process of its own as callers run it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gmts.trainers.verl.config import Experiment
from gmts.trainers.verl.mapping import Places, hydra_overrides
from tests.support.sections import params

PLACES = Places(
    run_name="run",
    model=Path("/model"),
    train_file=Path("/train.parquet"),
    validation_file=Path("/validation.parquet"),
)


def validated(repository, overrides):
    return subprocess.run(
        [sys.executable, "-m", "gmts.trainers.verl.validation"],
        cwd=repository,
        input=json.dumps(overrides),
        capture_output=True,
        text=True,
        check=False,
    )


def overrides(**changes):
    changes = {"train__backend": "verl"} | changes
    return list(hydra_overrides(Experiment.of(params(**changes), 64), PLACES))


@pytest.mark.slow
def test_verl_accepts_what_the_mapping_makes_with_and_without_a_reference(repository):
    for algorithm, beta in (("grpo", 0.001), ("dr_grpo", 0.0)):
        made = overrides(objective__algorithm=algorithm, objective__beta=beta)
        done = validated(repository, made)
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_what_verl_refuses_ends_with_code_2_and_its_words(repository):
    made = overrides(verl__overrides={"+actor_rollout_ref.actor.fsdp_config.nonsense": 1})
    done = validated(repository, made)
    assert done.returncode == 2
    assert "verl refuses the experiment, in its own words: " in done.stderr
    assert "unexpected keyword argument 'nonsense'" in done.stderr
    assert "Traceback" not in done.stderr
