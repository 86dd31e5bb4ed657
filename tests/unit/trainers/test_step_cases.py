"""Product cases at the level of one optimizer step."""

import dataclasses

import pytest
import torch

from gmts.trainers.standalone.optimizer import make_optimizer, set_rate
from gmts.trainers.standalone.step import update_step
from tests.support.policies import mini_batch, policy, step_settings


class Gradients(torch.optim.SGD):
    """Keeps the gradients it is handed and moves nothing."""

    def step(self, closure=None):
        self.kept = [p.grad.clone() for group in self.param_groups for p in group["params"]]


def step_of(model, batch, prompts, stats, *, moved=False, **changes):
    """Return (gradients, metrics); no gradients if the optimizer was not called."""
    optimizer = Gradients(model.parameters(), lr=1.0)
    optimizer.kept = None
    metrics = update_step(
        model, optimizer, batch, prompts, stats, step_settings(**changes), step=4, moved=moved
    )
    return optimizer.kept, metrics


def assert_close(found, expected, tolerance):
    for one, other in zip(found, expected, strict=True):
        assert (one - other).norm() <= tolerance * max(other.norm().item(), 1e-12)


@pytest.mark.parametrize("budget", [1, 12, 1000])
def test_c03_the_token_mean_is_over_the_mini_batch_and_not_per_micro_batch(budget):
    model = policy()
    batch, prompts, stats = mini_batch(model, (-1.0, 0.0), lengths=(1, 9))
    _, metrics = step_of(model, batch, prompts, stats, score="none", micro_batch_tokens=budget)
    assert metrics["train/loss"] == pytest.approx(0.1, abs=1e-12)


@pytest.mark.parametrize("algorithm", ["dapo", "grpo", "gspo", "dr_grpo"])
def test_c03_a_ragged_last_micro_batch_changes_no_gradient(algorithm):
    model = policy()
    batch, prompts, stats = mini_batch(
        model, (1.0, -1.0, 0.5, -0.5, 0.8), lengths=(2, 2, 2, 2, 2), old_shift=0.1
    )
    prompts = [[5, 6]] * 5  # rows of 4 tokens: a budget of 8 gives 2, 2, 1
    changes = {"score": "none", "algorithm": algorithm, "moved": True}
    whole, _ = step_of(model, batch, prompts, stats, **changes)
    parts, _ = step_of(model, batch, prompts, stats, micro_batch_tokens=8, **changes)
    assert_close(parts, whole, 1e-12)


def test_c05_masked_responses_count_neither_above_nor_below_the_line():
    model = policy()
    batch, prompts, stats = mini_batch(model, (-1.0,) * 4, lengths=(10,) * 4)
    kept = torch.tensor([True, False, True, False])
    filtered = dataclasses.replace(batch, response_mask=batch.response_mask & kept[:, None])
    _, metrics = step_of(model, filtered, prompts, stats, score="none")
    assert metrics["train/loss"] == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_c07_what_stands_at_padding_contributes_exactly_nothing(dtype):
    model = policy(dtype=dtype)
    batch, prompts, stats = mini_batch(model, (1.0, -1.0, 0.7, -0.7))
    padding = ~batch.response_mask
    clean, _ = step_of(model, batch, prompts, stats)
    dirty = dataclasses.replace(
        batch, old_log_probs=torch.where(padding, -100.0, batch.old_log_probs)
    )
    found, metrics = step_of(model, dirty, prompts, stats)
    for one, other in zip(found, clean, strict=True):
        assert torch.equal(one, other)
    assert metrics["policy/clamped"] == 0.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_c07_a_log_ratio_of_89_leaves_every_gradient_finite_and_is_counted(dtype, advantage):
    model = policy(dtype=dtype)
    batch, prompts, stats = mini_batch(model, (advantage, 0.7, -0.7, 0.5))
    batch.old_log_probs[0, 1] -= 89.0
    gradients, metrics = step_of(model, batch, prompts, stats, score="none", moved=True)
    assert all(bool(torch.isfinite(gradient).all()) for gradient in gradients)
    share = 1 / int(batch.response_mask.sum())
    assert metrics["policy/clip_high"] == pytest.approx(share if advantage > 0 else 0.0)
    assert metrics["policy/clamped"] == pytest.approx(share)


@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_c07_a_log_ratio_of_89_is_harmless_also_where_the_selection_did_not_foresee_it(advantage):
    model = policy(dtype=torch.float32)
    batch, prompts, stats = mini_batch(model, (advantage, 0.7, -0.7, 0.5))
    batch.old_log_probs[0, 1] -= 89.0
    stats.log_probs[0, 1] -= 89.0  # score_policy old: r was 1 when the token was selected
    gradients, metrics = step_of(
        model, batch, prompts, stats, ratio=1.0, moved=True, score_policy="old"
    )
    assert metrics["selection/fraction"] == 1.0
    assert all(bool(torch.isfinite(gradient).all()) for gradient in gradients)


def test_c08_a_kl_log_ratio_of_100_is_capped_and_changes_no_other_token():
    model = policy()
    batch, prompts, stats = mini_batch(model, (1.0, -1.0, 0.7, -0.7), ref=0.3)
    changes = {"score": "none", "beta": 0.04}
    agreeing = dataclasses.replace(batch, ref_log_probs=batch.ref_log_probs.clone())
    agreeing.ref_log_probs[1, 2] = stats.log_probs[1, 2]  # D = 0, no pull
    expected, without = step_of(model, agreeing, prompts, stats, **changes)
    batch.ref_log_probs[1, 2] = stats.log_probs[1, 2] + 100.0
    found, metrics = step_of(model, batch, prompts, stats, **changes)
    assert_close(found, expected, 1e-12)
    # D is 10 on one token of all
    more = 0.04 * 10.0 / int(batch.response_mask.sum())
    assert metrics["train/loss"] - without["train/loss"] == pytest.approx(more, abs=1e-12)


def test_c08_a_nan_reference_log_prob_stops_with_step_sample_and_tensor():
    model = policy()
    batch, prompts, stats = mini_batch(model, (1.0, -1.0, 0.7, -0.7), ref=0.3)
    batch.ref_log_probs[1, 2] = float("nan")
    with pytest.raises(
        FloatingPointError,
        match="optimizer step 4 is refused: the reference log-prob of sample 10 at position 2",
    ):
        step_of(model, batch, prompts, stats, beta=0.04)


@pytest.mark.parametrize(
    ("usual", "other"),
    [
        ({"score_policy": "current"}, {"score_policy": "old"}),
        ({"beta": 0.3, "mask_kl": True}, {"beta": 0.3, "mask_kl": False}),
        ({"denominator": "all"}, {"denominator": "eligible"}),
        ({"score": "gmts"}, {"score": "advantage"}),
    ],
    ids=str,
)
def test_switches_that_need_a_moved_policy_or_kl_reach_the_gradient(usual, other):
    model = policy()
    batch, prompts, stats = mini_batch(
        model, (1.0, -1.0, 0.9, -1.1), lengths=(9, 12, 7, 11), old_shift=0.3, ref=0.5
    )
    # As in training: the statistics at hand are those of the policy behind the old log-probs.
    stats = dataclasses.replace(stats, log_probs=batch.old_log_probs)
    first, _ = step_of(model, batch, prompts, stats, moved=True, **usual)
    second, _ = step_of(model, batch, prompts, stats, moved=True, **other)
    assert any(not torch.equal(one, two) for one, two in zip(first, second, strict=True))


def test_kl_below_its_zero_tolerance_is_no_signal():
    model = policy()
    batch, prompts, stats = mini_batch(model, (0.0,) * 4, ref=0.5)
    for tolerance, kind in ((1e-5, "train/kl_only"), (100.0, "train/no_signal")):
        gradients, metrics = step_of(
            model, batch, prompts, stats, beta=0.1, kl_zero_tolerance=tolerance
        )
        assert metrics[kind] == 1.0
        if kind == "train/no_signal":
            assert gradients is None
        else:
            assert sum(gradient.abs().sum().item() for gradient in gradients) > 0


def test_the_temperature_and_the_length_limit_reach_the_gradient():
    model = policy()
    batch, prompts, stats = mini_batch(model, (1.0, -1.0, 0.9, -1.1), old_shift=0.2)

    def gradients(settings):
        optimizer = Gradients(model.parameters(), lr=1.0)
        update_step(model, optimizer, batch, prompts, stats, settings, step=4, moved=True)
        return optimizer.kept

    usual = step_settings(algorithm="dr_grpo", denominator="all")
    expected = gradients(usual)
    longer = gradients(dataclasses.replace(usual, max_response_tokens=16))  # twice the usual 8
    assert_close([2 * gradient for gradient in longer], expected, 1e-12)
    cooler = gradients(dataclasses.replace(usual, temperature=0.6))
    assert any(not torch.equal(one, two) for one, two in zip(cooler, expected, strict=True))


def test_the_gradient_is_scaled_down_to_its_largest_norm_and_reported_before():
    model = policy()
    batch, prompts, stats = mini_batch(model, (1.0, -1.0, 0.7, -0.7))
    settings = step_settings()
    limited = dataclasses.replace(settings.optimizer, max_grad_norm=0.5)
    optimizer = Gradients(model.parameters(), lr=1.0)
    metrics = update_step(
        model, optimizer, batch, prompts, stats,
        dataclasses.replace(settings, optimizer=limited), step=4, moved=False,
    )  # fmt: skip
    assert metrics["train/grad_norm"] > 0.5
    norm = torch.stack([gradient.norm() for gradient in optimizer.kept]).norm()
    assert norm.item() == pytest.approx(0.5, rel=1e-5)


def test_the_rate_warms_up_linearly_and_stays_also_through_steps_without_signal():
    model = policy()
    config = dataclasses.replace(step_settings(lr=0.4).optimizer, warmup_steps=4)
    optimizer = make_optimizer(model, config)
    rates = [set_rate(optimizer, config, step) for step in range(6)]
    assert rates == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.4, 0.4])
    batch, prompts, stats = mini_batch(model, (0.0,) * 4)
    settings = dataclasses.replace(step_settings(), optimizer=config)
    metrics = update_step(model, optimizer, batch, prompts, stats, settings, step=1, moved=False)
    assert metrics["train/no_signal"] == 1.0
    assert metrics["train/lr"] == optimizer.param_groups[0]["lr"] == pytest.approx(0.2)
