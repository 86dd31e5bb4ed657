"""What must not change the selected set, and what must hold of it, for any scores."""

import math
from dataclasses import replace

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gmts.batch import TokenStats
from gmts.objective.terms import objective_terms
from gmts.selection.scores import Scores, score_tokens
from gmts.selection.select import select_tokens
from tests.support.core import objective, selection, token_batch
from tests.support.selection_cases import random_case

CASES = st.integers(0, 10**9)
RATIOS = st.sampled_from([0.01, 0.1, 0.2, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0])
SIDES = st.sampled_from(["top", "bottom"])
SCOPES = st.sampled_from(["batch", "group"])
EXAMPLES = settings(max_examples=200, deadline=None)


def select(scores, batch, *, seed=0, step=0, **changes):
    return select_tokens(scores, batch, selection(**changes), seed=seed, step=step)


@EXAMPLES
@given(
    case=CASES,
    ratio=RATIOS,
    side=SIDES,
    scope=SCOPES,
    left=st.integers(0, 5),
    right=st.integers(0, 5),
)
def test_the_set_does_not_depend_on_the_side_or_amount_of_padding(
    case, ratio, side, scope, left, right
):
    batch, scores = random_case(case)

    def pad(tensor, value):
        return torch.nn.functional.pad(tensor, (left, right), value=value)

    padded_batch = replace(
        batch,
        response_ids=pad(batch.response_ids, 0),
        response_mask=pad(batch.response_mask, False),
        old_log_probs=pad(batch.old_log_probs, math.nan),
    )
    padded_scores = Scores(
        values=pad(scores.values, math.nan), eligible=pad(scores.eligible, False)
    )
    changes = {"ratio": ratio, "side": side, "scope": scope}
    before = select(scores, batch, **changes).mask
    after = select(padded_scores, padded_batch, **changes).mask
    assert torch.equal(pad(before, False), after)


@EXAMPLES
@given(case=CASES, ratio=RATIOS, side=SIDES, scope=SCOPES)
def test_micro_batches_do_not_matter_unless_they_are_the_scope(case, ratio, side, scope):
    batch, scores = random_case(case)
    config = selection(ratio=ratio, side=side, scope=scope)
    generator = torch.Generator().manual_seed(case)
    masks = [
        select_tokens(
            scores,
            batch,
            config,
            seed=0,
            step=0,
            micro_batch_ids=torch.randint(0, 3, batch.sample_ids.shape, generator=generator),
        ).mask
        for _ in range(2)
    ]
    assert torch.equal(*masks)


@EXAMPLES
@given(case=CASES, ratio=RATIOS, side=SIDES, scope=SCOPES)
def test_only_eligible_tokens_are_selected_and_as_many_as_asked(case, ratio, side, scope):
    batch, scores = random_case(case)
    found = select(scores, batch, ratio=ratio, side=side, scope=scope)
    assert not (found.mask & ~scores.eligible).any()
    assert not (found.mask & ~batch.response_mask).any()
    assert found.num_selected == int(found.mask.sum())
    if side == "top" and scope == "batch":
        wanted = math.ceil(round(ratio * 100) * int(batch.response_mask.sum()) / 100)
        eligible = int(scores.eligible.sum())
        assert found.num_selected == min(wanted, eligible)
        assert found.saturated == (wanted > eligible)


@EXAMPLES
@given(case=CASES, ratio=RATIOS, seed=st.integers(0, 2**63), step=st.integers(0, 2**31))
def test_no_token_left_out_scores_higher_than_one_selected(case, ratio, seed, step):
    batch, scores = random_case(case)
    found = select(scores, batch, ratio=ratio, seed=seed, step=step)
    again = select(scores, batch, ratio=ratio, seed=seed, step=step)
    assert torch.equal(found.mask, again.mask)
    left_out = scores.values[scores.eligible & ~found.mask]
    if found.threshold is not None and len(left_out):
        assert float(left_out.max()) <= found.threshold


def policy_case(seed: int, dtype, *, on_policy: bool):
    """Return statistics and a mini-batch whose advantages are often 0 and ratios often clipped."""
    generator = torch.Generator().manual_seed(seed)
    shape = (6, 7)
    mask = torch.arange(7) < torch.randint(1, 8, (6, 1), generator=generator)
    log_probs = -3 * torch.rand(shape, generator=generator, dtype=dtype)
    shift = 0.4 * torch.randn(shape, generator=generator, dtype=dtype)
    entropy = 2 * torch.rand(shape, generator=generator, dtype=dtype)
    entropy = torch.where(torch.rand(shape, generator=generator) < 0.2, 0.0, entropy)
    advantages = torch.tensor([-1.5, 0.0, 0.75, 2.0], dtype=dtype)[
        torch.randint(0, 4, (6,), generator=generator)
    ]
    batch = replace(
        token_batch(mask, advantages=advantages),
        old_log_probs=log_probs if on_policy else log_probs - shift,
        ref_log_probs=log_probs + 0.1,
    )
    stats = TokenStats(log_probs=log_probs, entropy=entropy, logit_grad_norm=entropy)
    return stats, batch


def gmts_scores(stats, batch, config) -> tuple[Scores, torch.Tensor]:
    terms = objective_terms(stats.log_probs, batch, config)
    omega = terms.omega(mask_kl=config.mask_kl)
    scores = score_tokens(stats, omega, batch, "gmts", seed=0, step=0)
    return scores, terms.clipped_low | terms.clipped_high


DTYPES = st.sampled_from([torch.float32, torch.float64])


@EXAMPLES
@given(case=CASES, dtype=DTYPES, ratio=RATIOS)
def test_gmts_never_selects_a_clipped_token_or_one_without_advantage(case, dtype, ratio):
    stats, batch = policy_case(case, dtype, on_policy=False)
    scores, clipped = gmts_scores(stats, batch, objective())
    mask = select(scores, batch, ratio=ratio).mask
    assert not (mask & (batch.advantages == 0)[:, None]).any()
    assert not (mask & clipped).any()
    assert not (mask & (stats.entropy == 0)).any()


@EXAMPLES
@given(case=CASES, dtype=DTYPES)
def test_with_kl_in_the_mask_gmts_may_select_any_token_of_positive_entropy(case, dtype):
    stats, batch = policy_case(case, dtype, on_policy=False)
    kl = objective(beta=0.5)
    scores, clipped = gmts_scores(stats, batch, kl)
    mask = select(scores, batch, ratio=1.0).mask
    silent = clipped | (batch.advantages == 0)[:, None]
    assert torch.equal(mask & silent, batch.response_mask & silent & (stats.entropy > 0))
    outside, _ = gmts_scores(stats, batch, replace(kl, mask_kl=False))
    assert not (select(outside, batch, ratio=1.0).mask & silent).any()


@EXAMPLES
@given(case=CASES, dtype=DTYPES)
def test_on_policy_gmts_orders_the_tokens_of_a_response_by_entropy(case, dtype):
    stats, batch = policy_case(case, dtype, on_policy=True)
    scores, _ = gmts_scores(stats, batch, objective())
    for row, mask in enumerate(batch.response_mask):
        order = stats.entropy[row][mask].argsort()
        assert (scores.values[row][mask][order].diff() >= 0).all()


@EXAMPLES
@given(case=CASES, dtype=DTYPES, ratio=RATIOS, size=st.sampled_from([0.25, 1.0, 2.0]))
def test_with_equal_advantages_gmts_is_ets_where_there_is_entropy(case, dtype, ratio, size):
    # A power of two, so that the product does not round.
    stats, batch = policy_case(case, dtype, on_policy=True)
    signs = torch.where(batch.sample_ids % 2 == 0, size, -size).to(dtype)
    batch = replace(batch, advantages=signs)
    gmts, _ = gmts_scores(stats, batch, objective())
    ets = score_tokens(stats, torch.ones_like(stats.entropy), batch, "ets", seed=0, step=0)
    by_gmts = select(gmts, batch, ratio=ratio).mask
    by_ets = select(ets, batch, ratio=ratio, score="ets").mask
    assert torch.equal(by_gmts, by_ets & (stats.entropy > 0))
