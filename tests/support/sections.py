"""Parameters for tests: the committed ones with changes, by dotted keys with __ for dots."""

from pathlib import Path

from gmts.config import Params, parse_params
from gmts.config.load import read_yaml

ROOT = Path(__file__).parents[2]


def params(**changes) -> Params:
    """Return the committed experiment with changes."""
    tree = read_yaml(ROOT / "params.yaml")
    for key, value in changes.items():
        *sections, name = key.split("__")
        here = tree
        for section in sections:
            here = here[section]
        assert name in here, key
        here[name] = value
    return parse_params(tree)


def small_params(**changes) -> Params:
    """Return an experiment whose stages take a second."""
    small = {
        "data__train_rows": 40,
        "data__validation_rows": 5,
        "data__test_rows": 6,
        "warmstart__hidden_size": 16,
        "warmstart__intermediate_size": 24,
        "warmstart__num_layers": 1,
        "warmstart__batch_size": 8,
        "warmstart__clean_steps": 5,
        "warmstart__noisy_steps": 3,
        "evaluate__samples": 4,
        "evaluate__pass_at": [1, 2, 4],
        "evaluate__max_response_tokens": 10,
        "evaluate__batch_size": 8,
        "evaluate__bootstrap_samples": 200,
    }
    return params(**(small | changes))


def small_verl_params(**changes) -> Params:
    """Return an experiment of a few small steps with the verl backend."""
    small = {
        "rewards__scorer": "custom",
        "rewards__custom": "tests.support.rewards:even_length",
        "rollout__group_size": 4,
        "rollout__max_response_tokens": 12,
        "train__backend": "verl",
        "train__questions_per_batch": 4,
        "train__questions_per_mini_batch": 2,
        "train__validation_every": 1,
        "train__validation_samples": 2,
        "train__checkpoint_every": 1,
        "train__optimizer__warmup_steps": 0,
        "evaluate__samples": 2,
        "evaluate__pass_at": [1],
    }
    return small_params(**(small | changes))
