import pytest
import torch

from gmts.trainers.standalone.state import copied_weights, put_weights, unique_weights
from gmts.trainers.update.metrics import over_mini_batches
from tests.support.tiny_run import tiny_model, tiny_trainer


def _copied(trainer):
    moments = trainer.optimizer_state()["state"]
    return copied_weights(trainer.policy), {
        key: {name: value.clone() for name, value in state.items()}
        for key, state in moments.items()
    }


def _same(first, second):
    return (
        all(torch.equal(first[0][name], second[0][name]) for name in first[0])
        and first[1].keys() == second[1].keys()
        and all(
            torch.equal(first[1][key][name], second[1][key][name])
            for key in first[1]
            for name in first[1][key]
        )
    )


def _handed_over(source, target):
    """Return `target` with the weights, moments and state of `source`."""
    weights, moments = _copied(source)
    groups = source.optimizer_state()["param_groups"]
    target.restore(weights, {"state": moments, "param_groups": groups}, source.state)
    return target


class _Switch:
    """A reward that can be made the same for everyone."""

    def __init__(self):
        self.flat = False

    def __call__(self, text):
        return 0.0 if self.flat else float(text.count("a") % 2 == 0)


def test_c06_a_batch_of_uniform_groups_leaves_weights_and_moments_alone():
    reward = _Switch()
    trainer = tiny_trainer(function=reward)
    trainer.step()
    reward.flat = True
    before = _copied(trainer)
    metrics, _ = trainer.step()
    assert _same(_copied(trainer), before)
    assert metrics["train/no_signal"] == 2
    assert metrics["train/no_signal_steps"] == 2
    assert metrics["train/optimizer_steps"] == 4
    reward.flat = False
    metrics, _ = trainer.step()
    assert not _same(_copied(trainer), before)
    assert metrics["train/grad_norm"] > 0


@pytest.mark.parametrize("beta", [0.0, 0.01])
def test_c06_a_batch_in_which_every_response_was_cut_and_filtered_is_skipped(beta):
    changes = {"objective__overlong_filter": True, "objective__beta": beta}
    healthy = tiny_trainer(**changes)
    healthy.step()
    cut = _handed_over(healthy, tiny_trainer(eos_ids=(99,), **changes))  # no such token: no end
    before = _copied(cut)
    metrics, responses = cut.step()
    assert metrics["response/truncated"] == 1.0
    assert metrics["response/length_mean"] == 6
    assert metrics["train/no_signal"] == 2
    assert _same(_copied(cut), before)
    assert {response.num_selected_tokens for response in responses} == {0}
    healthy = _handed_over(cut, tiny_trainer(**changes))
    healthy.step()
    assert not _same(_copied(healthy), before)


def test_c06_dynamic_sampling_that_finds_nothing_is_a_step_without_signal():
    trainer = tiny_trainer(
        function=lambda text: 0.0,
        train__dynamic_sampling__enabled=True,
        train__dynamic_sampling__max_batches=2,
    )
    before = _copied(trainer)
    metrics, responses = trainer.step()
    assert metrics["groups/sampled"] == 8
    assert metrics["train/no_signal_steps"] == 1
    assert responses == []
    assert trainer.state.step == 1
    assert _same(_copied(trainer), before)


def test_right_answers_of_differing_lengths_stay_without_signal_under_dynamic_sampling():
    trainer = tiny_trainer(
        function=lambda text: 1.0,
        rewards__overlong__buffer_tokens=6,
        train__dynamic_sampling__enabled=True,
        train__dynamic_sampling__max_batches=2,
    )
    before = _copied(trainer)
    metrics, responses = trainer.step()
    assert metrics["response/length_min"] < metrics["response/length_max"]
    assert metrics["reward/overlong_mean"] < 0
    assert metrics["groups/all_right"] == metrics["groups/sampled"] == 8
    assert metrics["train/no_signal_steps"] == 1
    assert responses == []
    assert _same(_copied(trainer), before)


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_overlong_penalty_changes_the_update_and_nothing_that_is_reported_of_verdicts(dynamic):
    changes = {"train__dynamic_sampling__enabled": dynamic}
    plain = tiny_trainer(**changes)
    shaped = tiny_trainer(rewards__overlong__buffer_tokens=4, **changes)
    expected, _ = plain.step()
    found, responses = shaped.step()
    for name, value in expected.items():
        if name.startswith(("reward/", "response/", "groups/", "rollout/")):
            assert found[name] == value, name
    assert found.keys() - expected.keys() == {"reward/overlong_mean"}
    assert {response.score for response in responses} == {0.0, 1.0}
    assert not _same(_copied(shaped), _copied(plain))


def test_c15_log_probs_of_rollout_and_trainer_agree_at_temperature_0_6():
    model = tiny_model()
    with torch.no_grad():  # far from uniform, so that a wrong temperature or shift would show
        for parameter in model.parameters():
            parameter.mul_(8)
    trainer = tiny_trainer(model=model, rollout__temperature=0.6, rollout__max_response_tokens=24)
    metrics, _ = trainer.step()
    assert metrics["policy/entropy"] < 2.0  # uniform: 2.4
    assert 0 < metrics["rollout/log_ratio_abs_max"] < 1e-4
    assert metrics["rollout/log_ratio_abs_mean"] <= metrics["rollout/log_ratio_abs_max"]


def test_c15_the_importance_ratio_is_exactly_one_before_the_first_update():
    trainer = tiny_trainer(train__questions_per_mini_batch=4, rollout__temperature=0.6)
    metrics, _ = trainer.step()
    assert metrics["policy/log_ratio_abs_max"] == 0.0


def test_rollout_weights_of_our_own_sampler_are_one_but_for_rounding():
    metrics, _ = tiny_trainer(objective__rollout_is="token", rollout__temperature=0.6).step()
    assert metrics["rollout/is_weight_mean"] == pytest.approx(1.0, abs=1e-4)
    assert metrics["rollout/is_weight_truncated"] == 0.0
    assert "rollout/is_weight_mean" not in tiny_trainer().step()[0]


def test_carried_groups_have_true_importance_ratios():
    trainer = tiny_trainer(
        train__dynamic_sampling__enabled=True,
        train__questions_per_mini_batch=4,
        train__optimizer__lr=0.05,
    )
    stale = None
    for _ in range(6):
        carried = len(trainer.state.carried)
        metrics, _ = trainer.step()
        if carried:
            stale = metrics["policy/log_ratio_abs_max"]
    assert stale is not None
    assert stale > 1e-3


def test_a_restored_trainer_goes_on_as_if_it_had_never_stopped():
    trainer = tiny_trainer(objective__beta=0.01)
    trainer.step()
    state = type(trainer.state).restored(trainer.state.counters(), [], None)
    other = _handed_over(trainer, tiny_trainer(objective__beta=0.01))
    other.state = state
    expected, _ = trainer.step()
    found, _ = other.step()
    for name, value in expected.items():
        if not name.startswith(("time/", "memory/")):
            assert found[name] == value, name
    assert _same(_copied(other), _copied(trainer))


def test_tied_weights_are_stored_once_and_restored_for_both():
    model = tiny_model()
    names = list(unique_weights(model))
    assert "model.embed_tokens.weight" in names
    assert "lm_head.weight" not in names
    weights = copied_weights(tiny_model(seed=1))
    put_weights(model, weights)
    assert torch.equal(model.lm_head.weight, weights["model.embed_tokens.weight"])
    with pytest.raises(ValueError, match="odd"):
        put_weights(model, weights | {"odd": torch.zeros(1)})


def test_metrics_of_mini_batches_are_averaged_counted_or_maximised():
    merged = over_mini_batches(
        [
            {"a/b": 1.0, "train/no_signal": 1.0, "a/c_max": 3.0},
            {"a/b": 2.0, "train/no_signal": 1.0, "a/c_max": 2.0, "selection/threshold": 0.5},
        ]
    )
    assert merged == {
        "a/b": 1.5,
        "train/no_signal": 2.0,
        "a/c_max": 3.0,
        "selection/threshold": 0.5,
    }
