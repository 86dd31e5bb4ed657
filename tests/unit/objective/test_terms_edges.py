"""Exactly at clamps and bounds, batches of no or one token, and what is refused."""

import math

import pytest
import torch

from gmts.objective.advantage import group_advantages
from gmts.objective.algorithms import ALGORITHMS
from gmts.objective.signal import signal_of
from gmts.objective.terms import objective_terms
from gmts.objective.weights import loss_weights
from tests.support.core import objective, token_batch


def solve(log_ratio, advantage, *, kl=0.0, dtype=torch.float64, **changes):
    """Return (terms, gradient of the policy loss, gradient of the KL loss) of one token."""
    log_probs = torch.zeros(1, 1, dtype=dtype, requires_grad=True)
    batch = token_batch(
        [[True]],
        old=torch.tensor([[-log_ratio]], dtype=dtype),
        ref=torch.tensor([[kl]], dtype=dtype),
        advantages=torch.tensor([advantage], dtype=dtype),
    )
    terms = objective_terms(log_probs, batch, objective(**changes))
    gradients = []
    for loss in (terms.pg_loss, terms.kl_loss):
        if loss.requires_grad:
            gradients.append(torch.autograd.grad(loss.sum(), log_probs, retain_graph=True)[0])
        else:
            gradients.append(torch.zeros(1, 1, dtype=dtype))
    return terms, gradients[0].item(), gradients[1].item()


def test_a_log_ratio_of_exactly_20_is_whole_and_the_next_number_is_cut():
    terms, gradient, _ = solve(20.0, -1.0)
    assert gradient == -terms.pg_omega.item() == pytest.approx(math.exp(20.0), rel=1e-14)
    assert not terms.clamped.any()
    terms, gradient, _ = solve(math.nextafter(20.0, 21.0), -1.0)
    assert gradient == terms.pg_omega.item() == 0.0
    assert terms.clamped.all()
    terms, gradient, _ = solve(-20.0, 1.0)
    assert -gradient == terms.pg_omega.item() == pytest.approx(math.exp(-20.0), rel=1e-14)
    terms, gradient, _ = solve(math.nextafter(-20.0, -21.0), 1.0)
    assert gradient == terms.pg_omega.item() == 0.0


def test_gspo_cuts_a_mean_log_ratio_above_10_but_none_below():
    terms, gradient, _ = solve(10.0, -1.0, algorithm="gspo")
    assert gradient == -terms.pg_omega.item() == pytest.approx(math.exp(10.0), rel=1e-14)
    terms, gradient, _ = solve(math.nextafter(10.0, 11.0), -1.0, algorithm="gspo")
    assert gradient == terms.pg_omega.item() == 0.0
    assert terms.clamped.all()
    assert terms.pg_loss.item() == pytest.approx(math.exp(10.0), rel=1e-14)
    terms, gradient, _ = solve(-100.0, 1.0, algorithm="gspo")
    assert -gradient == terms.pg_omega.item() == pytest.approx(math.exp(-100.0), rel=1e-12)
    assert not terms.clamped.any()


def test_the_kl_term_is_whole_below_its_cap_and_cut_above_it():
    # exp(x) - x - 1 = 10 near x = 2.6
    low, high = 2.0, 3.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if math.exp(middle) - middle - 1 < 10 else (low, middle)
    terms, _, gradient = solve(0.0, 0.0, kl=low - 1e-9, beta=0.5)
    assert -gradient == terms.kl_omega.item() == pytest.approx(0.5 * math.expm1(low), rel=1e-8)
    terms, _, gradient = solve(0.0, 0.0, kl=high + 1e-9, beta=0.5)
    assert gradient == terms.kl_omega.item() == 0.0
    assert terms.kl_loss.item() == 5.0
    assert terms.clamped.all()


@pytest.mark.parametrize("kl", [100.0, -100.0, 21.0, -21.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_c08_a_far_reference_costs_ten_beta_and_pulls_at_nothing(kl, dtype):
    terms, _, gradient = solve(0.0, 1.0, kl=kl, beta=0.5, dtype=dtype)
    assert terms.kl_loss.item() == 5.0
    assert gradient == terms.kl_omega.item() == 0.0
    assert terms.pg_omega.item() == 1.0
    assert terms.clamped.all()


@pytest.mark.parametrize("kl", [9.9e-6, -9.9e-6, 0.0])
def test_a_kl_ratio_within_the_tolerance_is_zero_in_loss_gradient_and_omega_alike(kl):
    terms, _, gradient = solve(0.0, 1.0, kl=kl, beta=1.0, kl_zero_tolerance=1e-5)
    assert terms.kl_loss.item() == terms.kl_omega.item() == gradient == 0.0


@pytest.mark.parametrize("kl", [1e-5, -1e-5, 1.1e-5])
def test_a_kl_ratio_from_the_tolerance_on_is_whole(kl):
    terms, _, gradient = solve(0.0, 1.0, kl=kl, beta=1.0, kl_zero_tolerance=1e-5)
    assert -gradient == terms.kl_omega.item() == pytest.approx(math.expm1(kl), rel=1e-9)


@pytest.mark.parametrize(
    ("log_ratio", "advantage", "flag"),
    [
        (math.log(1.5), 1.0, "clipped_high"),
        (math.log(0.5), -1.0, "clipped_low"),
        (math.log(3.5), -1.0, "clipped_dual"),
        (math.log(3.5), 1.0, "clipped_high"),
    ],
)
def test_each_bound_is_counted_under_its_own_name(log_ratio, advantage, flag):
    terms, gradient, _ = solve(log_ratio, advantage, dual_clip=3.0)
    flags = ("clipped_high", "clipped_low", "clipped_dual", "clamped")
    assert [name for name in flags if getattr(terms, name).any()] == [flag]
    assert gradient == terms.pg_omega.item() == 0.0


@pytest.mark.parametrize("log_ratio", [math.log(0.5), math.log(1.5), 0.0])
def test_the_side_that_is_not_clipped_keeps_its_gradient(log_ratio):
    advantage = 1.0 if log_ratio < 0 else -1.0
    terms, gradient, _ = solve(log_ratio, advantage)
    assert -gradient == terms.pg_omega.item() == advantage * math.exp(log_ratio)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_numbers_keep_their_precision(dtype, algorithm):
    terms, _, _ = solve(0.01, 1.0, kl=0.1, dtype=dtype, beta=0.1, algorithm=algorithm)
    for name in ("pg_loss", "pg_omega", "kl_loss", "kl_omega"):
        assert getattr(terms, name).dtype == dtype
    batch = token_batch([[True]], old=torch.zeros(1, 1, dtype=dtype))
    mask = batch.response_mask
    config = objective(algorithm=algorithm)
    assert loss_weights(batch, mask, mask, config, max_response_tokens=1).pg.dtype == dtype
    options = {"normalize_by_std": True, "std_ddof": 1}
    scores, pair = torch.tensor([1, 0], dtype=dtype), torch.ones(2, dtype=torch.bool)
    result = group_advantages(scores, torch.zeros(2, dtype=torch.long), pair, **options)
    assert result.advantages.dtype == dtype


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0, 0), (2, 3), (1, 1)])
@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_no_token_is_loss_zero_and_no_signal(shape, algorithm):
    mask = torch.zeros(shape, dtype=torch.bool)
    log_probs = torch.full(shape, math.nan, dtype=torch.float64, requires_grad=True)
    batch = token_batch(mask, ref=torch.zeros(shape, dtype=torch.float64))
    for denominator in ("selected", "eligible", "all", "group_selected"):
        config = objective(algorithm=algorithm, beta=0.1, denominator=denominator, mask_kl=False)
        terms = objective_terms(log_probs, batch, config)
        weights = loss_weights(batch, mask, mask, config, max_response_tokens=3)
        loss = (weights.pg * terms.pg_loss + weights.kl * terms.kl_loss).sum()
        (gradient,) = torch.autograd.grad(loss, log_probs)
        assert loss.item() == 0.0
        assert not gradient.any()
        assert signal_of(batch, terms, mask, config) == "none"


def test_empty_responses_among_others_change_no_gspo_ratio():
    log_probs = torch.tensor([[-1.0, -2.0], [-1.0, -1.0], [-0.5, -9.0]], dtype=torch.float64)
    mask = torch.tensor([[True, True], [False, False], [True, False]])
    batch = token_batch(
        mask,
        old=log_probs - torch.tensor([[0.2, 0.0], [5.0, 5.0], [0.3, 7.0]], dtype=torch.float64),
        advantages=torch.ones(3, dtype=torch.float64),
    )
    omega = objective_terms(log_probs, batch, objective(algorithm="gspo", clip_ratio_high=9))
    expected = [[math.exp(0.1)] * 2, [0.0, 0.0], [math.exp(0.3), 0.0]]
    for row, values in zip(omega.pg_omega.tolist(), expected, strict=True):
        assert row == pytest.approx(values, rel=1e-12)


MASK = torch.tensor([[True, True]])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"selected": torch.tensor([[1, 0]])}, r"selected must be bool, got torch\.int64"),
        ({"eligible": torch.tensor([[1, 0]])}, r"eligible must be bool, got torch\.int64"),
        (
            {"eligible": torch.ones(1, 3, dtype=torch.bool)},
            r"eligible must have the shape of response_mask \(1, 2\), got \(1, 3\)",
        ),
        (
            {"selected": torch.ones(2, 2, dtype=torch.bool)},
            r"selected must have the shape of response_mask \(1, 2\), got \(2, 2\)",
        ),
    ],
)
def test_weights_refuse_masks_of_another_type_or_shape(changes, message):
    masks = {"selected": MASK, "eligible": MASK} | changes
    with pytest.raises(ValueError, match=message):
        loss_weights(token_batch(MASK), **masks, config=objective(), max_response_tokens=2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"valid": torch.ones(3, dtype=torch.long)}, r"valid must be bool, got torch\.int64"),
        (
            {"valid": torch.ones(1, dtype=torch.bool)},
            r"valid must have the shape of scores \(3,\), got \(1,\)",
        ),
        (
            {"group_ids": torch.zeros(2, dtype=torch.long)},
            r"group_ids must have the shape of scores \(3,\), got \(2,\)",
        ),
        ({"scores": torch.tensor([1.0, math.inf, 0.0])}, r"response 1 \(group 0\) must be finite"),
    ],
)
def test_advantages_refuse_what_does_not_fit_together(changes, message):
    arguments = {
        "scores": torch.tensor([1.0, 0.0, 1.0]),
        "group_ids": torch.zeros(3, dtype=torch.long),
        "valid": torch.ones(3, dtype=torch.bool),
    }
    with pytest.raises(ValueError, match=message):
        group_advantages(**(arguments | changes), normalize_by_std=True, std_ddof=1)
