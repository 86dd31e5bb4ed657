"""Each token's loss and omega against plain loops and against autograd through the logits."""

import itertools
import math
from dataclasses import replace

import pytest
import torch

from gmts.objective.algorithms import ALGORITHMS
from gmts.objective.terms import objective_terms
from tests.reference import loops
from tests.support.core import objective, token_batch

EPS1, EPS2 = 0.2, 0.28
LOG_RATIOS = {
    "inside": 0.1,
    "at low": math.log(1 - EPS1),
    "below low": math.log(0.7),
    "at high": math.log(1 + EPS2),
    "above high": math.log(1.5),
    "above dual": math.log(3.5),
    "clamped up": 100.0,
    "clamped down": -100.0,
}
KL_LOG_RATIOS = [0.0, 0.5, -0.5, 2.0, -9.0, -12.0, 100.0, -100.0]
C = 2.0
MISMATCHES = {
    "rare in the sampler": [0.3, math.log(C), 0.7],
    "truncated": [0.8, 5.0, 100.0],
    "frequent in the sampler": [-0.3, -5.0, -100.0],
    "none": [0.0, 0.0, 0.0],
}
"""log(pi_old / pi_rollout) of three tokens."""


def loop_config(config):
    return {
        "level": ALGORITHMS[config.algorithm].ratio_level,
        "eps1": config.clip_ratio_low,
        "eps2": config.clip_ratio_high,
        "c": config.dual_clip,
        "beta": config.beta,
        "C": config.rollout_is_threshold if config.rollout_is else None,
    }


def case(log_ratios, kl_log_ratios, A, mismatches=(0.0, 0.0, 0.0)):
    """Three tokens over a vocabulary of 5, with the wanted log-ratios to old and reference."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(len(log_ratios), 5, generator=generator, dtype=torch.float64)
    logits.requires_grad_()
    ids = torch.tensor([1, 3, 0])[: len(log_ratios)]
    log_probs = logits.log_softmax(-1).gather(1, ids[:, None])[:, 0]
    values = log_probs.detach()
    batch = token_batch(
        torch.ones(1, len(log_ratios), dtype=torch.bool),
        old=(values - torch.tensor(log_ratios, dtype=torch.float64))[None],
        ref=(values + torch.tensor(kl_log_ratios, dtype=torch.float64))[None],
        advantages=torch.tensor([A], dtype=torch.float64),
    )
    wanted = torch.tensor(mismatches[: len(log_ratios)], dtype=torch.float64)
    batch = replace(batch, rollout_log_probs=batch.old_log_probs - wanted)
    response = {
        "new": values.tolist(),
        "old": batch.old_log_probs[0].tolist(),
        "ref": batch.ref_log_probs[0].tolist(),
        "rollout": batch.rollout_log_probs[0].tolist(),
        "A": A,
    }
    return logits, ids, log_probs, batch, response


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
@pytest.mark.parametrize("A", [1.5, -1.5, 0.0])
@pytest.mark.parametrize("branch", list(LOG_RATIOS))
@pytest.mark.parametrize("dual_clip", [None, 3.0])
def test_omega_times_onehot_minus_p_is_autograds_gradient(algorithm, A, branch, dual_clip):
    if algorithm == "gspo" and dual_clip is not None:
        dual_clip = None
    for beta, kl_log_ratio in itertools.product([0.0, 0.04], KL_LOG_RATIOS):
        config = objective(algorithm=algorithm, dual_clip=dual_clip, beta=beta)
        assert_autograds(config, case([LOG_RATIOS[branch]] * 3, [kl_log_ratio] * 3, A), branch)


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
@pytest.mark.parametrize("A", [1.5, -1.5])
@pytest.mark.parametrize("branch", list(LOG_RATIOS))
@pytest.mark.parametrize("mismatch", list(MISMATCHES))
def test_omega_with_rollout_weights_is_autograds_gradient(algorithm, A, branch, mismatch):
    dual_clip = None if algorithm == "gspo" else 3.0
    for beta in (0.0, 0.04):
        config = objective(
            algorithm=algorithm, dual_clip=dual_clip, beta=beta, rollout_is="token",
            rollout_is_threshold=C,
        )  # fmt: skip
        given = case([LOG_RATIOS[branch]] * 3, [0.5] * 3, A, MISMATCHES[mismatch])
        assert_autograds(config, given, branch)


def assert_autograds(config, given, branch):
    """Compare loss and omega of one response with loops and with autograd through the logits."""
    logits, ids, log_probs, batch, response = given
    terms = objective_terms(log_probs[None], batch, config)
    loss = (terms.pg_loss + terms.kl_loss).sum()
    (gradient,) = torch.autograd.grad(loss, logits)
    onehot = torch.nn.functional.one_hot(ids, 5).double()
    p = logits.detach().softmax(-1)
    omega = terms.omega(mask_kl=True)[0]
    torch.testing.assert_close(-gradient, omega[:, None] * (onehot - p), rtol=1e-10, atol=1e-12)
    assert torch.isfinite(gradient).all()
    [expected] = loops.token_terms([response], loop_config(config))
    # At a bound, whether r lies beyond it is a matter of the last bit of exp.
    if not branch.startswith("at "):
        expected_omega = torch.tensor([pg + kl for _, pg, _, kl in expected], dtype=omega.dtype)
        torch.testing.assert_close(omega, expected_omega, rtol=1e-10, atol=1e-12)
    values = torch.tensor([penalty - value for value, _, penalty, _ in expected], dtype=omega.dtype)
    torch.testing.assert_close(
        (terms.pg_loss + terms.kl_loss)[0].detach(), values, rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize(
    ("A", "bound", "beyond"),
    [(1.0, 1 + EPS2, math.inf), (-1.0, 1 - EPS1, 0.0), (-1.0, 3.0, math.inf)],
)
def test_the_gradient_is_whole_up_to_a_bound_and_gone_beyond_it(A, bound, beyond):
    # The neighbours of log(bound): exp lands on either side of the bound, or on it.
    log_ratio = math.log(bound)
    for _ in range(4):
        log_ratio = math.nextafter(log_ratio, math.inf if beyond == 0.0 else -math.inf)
    seen = set()
    for _ in range(9):
        log_probs = torch.zeros(1, 1, dtype=torch.float64, requires_grad=True)
        batch = token_batch(
            [[True]],
            old=torch.tensor([[-log_ratio]], dtype=torch.float64),
            advantages=torch.tensor([A], dtype=torch.float64),
        )
        terms = objective_terms(log_probs, batch, objective(dual_clip=3.0))
        (gradient,) = torch.autograd.grad(terms.pg_loss.sum(), log_probs)
        ratio = torch.tensor(log_ratio, dtype=torch.float64).exp().item()
        inside = ratio >= bound if beyond == 0.0 else ratio <= bound
        assert gradient.item() == pytest.approx(-A * ratio if inside else 0.0, abs=1e-12)
        assert terms.pg_omega.item() == pytest.approx(A * ratio if inside else 0.0, abs=1e-12)
        seen.add(inside)
        log_ratio = math.nextafter(log_ratio, math.inf if beyond else -math.inf)
    assert seen == {True, False}


def test_gspo_gives_no_gradient_to_a_token_that_does_not_carry_loss():
    logits, _, log_probs, batch, _ = case([0.0001, 0.0002, 0.0], [0.0] * 3, 1.0)
    terms = objective_terms(log_probs[None], batch, objective(algorithm="gspo"))
    (gradient,) = torch.autograd.grad(terms.pg_loss[0, 0], logits)
    assert gradient[0].abs().sum() > 0
    assert gradient[1:].abs().sum() == 0


def test_gspos_ratio_is_the_geometric_mean_over_all_response_tokens():
    _, _, log_probs, batch, _ = case([0.3, -0.1, 0.1], [0.0] * 3, 1.0)
    terms = objective_terms(log_probs[None], batch, objective(algorithm="gspo", clip_ratio_high=9))
    expected = torch.full((1, 3), math.exp(0.1), dtype=torch.float64)
    torch.testing.assert_close(terms.pg_omega, expected, rtol=1e-12, atol=0)
