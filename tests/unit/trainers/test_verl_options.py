from dataclasses import asdict

import pytest

from gmts.trainers.verl.options import VerlOptions, from_config, to_overrides
from tests.support.core import objective, overlong, selection


def options(**changes):
    values = {
        "objective": objective(),
        "selection": selection(),
        "overlong": overlong(),
        "seed": 3,
        "max_response_tokens": 8,
        "skip_no_signal": True,
        "max_batches": 4,
        "dump_dir": None,
    }
    return VerlOptions(**(values | changes))


def test_options_survive_the_way_through_plain_values():
    assert from_config(asdict(options(dump_dir="/x y"))) == options(dump_dir="/x y")


def test_overrides_name_every_leaf_once():
    overrides = to_overrides(options())
    assert '+actor_rollout_ref.gmts.selection.score="gmts"' in overrides
    assert "+actor_rollout_ref.gmts.objective.dual_clip=null" in overrides
    assert "+actor_rollout_ref.gmts.skip_no_signal=true" in overrides
    leaves = sum(len(asdict(part)) for part in (objective(), selection(), overlong()))
    names = [override.partition("=")[0] for override in overrides]
    assert len(names) == len(set(names)) == 5 + leaves


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (None, "actor_rollout_ref.gmts must be given"),
        ({"sed": 3}, "actor_rollout_ref.gmts.sed must be one of"),
        ({"max_batches": 0}, "actor_rollout_ref.gmts.max_batches: .* got 0"),
        ({"selection": asdict(selection()) | {"ratio": 1.5}}, "selection.ratio: .* got 1.5"),
        ({"selection": {"ratio": 0.5}}, "selection.score"),
        ({"objective": asdict(objective()) | {"beat": 1}}, "objective.beat must be one of"),
        ({"overlong": {"buffer_tokens": 0, "factor": 1.0}}, "overlong.buffer_tokens: .* got 0"),
    ],
)
def test_wrong_options_are_refused_by_key_rule_and_value(change, message):
    node = None if change is None else asdict(options()) | change
    with pytest.raises(ValueError, match=message):
        from_config(node)


def test_an_own_score_is_imported_before_anything_is_trained():
    chosen = selection(score="custom", custom="tests.support.nowhere:score")
    with pytest.raises(ValueError, match="selection\\.custom must name an importable module"):
        options(selection=chosen).settings()
