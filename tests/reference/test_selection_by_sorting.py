"""select_tokens against a sort over Python numbers that shares no code with it."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gmts.selection.select import select_tokens
from tests.support import selection_reference
from tests.support.core import selection, token_batch
from tests.support.selection_cases import LEVELS, random_case, scored

RATIOS = (0.01, 0.07, 0.1, 0.2, 1 / 3, 0.5, 0.9, 1.0)


def expected(scores, batch, scopes, config, seed, step):
    return selection_reference.select(
        scores.values.tolist(),
        batch.response_mask.tolist(),
        scores.eligible.tolist(),
        batch.sample_ids.tolist(),
        scopes,
        ratio=config.ratio,
        side=config.side,
        seed=seed,
        step=step,
    )


@settings(max_examples=400, deadline=None)
@given(
    case=st.integers(0, 10**9),
    ratio=st.sampled_from(RATIOS) | st.floats(1e-9, 1.0),
    side=st.sampled_from(["top", "bottom"]),
    scope=st.sampled_from(["batch", "group", "micro_batch"]),
    seed=st.integers(-(2**63), 2**64 - 1),
    step=st.integers(0, 2**40),
)
def test_the_selected_set_is_that_of_a_sort(case, ratio, side, scope, seed, step):
    batch, scores = random_case(case)
    rows = len(batch.sample_ids)
    micro_batch_ids = torch.arange(rows) // 3
    scopes = {
        "batch": [0] * rows,
        "group": batch.group_ids.tolist(),
        "micro_batch": micro_batch_ids.tolist(),
    }[scope]
    config = selection(ratio=ratio, side=side, scope=scope)
    found = select_tokens(
        scores, batch, config, seed=seed, step=step, micro_batch_ids=micro_batch_ids
    )
    mask = expected(scores, batch, scopes, config, seed, step)
    assert found.mask.tolist() == mask
    chosen = [
        score
        for score_row, mask_row in zip(scores.values.tolist(), mask, strict=True)
        for score, taken in zip(score_row, mask_row, strict=True)
        if taken
    ]
    assert found.num_selected == len(chosen)
    limit = min if side == "top" else max
    assert found.threshold == (limit(chosen) if chosen else None)


@st.composite
def small_batches(draw):
    """Rows with holes and any padding, which `random_case` does not have; shrinks well."""
    rows, columns = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    grid = st.lists(st.booleans(), min_size=columns, max_size=columns)
    mask = draw(st.lists(grid, min_size=rows, max_size=rows))
    mask[0][0] = True
    level = st.sampled_from(LEVELS) | st.floats(0, 2.0**126, width=32)
    line = st.lists(level, min_size=columns, max_size=columns)
    values = draw(st.lists(line, min_size=rows, max_size=rows))
    ids = draw(
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=rows, max_size=rows, unique=True)
    )
    groups = draw(st.lists(st.integers(-3, 3), min_size=rows, max_size=rows))
    batch = token_batch(torch.tensor(mask), sample_ids=ids, group_ids=groups)
    return batch, scored(values, mask, zeros_eligible=draw(st.booleans()))


@settings(max_examples=300, deadline=None)
@given(
    case=small_batches(),
    ratio=st.sampled_from(RATIOS),
    side=st.sampled_from(["top", "bottom"]),
    scope=st.sampled_from(["batch", "group"]),
)
def test_rows_with_holes_and_any_scores_are_selected_as_by_a_sort(case, ratio, side, scope):
    batch, scores = case
    config = selection(ratio=ratio, side=side, scope=scope)
    scopes = batch.group_ids.tolist() if scope == "group" else [0] * len(batch.group_ids)
    found = select_tokens(scores, batch, config, seed=1, step=2)
    assert found.mask.tolist() == expected(scores, batch, scopes, config, 1, 2)


def test_many_ties_over_many_blocks_are_selected_as_by_a_sort():
    # 180,000 tokens with 3 distinct scores: several blocks, and tie keys to several digits.
    generator = torch.Generator().manual_seed(0)
    mask = torch.arange(300) < torch.randint(0, 301, (600, 1), generator=generator)
    values = torch.randint(0, 3, mask.shape, generator=generator).float()
    batch = token_batch(mask, group_ids=torch.arange(600) // 16)
    scores = scored(values, mask)
    for scope, scopes in (("batch", [0] * 600), ("group", batch.group_ids.tolist())):
        config = selection(ratio=0.1, scope=scope)
        found = select_tokens(scores, batch, config, seed=9, step=4)
        assert found.mask.tolist() == expected(scores, batch, scopes, config, 9, 4)
