"""The selected set depends on the scores alone: not on order, padding or layout."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gmts.selection.scores import Scores
from gmts.selection.select import select_tokens
from tests.reference import loops
from tests.support.core import selection, token_batch

RATIOS = [0.05, 0.1, 0.2, 0.35, 0.5, 0.8, 0.9, 1.0]
VALUES = st.sampled_from([0.0, 0.0, 0.25, 0.5, 0.5, 1.0, 3.5])


@st.composite
def problems(draw):
    lengths = draw(st.lists(st.integers(0, 6), min_size=1, max_size=8).filter(any))
    rows = [draw(st.lists(VALUES, min_size=n, max_size=n)) for n in lengths]
    ids = draw(st.lists(st.integers(0, 10**6), min_size=len(rows), max_size=len(rows), unique=True))
    groups = [draw(st.integers(0, 2)) for _ in rows]
    return rows, ids, groups


def run(rows, ids, groups, *, pad=0, seed=1, step=2, **changes):
    """Return the selected (sample id, position) pairs."""
    width = max(map(len, rows)) + pad
    values = torch.zeros(len(rows), width)
    mask = torch.zeros(len(rows), width, dtype=torch.bool)
    for row, own in enumerate(rows):
        values[row, : len(own)] = torch.tensor(own)
        mask[row, : len(own)] = True
    batch = token_batch(mask, sample_ids=ids, group_ids=groups)
    scores = Scores(values=values, eligible=mask & (values > 0))
    result = select_tokens(scores, batch, selection(**changes), seed=seed, step=step)
    assert not (result.mask & ~mask).any()
    return {(ids[row], t) for row, t in result.mask.nonzero().tolist()}


def by_loops(rows, ids, **changes):
    eligible = [[value > 0 for value in row] for row in rows]
    count = sum(map(len, rows))
    pairs = loops.select(rows, eligible, ids, count, seed=1, step=2, **changes)
    return {(ids[row], t) for row, t in pairs}


@settings(max_examples=300, deadline=None)
@given(problems(), st.sampled_from(RATIOS), st.sampled_from(["top", "bottom"]))
def test_the_set_equals_the_plain_loops(problem, ratio, side):
    rows, ids, groups = problem
    assert run(rows, ids, groups, ratio=ratio, side=side) == by_loops(
        rows, ids, ratio=ratio, side=side
    )


@settings(max_examples=200, deadline=None)
@given(problems(), st.sampled_from(RATIOS), st.sampled_from(["top", "bottom"]))
def test_group_scope_equals_the_loops_on_each_group(problem, ratio, side):
    rows, ids, groups = problem
    expected = set()
    for group in set(groups):
        own = [i for i, g in enumerate(groups) if g == group]
        if any(rows[i] for i in own):
            expected |= by_loops(
                [rows[i] for i in own], [ids[i] for i in own], ratio=ratio, side=side
            )
    assert run(rows, ids, groups, ratio=ratio, side=side, scope="group") == expected


@settings(max_examples=200, deadline=None)
@given(problems(), st.sampled_from(RATIOS), st.sampled_from(["batch", "group"]), st.randoms())
def test_order_and_padding_do_not_matter(problem, ratio, scope, random):
    rows, ids, groups = problem
    order = list(range(len(rows)))
    random.shuffle(order)
    shuffled = [[rows[i] for i in order], [ids[i] for i in order], [groups[i] for i in order]]
    assert run(*shuffled, pad=random.randrange(4), ratio=ratio, scope=scope) == run(
        rows, ids, groups, ratio=ratio, scope=scope
    )


@settings(max_examples=200, deadline=None)
@given(problems())
def test_sets_are_nested_and_top_and_bottom_partition_the_eligible(problem):
    rows, ids, groups = problem
    eligible = {(ids[i], t) for i, row in enumerate(rows) for t, v in enumerate(row) if v > 0}
    previous = set()
    for ratio in RATIOS:
        top = run(rows, ids, groups, ratio=ratio)
        assert previous <= top <= eligible
        previous = top
    for ratio, rest in ((0.2, 0.8), (0.05, 0.95), (0.35, 0.65)):
        top = run(rows, ids, groups, ratio=ratio)
        bottom = run(rows, ids, groups, ratio=rest, side="bottom")
        assert top | bottom == eligible
        assert not top & bottom
