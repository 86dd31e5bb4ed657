import itertools

import numpy as np
import pytest
import scipy.stats

from gmts.evaluation.statistics import average_at, estimate, pass_at, set_rates


def test_average_at_k_is_the_share_of_correct_responses():
    assert average_at([0, 4, 16], 16) == [0.0, 0.25, 1.0]


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_pass_at_k_is_the_chance_over_all_subsets_of_k(k):
    for correct in range(5):
        verdicts = [True] * correct + [False] * (4 - correct)
        subsets = list(itertools.combinations(verdicts, k))
        expected = sum(any(subset) for subset in subsets) / len(subsets)
        assert pass_at([correct], 4, k) == [pytest.approx(expected)]


@pytest.mark.parametrize("k", [0, 5])
def test_pass_at_more_than_was_sampled_is_refused(k):
    with pytest.raises(ValueError, match=rf"k must be in \[1, 4\], got {k}"):
        pass_at([1], 4, k)


def test_the_interval_is_the_percentile_bootstraps():
    values = np.random.default_rng(0).beta(2, 3, 200)
    ours = estimate(values.tolist(), num_resamples=20_000, confidence=0.9, seed=1)
    theirs = scipy.stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, confidence_level=0.9, method="percentile",
        rng=np.random.default_rng(2),
    ).confidence_interval  # fmt: skip
    assert ours.value == pytest.approx(values.mean())
    assert ours.low == pytest.approx(theirs.low, abs=0.003)
    assert ours.high == pytest.approx(theirs.high, abs=0.003)


def test_equal_questions_have_no_spread_and_none_are_refused():
    same = estimate([0.5] * 9, num_resamples=100, confidence=0.95, seed=0)
    assert (same.low, same.value, same.high) == (0.5, 0.5, 0.5)
    with pytest.raises(ValueError, match="at least one question"):
        estimate([], num_resamples=100, confidence=0.95, seed=0)


def test_a_set_of_tests_counts_only_with_those_before_it():
    statuses = [
        [{"base": "pass", "plus": "pass"}, {"base": "fail", "plus": "pass"}],
        [{"base": "pass", "plus": "timeout"}, {}],
    ]
    assert set_rates(statuses) == {
        "base": [1 / 2, 1 / 2],
        "plus": [1 / 2, 0.0],
        "mean": [1 / 2, 1 / 4],
    }
