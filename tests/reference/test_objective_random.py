"""Whole mini-batch losses of random settings: loss and logit gradient against plain loops."""

import math
from dataclasses import replace
from itertools import product

import pytest
import torch
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from gmts.objective.algorithms import ALGORITHMS
from gmts.objective.terms import objective_terms
from gmts.objective.weights import loss_weights
from tests.reference import loops
from tests.support.core import objective, token_batch

VOCABULARY = 5
LIMIT = 7
NOISE = st.sampled_from([0.0, 0.1, 0.5, 5.0, 40.0])


@st.composite
def configs(draw):
    algorithm = draw(st.sampled_from(list(ALGORITHMS)))
    return objective(
        algorithm=algorithm,
        clip_ratio_low=draw(st.sampled_from([0.0003, 0.2, 0.9])),
        clip_ratio_high=draw(st.sampled_from([0.0004, 0.28, 3.0])),
        dual_clip=None if algorithm == "gspo" else draw(st.sampled_from([None, 1.1, 3.0])),
        beta=draw(st.sampled_from([0.0, 0.001, 0.04])),
        denominator=draw(st.sampled_from(["selected", "eligible", "all", "group_selected"])),
        mask_kl=draw(st.booleans()),
        rollout_is=draw(st.sampled_from([None, "token"])),
        rollout_is_threshold=draw(st.sampled_from([1.0, 2.0, 1e3])),
    )


class Problem:
    """A random mini-batch, as tensors and as lists."""

    def __init__(self, seed, lengths, old_noise, ref_noise, rollout_noise=0.7):
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape):
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        rows, width = len(lengths), max(lengths)
        self.lengths = lengths
        self.logits = (3 * normal(rows, width, VOCABULARY)).requires_grad_()
        self.ids = torch.randint(0, VOCABULARY, (rows, width), generator=generator)
        self.mask = torch.arange(width) < torch.tensor(lengths)[:, None]
        log_p = self.logits.log_softmax(-1)
        self.log_probs = log_p.gather(-1, self.ids[..., None])[..., 0]
        values = self.log_probs.detach()
        choices = torch.tensor([1.5, -1.5, 0.4, -0.4, 0.0], dtype=torch.float64)
        self.advantages = choices[torch.randint(0, 5, (rows,), generator=generator)]
        self.groups = torch.randint(0, 2, (rows,), generator=generator)
        self.batch = token_batch(
            self.mask,
            old=values + old_noise * normal(rows, width),
            ref=values + ref_noise * normal(rows, width),
            advantages=self.advantages,
            group_ids=self.groups,
        )
        gaps = rollout_noise * normal(rows, width)
        self.batch = replace(self.batch, rollout_log_probs=self.batch.old_log_probs - gaps)
        self.eligible = self.mask & (torch.rand(rows, width, generator=generator) < 0.7)
        self.selected = self.eligible & (torch.rand(rows, width, generator=generator) < 0.6)

    def listed(self, tensor):
        """The response tokens of each row."""
        rows = tensor.detach().tolist()
        return [row[:length] for row, length in zip(rows, self.lengths, strict=True)]

    def responses(self):
        names = ("old_log_probs", "ref_log_probs", "rollout_log_probs")
        tensors = (self.log_probs, *(getattr(self.batch, name) for name in names))
        columns = [*map(self.listed, tensors), self.advantages.tolist()]
        keys = ("new", "old", "ref", "rollout", "A")
        return [dict(zip(keys, row, strict=True)) for row in zip(*columns, strict=True)]


def loop_config(config):
    return {
        "level": ALGORITHMS[config.algorithm].ratio_level,
        "eps1": config.clip_ratio_low,
        "eps2": config.clip_ratio_high,
        "c": config.dual_clip,
        "beta": config.beta,
        "C": config.rollout_is_threshold if config.rollout_is else None,
    }


def reference(problem, config):
    """Return (loss, gradient of it in the logits) of the mini-batch."""
    terms = loops.token_terms(problem.responses(), loop_config(config))
    base = loops.base_weights(problem.lengths, ALGORITHMS[config.algorithm].aggregation, LIMIT)
    counted = [
        (w, m, e, g)
        for w, m, e, g in zip(
            base,
            problem.listed(problem.selected),
            problem.listed(problem.eligible),
            problem.groups.tolist(),
            strict=True,
        )
        if w
    ]
    rows = iter(loops.final_weights(*map(list, zip(*counted, strict=True)), config.denominator))
    weights = [next(rows) if w else [] for w in base]
    p = problem.logits.detach().softmax(-1).tolist()
    gradient = torch.zeros_like(problem.logits).tolist()
    losses = []
    for i, row in enumerate(terms):
        for t, (value, pg_omega, penalty, kl_omega) in enumerate(row):
            weight = weights[i][t]
            kl_weight = weight if config.mask_kl else base[i][t]
            losses.append(kl_weight * penalty - weight * value)
            pull = weight * pg_omega + kl_weight * kl_omega
            for v in range(VOCABULARY):
                onehot = 1.0 if v == int(problem.ids[i, t]) else 0.0
                gradient[i][t][v] = -pull * (onehot - p[i][t][v])
    return math.fsum(losses), torch.tensor(gradient, dtype=torch.float64)


def ours(problem, config):
    terms = objective_terms(problem.log_probs, problem.batch, config)
    weights = loss_weights(
        problem.batch, problem.selected, problem.eligible, config, max_response_tokens=LIMIT
    )
    loss = (weights.pg * terms.pg_loss + weights.kl * terms.kl_loss).sum()
    (gradient,) = torch.autograd.grad(loss, problem.logits, retain_graph=True)
    return loss.item(), gradient, terms, weights


def far_from_bounds(problem, config):
    """Whether no ratio is so near to a bound that the last bit of exp decides."""
    bounds = [1 + config.clip_ratio_high, 1 - config.clip_ratio_low, config.dual_clip or 1.1]
    for response in problem.responses():
        logs = [n - o for n, o in zip(response["new"], response["old"], strict=True)]
        if logs:
            logs.append(math.fsum(logs) / len(logs))
        for log, bound in product(logs, bounds):
            if abs(log - math.log(bound)) < 1e-9:
                return False
    return True


@settings(max_examples=400, deadline=None)
@given(
    configs(),
    st.integers(0, 10**6),
    st.lists(st.integers(0, 4), min_size=1, max_size=4).filter(any),
    NOISE,
    NOISE,
)
def test_loss_and_gradient_of_a_mini_batch_equal_plain_loops(config, seed, lengths, old, ref):
    problem = Problem(seed, lengths, old, ref)
    assume(far_from_bounds(problem, config))
    loss, gradient, terms, weights = ours(problem, config)
    expected_loss, expected = reference(problem, config)
    assert loss == pytest.approx(expected_loss, rel=1e-9, abs=1e-12)
    torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-12)
    for flag in ("clipped_low", "clipped_high", "clipped_dual", "clamped", "truncated"):
        if bool(getattr(terms, flag).any()):
            event(flag)
    silent = (weights.pg == 0) & ((weights.kl == 0) | (terms.kl_omega == 0))
    assert gradient[silent].abs().sum() == 0


@settings(max_examples=200, deadline=None)
@given(configs(), st.integers(0, 10**6), st.lists(st.integers(1, 4), min_size=1, max_size=4), NOISE)
def test_omega_is_zero_exactly_where_the_gradient_is(config, seed, lengths, noise):
    problem = Problem(seed, lengths, noise, noise)
    terms = objective_terms(problem.log_probs, problem.batch, config)
    for loss, omega in ((terms.pg_loss, terms.pg_omega), (terms.kl_loss, terms.kl_omega)):
        if not loss.requires_grad:
            assert not omega.any()
            continue
        (gradient,) = torch.autograd.grad(loss.sum(), problem.log_probs, retain_graph=True)
        assert torch.equal(gradient != 0, omega != 0)
        torch.testing.assert_close(-gradient, omega, rtol=1e-12, atol=1e-16)
