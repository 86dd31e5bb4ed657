import copy
import subprocess
import sys

import pytest

from gmts.config import ConfigError, load_params, params_hash, parse_params
from gmts.config.checks import ignored_switches
from gmts.config.load import read_yaml


@pytest.fixture
def tree(repository):
    return read_yaml(repository / "params.yaml")


def with_value(tree, key, value):
    changed = copy.deepcopy(tree)
    *sections, name = key.split(".")
    here = changed
    for section in sections:
        here = here[section]
    here[name] = value
    return changed


def test_the_committed_params_are_valid(repository):
    params = load_params(repository / "params.yaml")
    assert params.preset == "smoke"
    assert params.selection.ratio == 0.2


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("selection.ratio", 0, "selection.ratio must be in (0, 1], got 0"),
        ("selection.ratio", 1.2, "selection.ratio must be in (0, 1], got 1.2"),
        ("selection.ratio", "abc", "selection.ratio must be a number, got 'abc'"),
        ("selection.ratio", float("nan"), "selection.ratio must be in (0, 1], got nan"),
        ("selection.ratio", None, "selection.ratio must be a number, got null"),
        ("objective.dual_clip", 0.5, "objective.dual_clip must be > 1 or null, got 0.5"),
        ("train.steps", 1.5, "train.steps must be a whole number, got 1.5"),
        ("train.steps", True, "train.steps must be a whole number, got true"),
        ("train.optimizer", 3, "train.optimizer must be a mapping of keys to values, got 3"),
        ("tracking.wandb", "yes", "tracking.wandb must be true or false, got 'yes'"),
        ("evaluate.pass_at", [1, "a"], "evaluate.pass_at must be a whole number, got 'a'"),
        ("evaluate.pass_at", [1, 32], "evaluate.pass_at must lie in [1, evaluate.samples = 16]"),
        ("rollout.top_p", 0.9, "rollout.top_p must be 1, got 0.9"),
        ("rollout.group_size", 1, "rollout.group_size must be >= 2, got 1"),
        ("train.questions_per_mini_batch", 5, "must divide train.questions_per_batch (16), got 5"),
        ("warmstart.num_heads", 3, "warmstart.num_heads must divide warmstart.hidden_size (64)"),
        ("name", "../models", "name must be letters, digits, '.', '_' and '-'"),
        ("name", "a/b", "name must be letters"),
        ("data.custom", "no_colon", "data.custom must be `module:function`, got 'no_colon'"),
        ("selection.score", "custom", "selection.custom must be `module:function`, got null"),
        ("data.source", "local", "data.files.train must name a file when data.source is local"),
        ("data.source", "hub", "data.set must name a set when data.source is hub, got null"),
        ("data.source", "hub", "data.hub.revision must be a commit of 40 hex digits when"),
        ("data.decontaminate", ["a"], "data.decontaminate must list NAME=PATH, got 'a'"),
        ("data.decontaminate", ["a=b", "a=c"], "data.decontaminate must list each name once"),
        ("data.decontaminate", [1], "data.decontaminate must be text, got 1"),
        ("data.expected.sha256", "ab", "data.expected.sha256 must be 64 hex digits or null"),
        ("data.near.overlap", 0, "data.near.overlap must be in (0, 1], got 0"),
    ],
)
def test_a_broken_rule_is_named_with_key_rule_and_value(tree, key, value, message):
    with pytest.raises(ConfigError) as caught:
        parse_params(with_value(tree, key, value))
    assert message in str(caught.value)


def test_a_wrong_choice_lists_the_valid_ones(tree):
    with pytest.raises(ConfigError, match=r"selection.score must be one of 'gmts', 'ets', .*'foo'"):
        parse_params(with_value(tree, "selection.score", "foo"))


def test_an_unknown_key_is_refused_with_the_nearest_known_one(tree):
    tree["selection"]["ration"] = 0.1
    with pytest.raises(ConfigError) as caught:
        parse_params(tree)
    assert "selection.ration is not a known key; did you mean selection.ratio?" in str(caught.value)
    assert "score, ratio, side" in str(caught.value)


def test_a_missing_key_is_named(tree):
    del tree["selection"]["ratio"]
    with pytest.raises(ConfigError, match=r"selection\.ratio is missing"):
        parse_params(tree)


def test_every_broken_rule_is_reported_at_once(tree):
    tree["selection"]["ratio"] = 0
    tree["train"]["steps"] = 0
    with pytest.raises(ConfigError) as caught:
        parse_params(tree)
    assert "selection.ratio" in str(caught.value)
    assert "train.steps" in str(caught.value)


def test_informativeness_on_the_shaped_reward_is_refused(tree):
    with pytest.raises(
        ConfigError, match=r"informative_on must be one of 'verdict' or 'grade', got 'reward'"
    ):
        parse_params(with_value(tree, "train.dynamic_sampling.informative_on", "reward"))


@pytest.mark.parametrize("version", [0, 2, None, "1"])
def test_another_schema_version_is_refused_with_the_cure(tree, version):
    with pytest.raises(ConfigError, match=r"schema_version must be 1, .*gmts config use"):
        parse_params(with_value(tree, "schema_version", version))


def test_a_file_that_is_absent_or_not_yaml_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"params\.yaml cannot be read"):
        load_params(tmp_path / "params.yaml")
    (tmp_path / "params.yaml").write_text("a: [1")
    with pytest.raises(ConfigError, match=r"params\.yaml is not valid YAML"):
        load_params(tmp_path / "params.yaml")
    (tmp_path / "params.yaml").write_text("- 1")
    with pytest.raises(ConfigError, match="must hold a mapping"):
        load_params(tmp_path / "params.yaml")


def test_the_hash_follows_values_and_not_their_spelling(tree):
    first = params_hash(parse_params(tree))
    assert params_hash(parse_params(dict(reversed(tree.items())))) == first
    assert params_hash(parse_params(with_value(tree, "rollout.temperature", 1))) == first
    assert params_hash(parse_params(with_value(tree, "selection.ratio", 0.1))) != first


def test_reading_params_loads_no_torch(repository):
    code = (
        "import sys, pathlib, gmts.config as c; c.load_params(pathlib.Path('params.yaml'));"
        "sys.exit(any(m in sys.modules for m in ('torch', 'transformers', 'prefect', 'datasets')))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=repository, check=True)


def test_switches_that_score_none_ignores_are_listed_with_their_values(tree):
    plain = parse_params(with_value(tree, "selection.score", "none"))
    assert ignored_switches(plain) == [
        "selection.ratio=0.2",
        "selection.side=top",
        "selection.scope=batch",
        "objective.denominator=selected",
    ]
    assert ignored_switches(parse_params(tree)) == []
