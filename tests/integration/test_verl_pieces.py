"""Our pieces inside the installed verl, without a run."""

import json
import os
import subprocess
import sys

import pytest

from tests.support.verl_ranks import PROCESS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    file = tmp_path_factory.mktemp("probe") / "answers.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.verl_probe", str(file)],
        env={**os.environ, **PROCESS},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(file.read_text())


def private_names():
    """Read the table without importing verl."""
    import ast
    from pathlib import Path

    tree = ast.parse(Path("gmts/trainers/verl/internals.py").read_text(encoding="utf-8"))
    tables = {}
    for node in tree.body:
        if isinstance(node, ast.AnnAssign | ast.Assign):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            tables[target.id] = ast.literal_eval(node.value)
    return tables


def test_the_installed_verl_is_the_one_that_we_reach_into(answers):
    assert answers["version"] == private_names()["VERL_VERSION"]


@pytest.mark.parametrize("name", sorted(private_names()["PRIVATE_NAMES"]))
def test_private_names_are_where_they_were_with_the_same_parameters(answers, name):
    expected = list(private_names()["PRIVATE_NAMES"][name])
    assert answers["signatures"][name] == expected, "verl has moved: see internals.py"


def test_no_other_module_of_ours_reaches_into_private_names():
    """Calls of super() and of self are ours; verl's objects are asked by public names alone."""
    import re
    from pathlib import Path

    reach = re.compile(r"(?<!self)(?<!cls)\._[a-z]\w*")
    allowed = {"internals.py"}
    for file in Path("gmts/trainers/verl").rglob("*.py"):
        if file.name in allowed:
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            code = line.partition("#")[0]
            assert not reach.search(code), f"{file}:{number}: {line.strip()}"


def test_verl_finds_platform_engine_rollout_and_trainer_under_our_names(answers):
    assert answers["registrations"] == {
        "device": "cpu",
        "available": False,
        "trainer": "SelectingTrainer",
        "mode": "sync",
        "engine": "StatsEngine",
        "rollout": "WeightSender",
        "replica": "SamplerReplica",
        "estimators": ["sample_deviation", "population_deviation"],
    }


def test_equal_rewards_have_advantage_zero_exactly_and_others_are_group_normalised(answers):
    half = 0.5 / (0.5**0.5 + 1e-6)  # sample deviation of (1, 0) is sqrt(1/2)
    for name, expected in (("gmts_group", half), ("gmts_group_population", 0.5 / (0.5 + 1e-6))):
        values = answers["advantages"][name]
        assert values[:3] == [[0.0] * 3] * 3
        assert values[3] == pytest.approx([expected, 0.0, 0.0], rel=1e-6)
        assert values[4] == pytest.approx([-expected, -expected, 0.0], rel=1e-6)


def test_the_overlong_penalty_shapes_what_advantages_are_taken_of(answers):
    # v: 1, 0, 0 of 4, 3, 4 tokens; the last two of four cost 0.25 each. u: too short to cost.
    assert answers["penalised"]["off"] == pytest.approx([0.0, 0.0, 0.0, 2 / 3, -1 / 3, -1 / 3])
    shaped = [0.5, -0.25, -0.5]
    mean = sum(shaped) / 3
    assert answers["penalised"]["on"][:3] == [0.0] * 3
    assert answers["penalised"]["on"][3:] == pytest.approx([score - mean for score in shaped])


def test_ranks_share_mini_batches_of_whole_groups(answers):
    first, second = answers["layout"]
    groups = ["c", "a", "b", "a", "d", "b", "c", "d"]
    assert sorted(first + second) == list(range(8))
    assert {groups[row] for row in first[:2] + second[:2]} == {"a", "b"}
    assert {groups[row] for row in first[2:] + second[2:]} == {"c", "d"}
    assert "must consist of whole mini-batches of 2 rows" in answers["torn"]


def test_settings_of_verl_that_contradict_ours_are_refused_by_name(answers):
    said = answers["refused"]
    assert said.pop("good") is None
    assert said.pop("corrected") is None
    assert said.pop("overlong").startswith("objective.overlong_filter must be false")
    weighted = said.pop("weighted")
    for key, message in (*said.items(), *weighted.items()):
        assert message.startswith(f"{key} must be "), key
        assert ", got " in message


def test_sampling_stops_at_the_limit_and_names_what_it_found(answers):
    found = answers["buffer"]
    assert found["submitted"] == [3, 4, 1]  # 4 of 12 were the trainer's own
    assert found["wrong"] == 7
    assert "of 12 groups 7 were all wrong and 2 all right" in found["said"]
