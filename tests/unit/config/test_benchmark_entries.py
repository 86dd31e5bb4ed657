"""Entries of `benchmarks` in params.yaml, and where they go from there."""

import json
from typing import get_args

import pytest

from gmts.config import ConfigError, parse_params
from gmts.config.load import parse_rewards, parse_yaml, read_yaml
from gmts.config.presets import change, render_preset
from gmts.evaluation.benchmarks import BENCHMARKS
from gmts.evaluation.config import BenchmarkName

ENTRY = {
    "path": "rows.jsonl", "repo": None, "revision": None, "files": None, "rows": None,
    "sha256": None, "greedy": False, "custom": None,
}  # fmt: skip


def parsed(repository, name="amc23", **changes):
    tree = read_yaml(repository / "params.yaml")
    tree["benchmarks"] = {name: ENTRY | changes}
    return parse_params(tree)


def test_every_name_has_a_benchmark():
    assert set(get_args(BenchmarkName)) == set(BENCHMARKS)


def test_a_local_file_and_a_pinned_commit_are_accepted(repository):
    assert parsed(repository).benchmarks["amc23"].path == "rows.jsonl"
    pinned = parsed(repository, path=None, revision="a" * 40, files=["*.parquet"])
    assert pinned.benchmarks["amc23"].files == ("*.parquet",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "amc24"}, "benchmarks.amc24 must be one of 'aime24', "),
        ({"path": None}, "benchmarks.amc23.revision must be a commit of 40 hex digits where"),
        ({"path": None, "revision": "main"}, "where there is no path, got main"),
        ({"revision": "a" * 40}, "benchmarks.amc23.path must be null beside repo, revision"),
        ({"files": []}, "benchmarks.amc23.path must be null beside repo, revision or files"),
        ({"sha256": "ab"}, "benchmarks.amc23.sha256 must be 64 hex digits or null, got 'ab'"),
        ({"custom": "own"}, "benchmarks.amc23.custom must be `module:function`, got 'own'"),
        ({"greedy": "yes"}, "benchmarks.amc23.greedy must be "),
        ({"rows": 0}, "benchmarks.amc23.rows must be "),
        ({"limit": 3}, "benchmarks.amc23.limit is not a known key"),
    ],
)
def test_a_broken_entry_is_named_with_key_rule_and_value(repository, changes, message):
    with pytest.raises(ConfigError) as caught:
        parsed(repository, **changes)
    assert message in str(caught.value)


def test_an_entry_can_be_set_on_the_command_line(repository, tmp_path):
    text = render_preset(repository, "smoke")
    (tmp_path / "params.yaml").write_text(text)
    changed = parse_yaml(change(tmp_path, [f"benchmarks.amc23={json.dumps(ENTRY)}"]))
    assert changed["benchmarks"] == {"amc23": ENTRY}
    assert parse_yaml(text)["benchmarks"] == {}


def test_rewards_that_results_record_are_checked_like_those_of_params(repository):
    rewards = read_yaml(repository / "params.yaml")["rewards"]
    assert parse_rewards(rewards).scorer == rewards["scorer"]
    with pytest.raises(ConfigError, match=r"rewards\.scorer must be one of .* got 'poetry'"):
        parse_rewards(rewards | {"scorer": "poetry"})
    with pytest.raises(ConfigError, match=r"rewards\.answer is missing"):
        parse_rewards({name: value for name, value in rewards.items() if name != "answer"})
