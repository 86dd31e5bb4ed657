import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gmts.objective.algorithms import ALGORITHMS
from gmts.objective.weights import base_weights, loss_weights
from tests.reference import loops
from tests.support.core import objective, token_batch

DENOMINATORS = ["selected", "eligible", "all", "group_selected"]


def padded(rows, width, dtype):
    return torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], dtype=dtype)


@st.composite
def batches(draw):
    lengths = draw(st.lists(st.integers(0, 5), min_size=1, max_size=8).filter(any))
    flags = [
        [draw(st.sampled_from([(True, True), (False, True), (False, False)])) for _ in range(n)]
        for n in lengths
    ]
    groups = [draw(st.integers(0, 2)) for _ in lengths]
    return lengths, flags, groups


@settings(max_examples=300, deadline=None)
@given(batches(), st.sampled_from(list(ALGORITHMS)), st.sampled_from(DENOMINATORS))
def test_weights_equal_the_plain_loops(batch, algorithm, denominator):
    lengths, flags, groups = batch
    width = max(lengths)
    selected = [[m for m, _ in row] for row in flags]
    eligible = [[e for _, e in row] for row in flags]
    tokens = token_batch(
        padded([[True] * n for n in lengths], width, torch.bool), group_ids=torch.tensor(groups)
    )
    weights = loss_weights(
        tokens,
        padded(selected, width, torch.bool),
        padded(eligible, width, torch.bool),
        objective(algorithm=algorithm, denominator=denominator, mask_kl=False),
        max_response_tokens=7,
    )
    base = loops.base_weights(lengths, ALGORITHMS[algorithm].aggregation, 7)
    counted = [group for group, n in zip(groups, lengths, strict=True) if n]
    kept = [
        (row, m, e, g)
        for row, m, e, g, n in zip(base, selected, eligible, groups, lengths, strict=True)
        if n
    ]
    expected = iter(
        loops.final_weights(
            [k[0] for k in kept], [k[1] for k in kept], [k[2] for k in kept], counted, denominator
        )
    )
    rows = [next(expected) if n else [] for n in lengths]
    torch.testing.assert_close(
        weights.pg, padded(rows, width, torch.float64), rtol=1e-12, atol=1e-15
    )
    torch.testing.assert_close(
        weights.kl, padded(base, width, torch.float64), rtol=1e-12, atol=1e-15
    )


def test_token_mean_of_one_token_in_ten_is_a_tenth():
    mask = torch.tensor([[True] + [False] * 8, [True] * 9])
    loss = torch.tensor([[1.0] * 9, [0.0] * 9], dtype=torch.float64)
    weights = loss_weights(token_batch(mask), mask, mask, objective(), max_response_tokens=9).pg
    assert (weights * loss).sum().item() == pytest.approx(0.1, abs=1e-15)
    for parts in ([[0], [1]], [[1, 0]]):
        total = sum((weights[rows] * loss[rows]).sum().item() for rows in parts)
        assert total == pytest.approx(0.1, abs=1e-15)


def test_masked_completions_leave_the_denominator_too():
    mask = torch.ones(4, 10, dtype=torch.bool)
    mask[2:] = False  # two truncated completions, filtered
    weights = loss_weights(token_batch(mask), mask, mask, objective(), max_response_tokens=10).pg
    assert weights.sum().item() == pytest.approx(1.0, abs=1e-12)
    assert weights[2:].abs().sum() == 0


@pytest.mark.parametrize("denominator", DENOMINATORS)
def test_nothing_selected_is_weight_zero_and_never_nan(denominator):
    mask = torch.ones(2, 3, dtype=torch.bool)
    nothing = torch.zeros_like(mask)
    weights = loss_weights(
        token_batch(mask), nothing, nothing, objective(denominator=denominator),
        max_response_tokens=3,
    )  # fmt: skip
    assert weights.pg.tolist() == [[0.0] * 3] * 2
    assert weights.kl.tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
@pytest.mark.parametrize("denominator", ["eligible", "all"])
def test_selecting_every_eligible_token_changes_no_weight(algorithm, denominator):
    mask = torch.tensor([[True, True, False], [True, True, True]])
    eligible = mask & torch.tensor([[True, False, False], [True, True, False]])
    config = objective(algorithm=algorithm, denominator=denominator)
    weights = loss_weights(token_batch(mask), eligible, eligible, config, max_response_tokens=4)
    base = base_weights(mask, config, max_response_tokens=4)
    torch.testing.assert_close(weights.pg, torch.where(eligible, base, 0.0), rtol=1e-14, atol=0)


def test_selection_outside_the_response_is_refused():
    mask = torch.tensor([[True, False]])
    with pytest.raises(ValueError, match="selected must lie within response_mask"):
        loss_weights(token_batch(mask), ~mask, mask, objective(), max_response_tokens=2)
