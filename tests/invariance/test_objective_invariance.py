"""What may not change advantages, terms and weights, and by how much nothing changes."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gmts.batch import TokenBatch
from gmts.objective.advantage import group_advantages
from gmts.objective.algorithms import ALGORITHMS
from gmts.objective.signal import signal_of
from gmts.objective.terms import objective_terms
from gmts.objective.weights import base_weights, loss_weights
from tests.reference import loops
from tests.support.core import objective, token_batch

EXAMPLES = settings(max_examples=200, deadline=None)
SEEDS = st.integers(0, 10**6)
LENGTHS = st.lists(st.integers(0, 5), min_size=1, max_size=6).filter(any)
ALGORITHM = st.sampled_from(list(ALGORITHMS))
DTYPES = st.sampled_from([torch.float32, torch.float64])
DENOMINATORS = ("selected", "eligible", "all", "group_selected")
FIELDS = ("pg_loss", "pg_omega", "kl_loss", "kl_omega", "clipped_low", "clipped_high", "clamped")
FIELDS += ("rollout_weights", "truncated")
LIMIT = 9


def draw(seed, *shape, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def mini_batch(seed, lengths, dtype=torch.float64):
    """Return (log-probs, batch, eligible, selected) with ratios on both sides of every bound."""
    shape = (len(lengths), max(lengths))
    mask = torch.arange(shape[1]) < torch.tensor(lengths)[:, None]
    log_probs = -draw(seed, *shape, dtype=dtype).abs()
    batch = token_batch(
        mask,
        old=log_probs - 0.3 * draw(seed + 1, *shape, dtype=dtype),
        ref=log_probs + 0.5 * draw(seed + 2, *shape, dtype=dtype),
        rollout=log_probs - 0.8 * draw(seed + 7, *shape, dtype=dtype),
        advantages=draw(seed + 3, shape[0], dtype=dtype).round(),
        group_ids=draw(seed + 4, shape[0]).long() + 10,
    )
    eligible = mask & (draw(seed + 5, *shape) > -0.5)
    return log_probs, batch, eligible, eligible & (draw(seed + 6, *shape) > -0.2)


def settings_of(algorithm, **changes):
    bounds = {"clip_ratio_low": 0.05, "clip_ratio_high": 0.07} if algorithm == "gspo" else {}
    common = {"algorithm": algorithm, "beta": 0.04, "rollout_is": "token"}
    return objective(**(common | bounds | changes))


def assert_terms(found, expected, where, *, rtol=0.0, atol=0.0):
    for name in FIELDS:
        torch.testing.assert_close(
            getattr(found, name)[where], getattr(expected, name), rtol=rtol, atol=atol
        )


@EXAMPLES
@given(SEEDS, LENGTHS, ALGORITHM, st.floats(-100, 100))
def test_a_constant_added_to_all_logits_changes_no_term(seed, lengths, algorithm, shift):
    _, batch, _, _ = mini_batch(seed, lengths)
    logits = 2 * draw(seed, *batch.response_mask.shape, 7)

    def terms(values):
        log_probs = values.log_softmax(-1)[..., 3]
        old = logits.log_softmax(-1)[..., 3] - 0.3 * draw(seed + 1, *batch.response_mask.shape)
        part = replace(batch, old_log_probs=old)
        return objective_terms(log_probs, part, settings_of(algorithm))

    assert_terms(terms(logits + shift), terms(logits), slice(None), rtol=1e-10, atol=1e-10)


@EXAMPLES
@given(SEEDS, LENGTHS, ALGORITHM, st.integers(0, 70), DTYPES)
def test_padding_and_what_stands_in_it_change_nothing(seed, lengths, algorithm, extra, dtype):
    log_probs, batch, eligible, selected = mini_batch(seed, lengths, dtype)
    rows, width = batch.response_mask.shape
    garbage = torch.tensor([math.nan, math.inf, -math.inf, 100.0], dtype=dtype)

    def wider(tensor, fill):
        grown = fill[torch.arange((rows + 1) * (width + extra)) % len(fill)]
        grown = grown.reshape(rows + 1, width + extra).clone()
        grown[:rows, :width] = tensor
        return grown

    def wider_mask(tensor):
        return wider(tensor, torch.tensor([False]))

    padded = TokenBatch(
        response_ids=wider(batch.response_ids, torch.tensor([3])),
        response_mask=wider_mask(batch.response_mask),
        old_log_probs=wider(batch.old_log_probs, garbage),
        ref_log_probs=wider(batch.ref_log_probs, garbage.flip(0)),
        advantages=torch.cat([batch.advantages, garbage[:1]]),
        sample_ids=torch.arange(rows + 1),
        group_ids=torch.cat([batch.group_ids, torch.tensor([99])]),
        rollout_log_probs=wider(batch.rollout_log_probs, garbage[[3, 0]]),
    )
    config = settings_of(algorithm)
    found = objective_terms(wider(log_probs, garbage[[1, 2]]), padded, config)
    expected = objective_terms(log_probs, batch, config)
    rtol = 0.0 if ALGORITHMS[algorithm].ratio_level == "token" else 1e-6
    assert_terms(found, expected, (slice(rows), slice(width)), rtol=rtol)
    for name in ("pg_loss", "pg_omega", "kl_loss", "kl_omega"):
        assert torch.where(padded.response_mask, 0.0, getattr(found, name)).abs().sum() == 0
    assert signal_of(padded, found, wider_mask(selected), config) == signal_of(
        batch, expected, selected, config
    )
    for denominator in DENOMINATORS:
        config = settings_of(algorithm, denominator=denominator, mask_kl=False)
        plain = loss_weights(batch, selected, eligible, config, max_response_tokens=LIMIT)
        more = loss_weights(
            padded, wider_mask(selected), wider_mask(eligible), config, max_response_tokens=LIMIT
        )
        for name in ("pg", "kl"):
            inner = getattr(more, name)[:rows, :width]
            torch.testing.assert_close(inner, getattr(plain, name), rtol=1e-6, atol=0)
            assert getattr(more, name).sum() == pytest.approx(inner.sum().item(), rel=1e-5)


@EXAMPLES
@given(SEEDS, LENGTHS, ALGORITHM, st.sampled_from(DENOMINATORS), st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(seed, lengths, algorithm, denominator, random):
    log_probs, batch, eligible, selected = mini_batch(seed, lengths)
    config = settings_of(algorithm, denominator=denominator, mask_kl=False)
    index = list(range(len(lengths)))
    random.shuffle(index)
    index = torch.tensor(index)
    shuffled = batch.rows(index)
    found = objective_terms(log_probs[index], shuffled, config)
    expected = objective_terms(log_probs, batch, config)
    for name in FIELDS:
        assert torch.equal(getattr(found, name), getattr(expected, name)[index])
    weights = loss_weights(batch, selected, eligible, config, max_response_tokens=LIMIT)
    other = loss_weights(
        shuffled, selected[index], eligible[index], config, max_response_tokens=LIMIT
    )
    torch.testing.assert_close(other.pg, weights.pg[index], rtol=1e-14, atol=0)
    torch.testing.assert_close(other.kl, weights.kl[index], rtol=1e-14, atol=0)


@EXAMPLES
@given(
    SEEDS, LENGTHS, ALGORITHM, st.sampled_from(DENOMINATORS), st.booleans(), st.integers(1, 3)
)  # fmt: skip
def test_micro_batches_add_up_to_the_gradient_of_the_whole(
    seed, lengths, algorithm, denominator, mask_kl, size
):
    values, batch, eligible, selected = mini_batch(seed, lengths)
    config = settings_of(algorithm, denominator=denominator, mask_kl=mask_kl)
    weights = loss_weights(batch, selected, eligible, config, max_response_tokens=LIMIT)

    def backward(parts):
        log_probs = values.clone().requires_grad_()
        total = 0.0
        for rows in parts:  # the last may hold fewer
            terms = objective_terms(log_probs[rows], batch.rows(rows), config)
            loss = (weights.pg[rows] * terms.pg_loss + weights.kl[rows] * terms.kl_loss).sum()
            loss.backward()
            total += loss.item()
        return total, log_probs.grad

    every = torch.arange(len(lengths))
    whole, gradient = backward([every])
    split, parts_gradient = backward(every.split(size))
    assert split == pytest.approx(whole, rel=1e-12, abs=1e-14)
    assert torch.equal(parts_gradient, gradient)


@EXAMPLES
@given(LENGTHS, ALGORITHM, st.sampled_from(["selected", "eligible", "all"]))
def test_with_every_token_selected_weights_are_the_plain_algorithms_bit_for_bit(
    lengths, algorithm, denominator
):
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    config = settings_of(algorithm, denominator=denominator)
    weights = loss_weights(token_batch(mask), mask, mask, config, max_response_tokens=LIMIT)
    plain = loops.base_weights(lengths, ALGORITHMS[algorithm].aggregation, LIMIT)
    for row, expected in zip(weights.pg.tolist(), plain, strict=True):
        assert row == expected + [0.0] * (len(row) - len(expected))
    assert torch.equal(weights.kl, weights.pg)


@EXAMPLES
@given(SEEDS, LENGTHS, ALGORITHM)
def test_eligible_at_ratio_one_is_plain_bit_for_bit_on_the_eligible(seed, lengths, algorithm):
    _, batch, eligible, _ = mini_batch(seed, lengths)
    config = settings_of(algorithm, denominator="eligible")
    weights = loss_weights(batch, eligible, eligible, config, max_response_tokens=LIMIT)
    base = base_weights(batch.response_mask, config, max_response_tokens=LIMIT)
    assert torch.equal(weights.pg, torch.where(eligible, base, 0.0))


@EXAMPLES
@given(SEEDS, LENGTHS, ALGORITHM)
def test_the_weight_that_selected_tokens_share_is_what_the_denominator_says(
    seed, lengths, algorithm
):
    _, batch, eligible, selected = mini_batch(seed, lengths)
    base = base_weights(batch.response_mask, settings_of(algorithm), max_response_tokens=LIMIT)

    def shared(denominator):
        config = settings_of(algorithm, denominator=denominator)
        weights = loss_weights(batch, selected, eligible, config, max_response_tokens=LIMIT).pg
        assert not weights[~selected].any()
        return weights

    some = 1.0 if bool(selected.any()) else 0.0
    total = shared("selected").sum().item()
    assert total == pytest.approx(some * base.sum().item(), rel=1e-12)
    total = shared("eligible").sum().item()
    assert total == pytest.approx(some * base[eligible].sum().item(), rel=1e-12)
    assert torch.equal(shared("all")[selected], base[selected])
    weights = shared("group_selected")
    groups = batch.group_ids[batch.response_mask.any(1)].unique()
    for group in groups:
        own = weights[batch.group_ids == group]
        chosen = bool(selected[batch.group_ids == group].any())
        assert own.sum().item() == pytest.approx(chosen / len(groups), rel=1e-12)
        assert len(own[own != 0].unique()) <= 1


SCORES = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([0.0, 0.5, 1.0, -0.1]), st.booleans()),
    min_size=1, max_size=12,
)  # fmt: skip


def of(rows, *, std=True):
    groups, scores, valid = zip(*rows, strict=True)
    return group_advantages(
        torch.tensor(scores, dtype=torch.float64),
        torch.tensor(groups),
        torch.tensor(valid),
        normalize_by_std=std,
        std_ddof=1,
    )


@EXAMPLES
@given(SCORES, st.floats(-1e6, 1e6), st.booleans())
def test_advantages_do_not_depend_on_rejected_rewards_or_other_groups(rows, other, std):
    plain = of(rows, std=std)
    changed = of([(g, s if v else math.nan, v) for g, s, v in rows], std=std)
    assert torch.equal(changed.advantages, plain.advantages)
    assert torch.equal(changed.valid, plain.valid)
    changed = of([(g, other if g == 0 else s, v) for g, s, v in rows], std=std)
    untouched = torch.tensor([group != 0 for group, _, _ in rows])
    assert torch.equal(changed.advantages[untouched], plain.advantages[untouched])
    assert not plain.advantages[~plain.valid].any()


@EXAMPLES
@given(SCORES, st.floats(-100, 100), st.booleans())
def test_advantages_are_centred_and_blind_to_a_constant_reward(rows, constant, std):
    plain = of(rows, std=std)
    shifted = of([(g, s + constant, v) for g, s, v in rows], std=std)
    torch.testing.assert_close(shifted.advantages, plain.advantages, rtol=1e-9, atol=1e-9)
    for group in {group for group, _, _ in rows}:
        where = torch.tensor([g == group for g, _, _ in rows]) & plain.valid
        assert plain.advantages[where].sum().item() == pytest.approx(0.0, abs=1e-12)
        scores = {s for g, s, v in rows if g == group and v}
        assert bool(plain.advantages[where].any()) == (len(scores) > 1 and bool(where.any()))
