import math
from dataclasses import replace

import pytest
import torch

from gmts.objective.terms import objective_terms
from tests.support.core import objective, token_batch


def tensor(rows, dtype=torch.float64):
    return torch.tensor(rows, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("algorithm", ["grpo", "gspo"])
def test_garbage_at_masked_positions_contributes_exactly_nothing(dtype, algorithm):
    inf, nan = float("inf"), float("nan")
    log_probs = tensor([[-1.0, inf, nan, 100.0]], dtype).requires_grad_()
    batch = token_batch(
        [[True, False, False, False]],
        old=tensor([[-1.1, -inf, nan, -100.0]], dtype),
        ref=tensor([[-1.2, nan, inf, 100.0]], dtype),
        advantages=tensor([1.0], dtype),
    )
    terms = objective_terms(log_probs, batch, objective(algorithm=algorithm, beta=0.1))
    for values in (terms.pg_loss, terms.kl_loss, terms.pg_omega, terms.kl_omega):
        assert values[0, 1:].tolist() == [0.0, 0.0, 0.0]
    (gradient,) = torch.autograd.grad((terms.pg_loss + terms.kl_loss).sum(), log_probs)
    assert gradient[0, 1:].tolist() == [0.0, 0.0, 0.0]
    assert gradient[0, 0] != 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("A", [1.0, -1.0])
@pytest.mark.parametrize("log_ratio", [89.0, 100.0, -100.0])
def test_extreme_ratios_stay_finite_and_are_counted(dtype, A, log_ratio):
    log_probs = tensor([[-1.0, -1.0]], dtype).requires_grad_()
    batch = token_batch(
        [[True, True]],
        old=tensor([[-1.0 - log_ratio, -1.0]], dtype),
        advantages=tensor([A], dtype),
    )
    terms = objective_terms(log_probs, batch, objective())
    (gradient,) = torch.autograd.grad(terms.pg_loss.sum(), log_probs)
    assert torch.isfinite(gradient).all()
    assert torch.isfinite(terms.pg_loss).all()
    assert gradient[0, 0] == 0
    assert terms.pg_omega[0, 0] == 0
    clipped = terms.clipped_high | terms.clipped_low | terms.clamped
    assert clipped.tolist() == [[True, False]]


def test_the_kl_term_is_bounded_and_leaves_other_tokens_alone():
    log_probs = tensor([[-101.0, -1.0]]).requires_grad_()
    batch = token_batch([[True, True]], old=log_probs.detach(), ref=tensor([[-1.0, -1.5]]))
    terms = objective_terms(log_probs, batch, objective(beta=0.04))
    assert terms.kl_loss[0, 0].item() == pytest.approx(0.04 * 10.0)
    expected = 0.04 * (math.exp(-0.5) + 0.5 - 1)
    assert terms.kl_loss[0, 1].item() == pytest.approx(expected, rel=1e-12)
    assert terms.kl_omega[0, 0] == 0
    assert terms.clamped.tolist() == [[True, False]]


def test_a_nan_is_not_hidden_by_a_clamp():
    log_probs = tensor([[float("nan"), -1.0]])
    batch = token_batch([[True, True]], old=tensor([[-1.0, -1.0]]), advantages=tensor([1.0]))
    assert torch.isnan(objective_terms(log_probs, batch, objective()).pg_loss[0, 0])


def test_a_tiny_kl_ratio_is_no_signal():
    log_probs = tensor([[-1.0, -1.0]])
    batch = token_batch([[True, True]], old=log_probs, ref=tensor([[-1.0 + 9e-6, -1.0 + 2e-5]]))
    terms = objective_terms(log_probs, batch, objective(beta=1.0, kl_zero_tolerance=1e-5))
    assert terms.kl_omega[0, 0] == 0
    assert terms.kl_omega[0, 1] > 0


def test_omega_leaves_kl_out_where_kl_is_not_masked():
    log_probs = tensor([[-1.0]])
    batch = token_batch([[True]], old=log_probs, ref=tensor([[-0.5]]), advantages=tensor([2.0]))
    terms = objective_terms(log_probs, batch, objective(beta=0.1))
    assert terms.omega(mask_kl=False).item() == 2.0
    assert terms.omega(mask_kl=True).item() == pytest.approx(2.0 + 0.1 * (math.exp(0.5) - 1))


def importance(gaps, **changes):
    """Return terms of on-policy tokens with A = -2 whose log(pi_old / pi_rollout) is `gaps`."""
    old = torch.full((1, len(gaps)), -3.0, dtype=torch.float64)
    batch = token_batch(
        [[True] * len(gaps)],
        old=old,
        ref=old + 0.5,
        rollout=old - tensor([gaps]),
        advantages=tensor([-2.0]),
    )
    log_probs = old.clone().requires_grad_()
    return log_probs, objective_terms(log_probs, batch, objective(rollout_is="token", **changes))


def test_rollout_weights_scale_the_policy_term_and_leave_kl_alone():
    gaps = [math.log(1.5), math.log(0.5), 0.0]
    log_probs, terms = importance(gaps, beta=0.1)
    assert terms.rollout_weights[0].tolist() == pytest.approx([1.5, 0.5, 1.0], rel=1e-14)
    assert terms.pg_loss[0].tolist() == pytest.approx([3.0, 1.0, 2.0], rel=1e-14)
    assert terms.pg_omega[0].tolist() == pytest.approx([-3.0, -1.0, -2.0], rel=1e-14)
    assert terms.kl_omega[0].tolist() == pytest.approx([0.1 * math.expm1(0.5)] * 3, rel=1e-14)
    assert terms.kl_loss[0].tolist() == pytest.approx([0.1 * (math.exp(0.5) - 1.5)] * 3, rel=1e-12)
    assert not terms.rollout_weights.requires_grad
    (gradient,) = torch.autograd.grad(terms.pg_loss.sum(), log_probs)
    assert gradient[0].tolist() == pytest.approx([3.0, 1.0, 2.0], rel=1e-14)


def test_rollout_weights_are_truncated_above_and_never_below():
    _, terms = importance([math.log(2.5), 1000.0, -1000.0, 0.0], rollout_is_threshold=2.0)
    expected = [2.0, 2.0, math.exp(-20.0), 1.0]
    assert terms.rollout_weights[0].tolist() == pytest.approx(expected, rel=1e-14)
    assert terms.truncated[0].tolist() == [True, True, False, False]
    _, terms = importance([0.0, 0.1], rollout_is_threshold=1.0)
    assert terms.rollout_weights[0].tolist() == [1.0, 1.0]
    assert terms.truncated[0].tolist() == [False, True]  # exactly 1 is not above 1


def test_without_the_switch_rollout_log_probs_change_no_bit():
    log_probs = tensor([[-1.0, -2.0]])
    plain = token_batch([[True, True]], old=tensor([[-1.1, -1.8]]), advantages=tensor([0.7]))
    with_gaps = replace(plain, rollout_log_probs=tensor([[float("nan"), -9.0]]))
    expected = objective_terms(log_probs, plain, objective())
    found = objective_terms(log_probs, with_gaps, objective())
    assert torch.equal(found.pg_loss, expected.pg_loss)
    assert torch.equal(found.pg_omega, expected.pg_omega)
    assert found.rollout_weights is None
    assert not found.truncated.any()


def test_rollout_weights_without_rollout_log_probs_are_refused():
    with pytest.raises(ValueError, match="rollout_log_probs must be given with"):
        objective_terms(torch.zeros(1, 1), token_batch([[True]]), objective(rollout_is="token"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"rollout": torch.zeros(2, 2)},
            r"rollout_log_probs must have the shape of response_mask \(1, 2\), got \(2, 2\)",
        ),
        (
            {"old": torch.zeros(1, 3)},
            r"old_log_probs must have the shape of response_mask \(1, 2\)",
        ),
        ({"advantages": torch.zeros(2)}, r"advantages must have the shape \(1,\), got \(2,\)"),
    ],
)
def test_shapes_that_disagree_are_named(change, message):
    batch = token_batch([[True, True]], **change)
    with pytest.raises(ValueError, match=message):
        objective_terms(torch.zeros(1, 2), batch, objective())


def test_beta_without_reference_is_refused():
    with pytest.raises(ValueError, match="ref_log_probs must be given"):
        objective_terms(torch.zeros(1, 1), token_batch([[True]]), objective(beta=0.1))


def test_an_integer_mask_is_refused():
    batch = replace(token_batch([[True]]), response_mask=torch.ones(1, 1, dtype=torch.long))
    with pytest.raises(ValueError, match=r"response_mask must be bool, got torch\.int64"):
        objective_terms(torch.zeros(1, 1), batch, objective())
