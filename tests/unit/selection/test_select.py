import pytest
import torch

from gmts.selection.scores import Scores, score_tokens
from gmts.selection.select import select_tokens
from gmts.selection.ties import random_scores, tie_keys, tie_states
from tests.reference import loops
from tests.support.core import selection, token_batch, token_stats


def scores_of(values, mask=None):
    values = torch.tensor(values, dtype=torch.float32)
    mask = torch.ones(values.shape, dtype=torch.bool) if mask is None else mask
    return Scores(values=values, eligible=mask & (values > 0)), token_batch(mask)


def choose(values, seed=0, step=0, **changes):
    scores, batch = scores_of(values)
    return select_tokens(scores, batch, selection(**changes), seed=seed, step=step)


def test_zero_scores_are_never_selected():
    result = choose([[0.0] * 10])
    assert result.num_selected == 0
    assert result.threshold is None
    assert result.saturated


def test_fewer_eligible_than_asked_selects_them_all_and_says_so():
    values = [[0.0] * 90 + [1.0] * 10]
    result = choose(values)
    assert result.mask[0].nonzero()[:, 0].tolist() == list(range(90, 100))
    assert result.num_selected / result.num_response_tokens == 0.10
    assert result.saturated


def test_ties_are_broken_by_the_documented_hash():
    result = choose([[0.5] * 10], seed=3, step=7)
    order = sorted(range(10), key=lambda t: loops.tie_key(3, 7, 0, t))
    assert set(result.mask[0].nonzero()[:, 0].tolist()) == set(order[:2])


def test_ties_favour_no_response():
    wins = torch.zeros(4)
    for step in range(400):
        wins += choose([[1.0] * 5] * 4, step=step).mask.sum(1)
    assert wins.sum() == 400 * 4
    assert wins.min() > 320  # expected 400 each, standard deviation about 14


def test_keys_equal_an_independent_splitmix():
    samples = torch.tensor([0, 5, 2**40, 12])
    positions = torch.tensor([0, 1, 2000, 7])
    keys = tie_keys(tie_states(samples, seed=123, step=9), positions)
    for key, sample, position in zip(
        keys.tolist(), samples.tolist(), positions.tolist(), strict=True
    ):
        assert key % 2**64 == loops.tie_key(123, 9, sample, position)


def test_random_scores_are_uniform_and_never_zero():
    mask = torch.ones(200, 200, dtype=torch.bool)
    values = random_scores(torch.arange(200), mask, seed=0, step=0)
    assert values.min() > 0
    assert values.max() <= 1
    assert abs(values.mean().item() - 0.5) < 0.01
    assert abs((values < 0.2).float().mean().item() - 0.2) < 0.01


@pytest.mark.parametrize(("ratio", "expected"), [(0.1, 1), (0.2, 2), (0.7, 7), (0.3, 3), (1.0, 10)])
def test_k_is_exact_in_decimal_arithmetic(ratio, expected):
    # 0.7 * 10 is 7.000000000000001 as floats, whose ceiling is 8
    assert choose([[float(i) for i in range(1, 11)]], ratio=ratio).num_selected == expected


def test_the_threshold_is_the_smallest_selected_score():
    assert choose([[1.0, 5.0, 4.0, 2.0, 3.0]], ratio=0.4).threshold == 4.0
    assert choose([[1.0, 5.0, 4.0, 2.0, 3.0]], ratio=0.4, side="bottom").threshold == 2.0


def test_group_scope_takes_its_share_of_each_question():
    scores, _ = scores_of([[9.0, 8.0], [7.0, 6.0], [1.0, 2.0], [3.0, 4.0]])
    batch = token_batch(torch.ones(4, 2, dtype=torch.bool), group_ids=[0, 0, 1, 1])
    config = selection(scope="group", ratio=0.25)
    mask = select_tokens(scores, batch, config, seed=0, step=0).mask
    assert mask.tolist() == [[True, False], [False, False], [False, False], [False, True]]


def test_micro_batch_scope_needs_to_know_the_micro_batches():
    scores, batch = scores_of([[1.0, 2.0], [3.0, 4.0]])
    config = selection(scope="micro_batch", ratio=0.5)
    with pytest.raises(ValueError, match="micro_batch_ids must be given"):
        select_tokens(scores, batch, config, seed=0, step=0)
    mask = select_tokens(
        scores, batch, config, seed=0, step=0, micro_batch_ids=torch.tensor([0, 1])
    ).mask
    assert mask.tolist() == [[False, True], [False, True]]


@pytest.mark.parametrize(
    ("score", "omega", "expected"),
    [
        ("gmts", [[-2.0, 0.0, 1.0]], [[1.0, 0.0, 0.5]]),
        ("ets", [[-2.0, 0.0, 1.0]], [[0.5, 0.5, 0.5]]),
        ("logit_gradient", [[-2.0, 0.0, 1.0]], [[0.5, 0.0, 0.25]]),
        ("advantage", [[-2.0, 0.0, 1.0]], [[2.0, 0.0, 1.0]]),
        ("none", [[-2.0, 0.0, 1.0]], [[1.0, 1.0, 1.0]]),
    ],
)
def test_scores_are_what_they_are_called(score, omega, expected):
    half = torch.full((1, 3), 0.5)
    stats = token_stats(torch.zeros(1, 3), entropy=half, norm=half / 2)
    batch = token_batch(torch.ones(1, 3, dtype=torch.bool))
    scores = score_tokens(stats, torch.tensor(omega), batch, score, seed=0, step=0)
    assert scores.values.tolist() == expected
    everyone = score in ("ets", "none")
    assert scores.eligible.tolist() == [[True, everyone, True]]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0])
def test_a_bad_score_names_sample_and_position(bad):
    stats = token_stats(torch.zeros(2, 2))
    batch = token_batch(torch.ones(2, 2, dtype=torch.bool), sample_ids=[40, 41])
    values = torch.tensor([[1.0, 1.0], [1.0, bad]])
    with pytest.raises(ValueError, match="score of sample 41 at position 1 must be finite"):
        score_tokens(
            stats, torch.ones(2, 2), batch, "custom", seed=0, step=0, custom=lambda *_: values
        )


def test_bad_input_is_named():
    scores, batch = scores_of([[1.0, 2.0]])
    settings = {"seed": 0, "step": 0}
    with pytest.raises(ValueError, match="at least one response token, got none"):
        select_tokens(*scores_of([[0.0]], torch.tensor([[False]])), selection(), **settings)
    with pytest.raises(ValueError, match="scores must have the shape of response_mask"):
        select_tokens(scores_of([[1.0]])[0], batch, selection(), **settings)
    with pytest.raises(ValueError, match="sample_ids must be unique"):
        two, _ = scores_of([[1.0], [1.0]])
        same = token_batch(torch.ones(2, 1, dtype=torch.bool), sample_ids=[1, 1])
        select_tokens(two, same, selection(), **settings)
    with pytest.raises(ValueError, match="masks must be bool"):
        wrong = Scores(values=scores.values, eligible=scores.eligible.long())
        select_tokens(wrong, batch, selection(), **settings)
