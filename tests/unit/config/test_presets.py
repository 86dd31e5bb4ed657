import json
import shutil
from dataclasses import asdict

import pytest

from gmts.config import ConfigError, load_params, parse_params
from gmts.config.load import parse_yaml, read_yaml
from gmts.config.presets import (
    change,
    changed_keys,
    origins,
    preset_names,
    render_preset,
    render_tree,
    write_params,
)


@pytest.fixture
def clone(repository, tmp_path):
    shutil.copytree(repository / "configs", tmp_path / "configs")
    shutil.copyfile(repository / "params.yaml", tmp_path / "params.yaml")
    return tmp_path


def test_the_committed_params_are_the_smoke_preset(repository):
    text = (repository / "params.yaml").read_text(encoding="utf-8")
    assert text == render_preset(repository, "smoke")


def test_every_preset_is_a_complete_valid_experiment(clone):
    for name in preset_names(clone):
        write_params(clone, render_preset(clone, name))
        assert load_params(clone / "params.yaml").preset == name


def test_an_override_changes_one_value_and_keeps_comments(clone):
    before = (clone / "params.yaml").read_text(encoding="utf-8")
    difference = write_params(clone, change(clone, ["selection.ratio=0.1"]))
    after = (clone / "params.yaml").read_text(encoding="utf-8")
    assert after == before.replace("  ratio: 0.2\n", "  ratio: 0.1\n")
    assert "-  ratio: 0.2" in difference
    assert "+  ratio: 0.1" in difference


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("selection.ratio=2", "selection.ratio must be in (0, 1], got 2"),
        ("selection.ration=0.1", "did you mean selection.ratio?"),
        ("nowhere.ratio=0.1", "there is no section nowhere"),
        ("selection.ratio", "an override must be key=value, got 'selection.ratio'"),
        ("data.task_options=[", "the value of data.task_options must be YAML"),
    ],
)
def test_a_bad_override_is_refused_and_nothing_is_written(clone, override, message):
    before = (clone / "params.yaml").read_bytes()
    with pytest.raises(ConfigError) as caught:
        write_params(clone, change(clone, [override]))
    assert message in str(caught.value)
    assert (clone / "params.yaml").read_bytes() == before


def test_an_unknown_preset_lists_the_known_ones(clone):
    with pytest.raises(ConfigError, match=r"preset must be one of .*smoke.*, got 'smok'"):
        render_preset(clone, "smok")


def test_each_value_tells_where_it_comes_from(clone):
    write_params(clone, render_preset(clone, "smoke", ["selection.ratio=0.1"]))
    tree = read_yaml(clone / "params.yaml")
    where = origins(clone, tree)
    assert where["selection.ratio"] == "changed (smoke has 0.2)"
    assert where["name"] == "preset smoke"
    assert where["train.steps"] == "base"
    assert changed_keys(clone, tree) == ["selection.ratio"]


def test_another_tasks_options_replace_the_old_ones_as_a_whole(clone):
    text = render_preset(clone, "smoke", ["data.task_options={min_terms: 2}"])
    write_params(clone, text)
    assert parse_params(read_yaml(clone / "params.yaml")).data.task_options == {"min_terms": 2}


@pytest.mark.parametrize("preset", ["smoke", "paper", "released", "smollm2"])
def test_a_complete_tree_that_has_travelled_as_json_becomes_the_same_experiment(repository, preset):
    wanted = parse_params(
        parse_yaml(render_preset(repository, preset, ["evaluate.pass_at=[1, 2]", "seed=7"]))
    )
    text = render_tree(repository, json.loads(json.dumps(asdict(wanted))))
    assert parse_params(parse_yaml(text)) == wanted
    assert text.startswith("# The complete tree")  # comments and all


def test_an_incomplete_tree_is_refused(repository):
    tree = parse_yaml(render_preset(repository, "smoke"))
    del tree["selection"]["ratio"]
    with pytest.raises(ConfigError, match=r"selection\.ratio"):
        render_tree(repository, tree)


def write_config(clone, name, text):
    (clone / "configs" / f"{name}.yaml").write_text(text, encoding="utf-8")


def test_of_two_presets_the_right_one_wins_and_together_they_name_the_run(clone):
    write_config(clone, "one", "# One.\nname: mine\nselection:\n  ratio: 0.1\n  side: bottom\n")
    write_config(clone, "two", "# Two.\nselection:\n  ratio: 0.3\n")
    write_params(clone, render_preset(clone, "one+two"))
    params = load_params(clone / "params.yaml")
    assert (params.selection.ratio, params.selection.side) == (0.3, "bottom")
    assert (params.preset, params.name) == ("one+two", "one-two")
    assert changed_keys(clone, read_yaml(clone / "params.yaml")) == []


def test_a_preset_extends_others_and_changes_what_they_say(clone):
    write_config(clone, "below", "# Below.\nseed: 5\nselection:\n  ratio: 0.1\n")
    write_config(clone, "above", "# Above.\nextends: [below]\nselection:\n  ratio: 0.4\n")
    params = parse_params(parse_yaml(render_preset(clone, "above")))
    assert (params.seed, params.selection.ratio, params.preset) == (5, 0.4, "above")


def test_a_preset_that_extends_itself_is_refused(clone):
    write_config(clone, "a", "extends: [b]\n")
    write_config(clone, "b", "extends: [a]\n")
    with pytest.raises(ConfigError, match=r"extends must not lead back to a"):
        render_preset(clone, "a")


def test_options_that_a_preset_replaces_as_a_whole_are_not_shown_as_changed(clone):
    write_params(clone, render_preset(clone, "smollm2"))
    tree = read_yaml(clone / "params.yaml")
    assert changed_keys(clone, tree) == []
    assert origins(clone, tree)["data.task_options.min_terms"] == "preset smollm2"
