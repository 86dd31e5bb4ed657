"""What math says of scores before anything is selected: order by entropy, gmts against ets, KL."""

import itertools
import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gmts.objective.terms import objective_terms
from gmts.selection.scores import score_tokens
from gmts.selection.select import select_tokens
from tests.support.core import objective, selection, token_batch, token_stats

ENTROPIES = st.lists(st.floats(0, 4, allow_subnormal=False), min_size=1, max_size=12)
RATIOS = st.sampled_from([0.1, 0.2, 0.5, 1.0])


def scored(entropies, advantages, *, log_ratio=0.0, ref=None, dtype=torch.float64, **changes):
    """Score rows of equal length; returns (scores, batch, stats)."""
    entropy = torch.tensor(entropies, dtype=dtype)
    old = torch.full(entropy.shape, -1.0, dtype=dtype)
    batch = token_batch(
        torch.ones(entropy.shape, dtype=torch.bool),
        old=old,
        ref=None if ref is None else old + ref,
        advantages=torch.tensor(advantages, dtype=dtype),
    )
    stats = token_stats(old + log_ratio, entropy=entropy)
    config = objective(**changes)
    omega = objective_terms(stats.log_probs, batch, config).omega(mask_kl=config.mask_kl)
    return score_tokens(stats, omega, batch, "gmts", seed=0, step=0), batch, stats


@settings(max_examples=200, deadline=None)
@given(ENTROPIES, st.floats(-3, 3), st.sampled_from([torch.float32, torch.float64]))
def test_on_policy_a_response_is_ordered_by_entropy(entropies, advantage, dtype):
    scores, _, _ = scored([entropies], [advantage], dtype=dtype)
    ordered = sorted(zip(entropies, scores.values[0].tolist(), strict=True))
    for (_, lower), (_, higher) in itertools.pairwise(ordered):
        assert higher >= lower


@settings(max_examples=200, deadline=None)
@given(ENTROPIES, st.floats(0.01, 3), RATIOS)
def test_with_equal_advantages_gmts_selects_what_ets_selects(entropies, size, ratio):
    positive = [max(value, 1e-3) for value in entropies]
    # Multiples of a power of two keep the order of entropies exactly.
    size = 2.0 ** round(math.log2(size))
    scores, batch, stats = scored([positive, positive[::-1]], [size, -size])
    by_entropy = score_tokens(stats, torch.zeros(2, len(positive)), batch, "ets", seed=0, step=0)
    masks = [
        select_tokens(s, batch, selection(score=name, ratio=ratio), seed=0, step=0).mask
        for name, s in (("gmts", scores), ("ets", by_entropy))
    ]
    assert torch.equal(*masks)


@settings(max_examples=200, deadline=None)
@given(ENTROPIES, st.sampled_from([(1.0, 0.5), (-1.0, -0.5)]), RATIOS)
def test_clipped_and_zero_advantage_tokens_are_never_selected_without_kl(entropies, clipped, ratio):
    advantage, log_ratio = clipped
    rows = [entropies, entropies]
    scores, batch, _ = scored(rows, [advantage, 0.0], log_ratio=log_ratio)
    result = select_tokens(scores, batch, selection(ratio=ratio), seed=0, step=0)
    assert result.num_selected == 0


@settings(max_examples=200, deadline=None)
@given(ENTROPIES, RATIOS, st.booleans())
def test_with_a_masked_kl_term_they_can_be(entropies, ratio, mask_kl):
    positive = [max(value, 1e-3) for value in entropies]
    scores, batch, _ = scored([positive], [0.0], ref=0.5, beta=0.1, mask_kl=mask_kl)
    result = select_tokens(scores, batch, selection(ratio=ratio), seed=0, step=0)
    assert (result.num_selected > 0) == mask_kl


def test_no_gradient_flows_through_a_score():
    log_probs = torch.full((1, 3), -1.0, dtype=torch.float64, requires_grad=True)
    batch = token_batch(
        torch.ones(1, 3, dtype=torch.bool),
        old=log_probs.detach(),
        advantages=torch.ones(1, dtype=torch.float64),
    )
    terms = objective_terms(log_probs, batch, objective())
    assert terms.pg_loss.requires_grad
    omega = terms.omega(mask_kl=True)
    assert not omega.requires_grad
    scores = score_tokens(token_stats(log_probs), omega, batch, "gmts", seed=0, step=0)
    assert not scores.values.requires_grad
