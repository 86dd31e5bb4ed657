"""The last resort of the order: equal scores and equal tie keys."""

import pytest
import torch

from gmts.selection.radix import KeyColumn, first_k, kth_largest, split_at
from gmts.selection.topk import Candidates, top_k


def candidates(values, sample_ids, *, scopes=None) -> Candidates:
    values = torch.tensor(values)
    rows = len(values)
    return Candidates(
        keys=values.view(torch.int32),
        scopes=torch.tensor([0] * rows if scopes is None else scopes),
        sample_ids=torch.tensor(sample_ids),
        tie_states=torch.zeros(rows, dtype=torch.int64),  # so that rows collide, column by column
        first=torch.zeros(rows, dtype=torch.int64),
    )


def own(counts):
    return counts


def test_equal_tie_keys_are_ordered_by_sample_id():
    tied = candidates([[0.5]] * 5, [40, 10, 50, 30, 20])
    chosen = top_k(tied, torch.tensor([3]), process_group=None)
    assert chosen[:, 0].tolist() == [False, True, False, True, True]


def test_each_scope_settles_its_own_ties():
    tied = candidates([[0.5], [0.5], [0.5], [0.5], [0.7]], [4, 1, 3, 2, 9], scopes=[0, 1, 0, 1, 1])
    chosen = top_k(tied, torch.tensor([1, 2]), process_group=None)
    assert chosen[:, 0].tolist() == [False, True, True, False, True]


def test_a_scope_may_want_none_or_all():
    tied = candidates([[0.5], [0.25], [0.5], [0.0]], [0, 1, 2, 3], scopes=[0, 0, 1, 1])
    chosen = top_k(tied, torch.tensor([0, 2]), process_group=None)
    assert chosen[:, 0].tolist() == [False, False, True, True]


def test_tokens_that_nothing_tells_apart_are_refused():
    same = candidates([[0.5], [0.5]], [7, 7])
    with pytest.raises(ValueError, match="must differ in"):
        top_k(same, torch.tensor([1]), process_group=None)


def test_keys_are_compared_as_unsigned_numbers_column_after_column():
    columns = [
        KeyColumn(keys=torch.tensor([-1, 5, 5, 2**62, 5]), bits=64),
        KeyColumn(keys=torch.tensor([0, 9, 8, 0, 2**40]), bits=64),
    ]
    scopes = torch.zeros(5, dtype=torch.int64)
    sizes = torch.tensor([5])
    orders = [
        first_k(columns, scopes, torch.tensor([k]), sizes, own).nonzero()[:, 0] for k in range(6)
    ]
    # 5 with 8, 5 with 9, 5 with 2^40, 2^62, 2^64 - 1
    assert [set(order.tolist()) for order in orders] == [
        set(),
        {2},
        {1, 2},
        {1, 2, 4},
        {1, 2, 3, 4},
        {0, 1, 2, 3, 4},
    ]


def test_the_kth_largest_key_comes_with_its_share_of_ties():
    keys = torch.tensor([[9, 3, 3, -1], [3, 2, -1, -1], [2**31 - 1, 0, 0, 256]]).int()
    scopes = torch.tensor([0, 0, 1])
    kth, missing, ties = kth_largest(keys, scopes, torch.tensor([3, 3]), own)
    assert kth.tolist() == [3, 0]
    assert missing.tolist() == [2, 1]
    assert ties.tolist() == [3, 2]


def test_a_histogram_is_split_at_the_bucket_of_the_last_wanted_token():
    counts = torch.tensor([[2, 0, 3, 1], [0, 4, 0, 0]])
    bucket, wanted, size = split_at(counts, torch.tensor([2, 4]))
    assert (bucket.tolist(), wanted.tolist(), size.tolist()) == ([0, 1], [2, 4], [2, 4])
    bucket, wanted, size = split_at(counts, torch.tensor([3, 1]))
    assert (bucket.tolist(), wanted.tolist(), size.tolist()) == ([2, 1], [1, 1], [3, 4])
