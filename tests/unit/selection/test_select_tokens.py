import math
from dataclasses import replace
from fractions import Fraction

import pytest
import torch

from gmts.selection.scores import Scores
from gmts.selection.select import exact_ratio, num_wanted, select_tokens
from tests.support.core import selection, token_batch
from tests.support.selection_cases import scored


def select(values, *, mask=None, micro_batch_ids=None, zeros_eligible=False, batch=None, **changes):
    scores = scored(values, mask, zeros_eligible=zeros_eligible)
    if batch is None:
        shape = scores.values.shape
        batch = token_batch(torch.ones(shape, dtype=torch.bool) if mask is None else mask)
    return select_tokens(
        scores,
        batch,
        selection(**changes),
        seed=0,
        step=0,
        micro_batch_ids=micro_batch_ids,
    )


def test_c02_all_scores_zero_select_nothing():
    found = select([[0.0] * 10])
    assert not found.mask.any()
    assert (found.num_selected, found.num_eligible) == (0, 0)
    assert found.num_response_tokens == 10
    assert found.threshold is None
    assert found.saturated


def test_c02_few_positive_scores_are_all_selected_and_no_zero_with_them():
    values = [0.0] * 100
    for index in range(10):
        values[index * 7] = 0.1 * (index + 1)
    found = select([values])
    assert found.mask[0].tolist() == [value > 0 for value in values]
    assert found.num_selected / found.num_response_tokens == 0.10
    assert found.saturated


def test_c02_ties_are_decided_the_same_way_every_time_and_whatever_the_micro_batches():
    values = [[0.5] * 5, [0.5] * 5]
    first = select(values)
    assert first.num_selected == 2
    assert not first.saturated
    assert first.threshold == 0.5
    for ids in ([0, 0], [0, 1]):
        again = select(values, micro_batch_ids=torch.tensor(ids))
        assert torch.equal(again.mask, first.mask)


@pytest.mark.parametrize(
    ("ratio", "num_tokens", "expected"),
    [
        (0.07, 100, 7),  # 0.07 * 100 is 7.000000000000001 in floating point
        (0.1, 30, 3),
        (0.2, 1, 1),
        (1e-9, 10, 1),
        (1.0, 7, 7),
        (0.3, 10**9 + 1, 300_000_001),
    ],
)
def test_the_number_of_tokens_is_exact(ratio, num_tokens, expected):
    assert num_wanted(exact_ratio(ratio), num_tokens) == expected


def test_a_ratio_means_its_shortest_decimal():
    assert exact_ratio(0.1) == Fraction(1, 10)
    assert 1 - exact_ratio(0.9) == Fraction(1, 10)


def test_the_largest_scores_are_selected_on_top_and_the_rest_at_the_bottom():
    values = [[0.1, 0.9, 0.0, 0.5, 0.3], [0.2, 0.8, 0.4, 0.0, 0.7]]
    top = select(values, ratio=0.3)
    assert top.mask.tolist() == [
        [False, True, False, False, False],
        [False, True, False, False, True],
    ]
    assert top.threshold == pytest.approx(0.7)
    bottom = select(values, ratio=0.7, side="bottom")
    assert bottom.mask.tolist() == [
        [True, False, False, True, True],
        [True, False, True, False, False],
    ]
    assert bottom.threshold == pytest.approx(0.5)


def test_the_whole_bottom_is_every_eligible_token():
    found = select([[0.1, 0.0, 0.3]], ratio=1.0, side="bottom")
    assert found.mask.tolist() == [[True, False, True]]


def test_groups_select_on_their_own_and_one_without_scores_selects_none():
    values = [[0.9, 0.8, 0.7, 0.6], [0.0] * 4, [0.1, 0.2, 0.0, 0.0], [0.3, 0.0, 0.0, 0.0]]
    batch = token_batch(torch.ones(4, 4, dtype=torch.bool), group_ids=[7, -2, 5, 5])
    found = select(values, batch=batch, scope="group", ratio=0.25)
    assert found.mask.tolist() == [
        [True, False, False, False],
        [False] * 4,
        [False, True, False, False],
        [True, False, False, False],
    ]
    assert found.saturated
    assert found.threshold == pytest.approx(0.2)


def test_micro_batches_select_on_their_own():
    values = [[0.9, 0.8], [0.7, 0.6], [0.2, 0.1]]
    batch_wide = select(values, ratio=0.5)
    assert batch_wide.mask.tolist() == [[True, True], [True, False], [False, False]]
    by_row = select(values, ratio=0.5, scope="micro_batch", micro_batch_ids=torch.tensor([2, 0, 1]))
    assert by_row.mask.tolist() == [[True, False]] * 3


def test_without_a_score_every_response_token_is_selected_whatever_the_ratio():
    mask = [[True, True, False], [True, False, False]]
    found = select(
        [[1.0] * 3] * 2, mask=mask, score="none", ratio=0.1, side="bottom", scope="micro_batch"
    )
    assert found.mask.tolist() == mask
    assert found.num_selected == 3
    assert found.threshold is None


def test_zero_entropy_ties_with_minus_zero_under_ets():
    mixed = [[0.0, -0.0] * 20]
    plain = select([[0.0] * 40], zeros_eligible=True, score="ets", ratio=0.5)
    assert torch.equal(select(mixed, zeros_eligible=True, score="ets", ratio=0.5).mask, plain.mask)
    assert plain.num_selected == 20


def test_input_is_left_as_it_is():
    values = torch.tensor([[0.3, -0.0, 0.1, 0.2]])
    before = values.clone()
    scores = Scores(values=values, eligible=values > 0)
    select_tokens(scores, token_batch([[True] * 4]), selection(ratio=0.5), seed=0, step=0)
    assert torch.equal(values.view(torch.int32), before.view(torch.int32))


def test_more_scores_than_float32_can_count():
    rows, columns = 4100, 4096
    total = rows * columns
    assert total > 2**24
    values = torch.arange(total, dtype=torch.int32).view(rows, columns)
    values = ((values * 7919) % total).float()  # 7919 is prime to total: each value up to rounding
    mask = torch.ones(rows, columns, dtype=torch.bool)
    found = select_tokens(
        Scores(values=values, eligible=mask),
        token_batch(mask),
        selection(score="ets", ratio=0.1),
        seed=0,
        step=0,
    )
    wanted = math.ceil(Fraction(1, 10) * total)
    assert found.num_response_tokens == total
    assert found.num_selected == int(found.mask.sum(dtype=torch.int64)) == wanted
    assert float(values[found.mask].min()) == found.threshold
    assert float(values[~found.mask].max()) <= found.threshold


def problem(match, scores=None, batch=None, **changes):
    scores = scored([[1.0, 2.0], [3.0, 4.0]]) if scores is None else scores
    batch = token_batch([[True, True], [True, True]]) if batch is None else batch
    with pytest.raises(ValueError, match=match):
        select_tokens(scores, batch, selection(**changes), seed=0, step=0)


@pytest.mark.parametrize("value", [math.nan, -1.0, math.inf])
def test_a_broken_score_is_refused_by_name_even_where_it_is_not_eligible(value):
    scores = Scores(
        values=torch.tensor([[1.0, 1.0], [value, 1.0]]),
        eligible=torch.tensor([[True, True], [False, True]]),
    )
    problem("the score of sample 1 at position 0 must be finite and >= 0", scores=scores)


def test_garbage_in_padding_is_no_problem():
    mask = torch.tensor([[True, False], [True, True]])
    values = torch.tensor([[1.0, math.nan], [2.0, 3.0]])
    found = select_tokens(
        Scores(values=values, eligible=mask),
        token_batch(mask),
        selection(ratio=1.0),
        seed=0,
        step=0,
    )
    assert torch.equal(found.mask, mask)


def test_masks_that_are_not_bool_are_refused():
    whole = torch.ones(2, 2, dtype=torch.int64)
    problem(
        r"masks must be bool, got torch\.int64 for eligible",
        scores=Scores(values=torch.ones(2, 2), eligible=whole),
    )
    batch = replace(token_batch([[True, True]] * 2), response_mask=whole)
    problem(r"masks must be bool, got torch\.int64 for response_mask", batch=batch)


def test_shapes_that_disagree_are_refused():
    problem(r"scores must have the shape", scores=scored([[1.0], [2.0]]))
    problem(
        r"sample_ids must have the shape \(2,\)",
        batch=token_batch([[True, True], [True, True]], sample_ids=[1]),
    )
    problem(
        r"group_ids must have the shape \(2,\)",
        batch=token_batch([[True, True], [True, True]], group_ids=[1, 2, 3]),
    )


def test_scores_of_another_precision_are_refused():
    double = Scores(
        values=torch.ones(2, 2, dtype=torch.float64),
        eligible=torch.ones(2, 2, dtype=torch.bool),
    )
    problem(r"scores must be float32, got torch\.float64", scores=double)


def test_eligible_padding_is_refused():
    problem("eligible must lie within response_mask", batch=token_batch([[True, False]] * 2))


def test_repeated_sample_ids_are_refused():
    problem(
        "sample_ids must be unique.*got 5 more than once",
        batch=token_batch([[True, True], [True, True]], sample_ids=[5, 5]),
    )


@pytest.mark.parametrize("shape", [(2, 2), (2, 0), (0, 3)])
def test_a_mini_batch_without_response_tokens_is_refused(shape):
    empty = torch.zeros(shape, dtype=torch.bool)
    problem(
        "at least one response token",
        scores=Scores(values=torch.zeros(shape), eligible=empty),
        batch=token_batch(empty, sample_ids=list(range(shape[0])), group_ids=[0] * shape[0]),
    )


def test_micro_batches_must_be_named_for_their_scope():
    problem("micro_batch_ids must be given", scope="micro_batch")
