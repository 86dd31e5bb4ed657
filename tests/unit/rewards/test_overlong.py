import pytest

from gmts.config import ConfigError
from gmts.rewards.overlong import overlong_metrics, overlong_penalty
from tests.support.core import overlong
from tests.support.sections import params


@pytest.mark.parametrize(
    ("num_tokens", "expected"),
    [(0, 0.0), (1, 0.0), (12, 0.0), (13, -0.125), (16, -0.5), (19, -0.875), (20, -1.0), (30, -1.0)],
)
def test_the_reward_falls_linearly_over_the_buffer(num_tokens, expected):
    # a limit of 20 tokens, of which the last 8 are the buffer
    assert overlong_penalty(num_tokens, overlong(8), max_response_tokens=20) == expected
    half = overlong_penalty(num_tokens, overlong(8, 0.5), max_response_tokens=20)
    assert half == expected / 2


def test_without_a_buffer_no_length_costs_anything():
    for num_tokens in (0, 19, 20, 1000):
        assert overlong_penalty(num_tokens, overlong(), max_response_tokens=20) == 0.0
    assert overlong_metrics([20, 20], overlong(), max_response_tokens=20) == {}


def test_a_buffer_of_the_whole_length_makes_every_token_cost():
    assert overlong_penalty(1, overlong(4), max_response_tokens=4) == -0.25


def test_the_mean_penalty_is_reported():
    metrics = overlong_metrics([12, 16, 20, 5], overlong(8), max_response_tokens=20)
    assert metrics == {"reward/overlong_mean": (0.0 - 0.5 - 1.0 + 0.0) / 4}


def test_a_buffer_longer_than_a_response_can_be_is_refused():
    message = (
        r"rewards.overlong.buffer_tokens must be <= rollout.max_response_tokens \(48\), got 49"
    )
    with pytest.raises(ConfigError, match=message):
        params(rewards__overlong__buffer_tokens=49)
    assert params(rewards__overlong__buffer_tokens=48).rewards.overlong.factor == 1.0
