import math
from dataclasses import replace

import pytest
import torch

from gmts.batch import TokenStats
from gmts.selection.scores import SCORES, score_tokens
from tests.support.core import token_batch

# Row 0 has omega of either sign and 0, row 1 a single token and padding full of NaN.
MASK = torch.tensor([[True, True, True, True], [True, False, False, False]])
NAN = math.nan
OMEGA = torch.tensor([[1.5, -0.5, 0.0, -2.0], [0.25, NAN, NAN, NAN]])
ENTROPY = torch.tensor([[0.5, 2.0, 1.0, 0.0], [4.0, NAN, math.inf, NAN]])
NORM = torch.tensor([[0.25, 1.0, 0.5, 0.75], [1.0, NAN, NAN, NAN]])


def stats(entropy=ENTROPY, norm=NORM) -> TokenStats:
    return TokenStats(log_probs=torch.zeros(entropy.shape), entropy=entropy, logit_grad_norm=norm)


def score(name, *, omega=OMEGA, mask=MASK, custom=None, **changes):
    batch = replace(token_batch(MASK), response_mask=mask)
    return score_tokens(stats(**changes), omega, batch, name, seed=3, step=7, custom=custom)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gmts", [[0.75, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]]),
        ("ets", [[0.5, 2.0, 1.0, 0.0], [4.0, 0.0, 0.0, 0.0]]),
        ("logit_gradient", [[0.375, 0.5, 0.0, 1.5], [0.25, 0.0, 0.0, 0.0]]),
        ("advantage", [[1.5, 0.5, 0.0, 2.0], [0.25, 0.0, 0.0, 0.0]]),
        ("none", [[1.0, 1.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0]]),
    ],
)
def test_scores_are_the_formulas_and_padding_is_zero(name, expected):
    assert score(name).values.tolist() == expected


@pytest.mark.parametrize("name", ["gmts", "logit_gradient", "advantage"])
def test_a_token_without_gradient_is_not_eligible(name):
    scores = score(name)
    assert torch.equal(scores.eligible, scores.values > 0)
    assert not scores.eligible[0, 2]


@pytest.mark.parametrize("name", ["ets", "random", "none"])
def test_every_response_token_is_eligible_by_entropy_or_chance(name):
    assert torch.equal(score(name).eligible, MASK)


def test_scores_are_float32_without_gradient():
    omega = torch.ones(2, 4, dtype=torch.float64, requires_grad=True)
    entropy = torch.full((2, 4), 1.0 / 3.0, dtype=torch.float64)
    values = score("gmts", omega=omega, entropy=entropy).values
    assert values.dtype == torch.float32
    assert not values.requires_grad
    assert values[0, 0] == torch.tensor(1.0 / 3.0)


def test_random_scores_do_not_look_at_the_statistics_but_change_with_the_step():
    first = score("random").values
    again = score_tokens(
        stats(entropy=torch.ones(2, 4)), OMEGA * 2, token_batch(MASK), "random", seed=3, step=7
    ).values
    later = score_tokens(stats(), OMEGA, token_batch(MASK), "random", seed=3, step=8).values
    assert torch.equal(first, again)
    assert not torch.equal(first[MASK], later[MASK])


def test_an_own_score_is_called_with_statistics_and_omega():
    scores = score("custom", custom=lambda s, omega: s.entropy.square() * (omega > 0))
    assert scores.values.tolist() == [[0.25, 0.0, 0.0, 0.0], [16.0, 0.0, 0.0, 0.0]]
    assert scores.eligible.tolist() == [[True, False, False, False], [True, False, False, False]]


def test_an_own_score_that_is_missing_is_refused():
    with pytest.raises(ValueError, match="custom must be a function"):
        score("custom")


@pytest.mark.parametrize("value", [NAN, math.inf, -1.0])
def test_a_score_that_is_not_a_number_from_zero_on_names_its_token(value):
    def broken(s, omega):
        return torch.tensor([[1.0, 1.0, value, 1.0], [1.0, 1.0, 1.0, 1.0]])

    with pytest.raises(ValueError, match=f"sample 0 at position 2 must be finite.*got {value}"):
        score("custom", custom=broken)


def test_a_nan_statistic_of_a_response_token_is_not_hidden_by_omega_zero():
    entropy = ENTROPY.clone()
    entropy[0, 2] = NAN
    with pytest.raises(ValueError, match="sample 0 at position 2"):
        score("gmts", entropy=entropy)


def test_a_mask_that_is_not_bool_is_refused():
    with pytest.raises(ValueError, match=r"response_mask must be bool, got torch\.int64"):
        score("gmts", mask=MASK.long())


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"omega": OMEGA[:, :1]}, "omega"),
        ({"norm": NORM[:1]}, "logit_grad_norm"),
    ],
)
def test_shapes_that_only_broadcast_are_refused(changes, name):
    with pytest.raises(ValueError, match=f"{name} must have the shape of response_mask"):
        score("gmts", **changes)


def test_an_own_score_of_another_shape_is_refused():
    with pytest.raises(ValueError, match="scores must have shape"):
        score("custom", custom=lambda s, omega: torch.ones(2))


def test_the_table_of_scores_lists_those_that_are_functions_of_the_token():
    assert list(SCORES) == ["gmts", "ets", "logit_gradient", "advantage"]
