import pytest
import torch

from gmts.objective.advantage import group_advantages
from tests.reference import loops


def advantages(scores, groups, valid=None, **options):
    scores = torch.tensor(scores, dtype=torch.float64)
    valid = [True] * len(scores) if valid is None else valid
    return group_advantages(
        scores,
        torch.tensor(groups),
        torch.tensor(valid),
        **({"normalize_by_std": True, "std_ddof": 1} | options),
    )


@pytest.mark.parametrize("ddof", [0, 1])
@pytest.mark.parametrize("std", [True, False])
def test_each_group_is_centred_and_scaled_on_its_own(std, ddof):
    result = advantages(
        [1, 0, 0, 1, 0.5, 0.25], [7, 3, 7, 3, 7, 7], normalize_by_std=std, std_ddof=ddof
    )
    seven = loops.advantages([1, 0, 0.5, 0.25], std=std, ddof=ddof)
    three = loops.advantages([0, 1], std=std, ddof=ddof)
    expected = [seven[0], three[0], seven[1], three[1], seven[2], seven[3]]
    assert result.advantages.tolist() == pytest.approx(expected, abs=1e-12)
    assert result.valid.all()


def test_equal_rewards_give_exactly_zero_whatever_their_value():
    assert advantages([0.1] * 3, [0] * 3).advantages.tolist() == [0.0, 0.0, 0.0]


def test_a_rejected_reward_does_not_move_its_siblings():
    with_rejected = advantages([1, 0, 99, 0], [0] * 4, [True, True, False, True])
    assert with_rejected.valid.tolist() == [True, True, False, True]
    without = advantages([1, 0, 0], [0] * 3)
    kept = with_rejected.advantages[[0, 1, 3]]
    assert torch.equal(kept, without.advantages)
    assert with_rejected.advantages[2] == 0


def test_a_group_left_with_one_response_is_dropped():
    result = advantages([1, 0, 1, 0], [0, 0, 1, 1], [True, False, True, True])
    assert result.valid.tolist() == [False, False, True, True]
    assert result.advantages[:2].tolist() == [0.0, 0.0]


def test_a_nan_reward_names_its_response_unless_it_was_rejected():
    with pytest.raises(
        ValueError, match=r"reward of response 1 \(group 5\) must be finite, got nan"
    ):
        advantages([1, float("nan")], [5, 5])
    advantages([1, float("nan"), 0], [5, 5, 5], [True, False, True])
