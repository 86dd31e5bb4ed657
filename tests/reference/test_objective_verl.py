"""Losses, gradients and numeric clamps against the functions of the pinned verl itself.

verl takes half the gradient where two branches of a maximum are equal, so no case lies on a bound.
"""

import importlib.metadata
import math
import warnings
from types import SimpleNamespace

import pytest
import torch

from gmts.objective.terms import objective_terms
from tests.support.core import objective, token_batch

pytestmark = pytest.mark.slow  # importing verl takes as long as many a test file

INSIDE = [0.1, -0.1, math.log(0.7), math.log(1.5), math.log(3.5)]
AT_CLAMPS = [sign * value for value in (9.9, 10.1, 19.9, 20.1, 100.0) for sign in (1, -1)]
LOG_RATIOS = INSIDE + AT_CLAMPS


@pytest.fixture(scope="module")
def verl():
    assert importlib.metadata.version("verl") == "0.9.1"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # verl's own imports
        from verl.trainer.ppo import core_algos, rollout_corr_helper
        from verl.workers.config import ActorConfig

    def actor(**changes):
        return ActorConfig(
            strategy="fsdp2",
            rollout_n=1,
            ppo_micro_batch_size_per_gpu=1,
            clip_ratio_low=0.2,
            clip_ratio_high=0.28,
            **changes,
        )

    return SimpleNamespace(algorithms=core_algos, actor=actor, correction=rollout_corr_helper)


def rows(level):
    """Return log-probs [B, T] with their gradient on, and the batch; a row per log-ratio.

    For sequence ratios a row is two tokens that differ around the wanted mean.
    """
    spread = [0.0] if level == "token" else [0.4, -0.4]
    log_ratio = torch.tensor(LOG_RATIOS, dtype=torch.float64)[:, None] + torch.tensor(
        spread, dtype=torch.float64
    )
    old = torch.full_like(log_ratio, -2.0)
    log_probs = (old + log_ratio).requires_grad_()
    return log_probs, old, torch.ones(log_ratio.shape, dtype=torch.bool)


def gradient(loss, log_probs):
    (found,) = torch.autograd.grad(loss, log_probs)
    return found


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(
    ("name", "algorithm", "level", "dual_clip"),
    [("vanilla", "dapo", "token", 3.0), ("gspo", "gspo", "sequence", None)],
)
def test_policy_losses_and_their_gradients_are_verls(verl, name, algorithm, level, dual_clip, sign):
    log_probs, old, mask = rows(level)
    advantages = torch.full((len(mask),), sign, dtype=torch.float64)
    ours = objective_terms(
        log_probs,
        token_batch(mask, old=old, advantages=advantages),
        objective(algorithm=algorithm, dual_clip=dual_clip),
    )
    theirs, _ = verl.algorithms.get_policy_loss_fn(name)(
        old,
        log_probs,
        advantages[:, None].expand_as(old),
        mask,
        loss_agg_mode="token-sum",
        config=verl.actor() if dual_clip is None else verl.actor(clip_ratio_c=dual_clip),
    )
    torch.testing.assert_close(ours.pg_loss.sum(), theirs, rtol=1e-12, atol=1e-12)
    expected = gradient(theirs, log_probs)
    torch.testing.assert_close(-ours.pg_omega, expected, rtol=1e-12, atol=1e-12)
    assert (expected == 0).any()  # beyond a bound or a clamp
    assert (expected != 0).any()  # within all of them


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("threshold", [1.0, 2.0, 5.0])
@pytest.mark.parametrize(
    ("name", "algorithm", "level"), [("vanilla", "dapo", "token"), ("gspo", "gspo", "sequence")]
)
def test_losses_with_rollout_weights_are_verls(verl, name, algorithm, level, threshold, sign):
    log_probs, old, mask = rows(level)
    advantages = torch.full((len(mask),), sign, dtype=torch.float64)
    gaps = torch.tensor([0.0, 0.5, -0.5, 1.2, 30.0, -30.0], dtype=torch.float64)
    log_ratio = gaps[torch.arange(mask.numel()) % len(gaps)].view(mask.shape)
    ours = objective_terms(
        log_probs,
        token_batch(mask, old=old, rollout=old - log_ratio, advantages=advantages),
        objective(
            algorithm=algorithm, dual_clip=None if level == "sequence" else 3.0,
            rollout_is="token", rollout_is_threshold=threshold,
        ),
    )  # fmt: skip
    weights, metrics = verl.correction.compute_rollout_correction_weights(
        log_ratio, mask, "token", threshold
    )
    theirs, _ = verl.algorithms.get_policy_loss_fn(name)(
        old,
        log_probs,
        advantages[:, None].expand_as(old),
        mask,
        loss_agg_mode="token-sum",
        config=verl.actor(clip_ratio_c=3.0),
        rollout_is_weights=weights,
    )
    torch.testing.assert_close(ours.rollout_weights, weights, rtol=1e-12, atol=0)
    assert ours.rollout_weights.mean().item() == pytest.approx(metrics["rollout_is_mean"], rel=1e-6)
    share = ours.truncated.double().mean().item()
    assert share == pytest.approx(metrics["rollout_is_ratio_fraction_high"], rel=1e-6)
    torch.testing.assert_close(ours.pg_loss.sum(), theirs, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(-ours.pg_omega, gradient(theirs, log_probs), rtol=1e-12, atol=1e-12)


def test_without_dual_clip_losses_are_verls_with_its_bound_out_of_reach(verl):
    log_probs, old, mask = rows("token")
    advantages = torch.full((len(mask),), -1.0, dtype=torch.float64)
    ours = objective_terms(
        log_probs, token_batch(mask, old=old, advantages=advantages), objective(dual_clip=None)
    )
    theirs, _ = verl.algorithms.get_policy_loss_fn("vanilla")(
        old,
        log_probs,
        advantages[:, None].expand_as(old),
        mask,
        loss_agg_mode="token-sum",
        config=verl.actor(clip_ratio_c=math.exp(21)),
    )
    torch.testing.assert_close(ours.pg_loss.sum(), theirs, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(-ours.pg_omega, gradient(theirs, log_probs), rtol=1e-12, atol=1e-12)


def test_the_kl_and_its_gradient_are_verls(verl):
    log_probs, old, mask = rows("token")
    beta = 0.04
    # `old` is the reference here: its log-ratio is minus that of LOG_RATIOS, over the same clamps.
    ours = objective_terms(log_probs, token_batch(mask, old=old, ref=old), objective(beta=beta))
    theirs = beta * verl.algorithms.kl_penalty(log_probs, old, "low_var_kl")
    torch.testing.assert_close(ours.kl_loss, theirs, rtol=1e-12, atol=1e-12)
    expected = gradient(theirs.sum(), log_probs)
    torch.testing.assert_close(-ours.kl_omega, expected, rtol=1e-12, atol=1e-12)
    assert (expected == 0).any()
    assert ours.kl_loss.max() == beta * 10
