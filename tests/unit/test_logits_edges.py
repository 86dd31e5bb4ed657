"""Precision, chunks, broken numbers and bad input of the head."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import one_hot

from gmts.logits import head_log_probs, head_stats

NAMES = ("log_probs", "entropy", "logit_grad_norm")


def head(seed, count, hidden, vocabulary, scale=1.0):
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    ids = torch.randint(0, vocabulary, (count,), generator=generator)
    return normal(count, hidden), scale * normal(vocabulary, hidden), ids


def gradients(states, weight, ids, *, upstream=None, function=head_log_probs):
    leaves = [states.clone().requires_grad_(), weight.clone().requires_grad_()]
    values = function(*leaves, ids, temperature=1.0)
    upstream = torch.ones_like(values) if upstream is None else upstream.to(values.dtype)
    return torch.autograd.grad((values * upstream).sum(), leaves)


def plain(states, weight, ids, *, temperature):
    log_p = ((states @ weight.T) / temperature).log_softmax(-1)
    return log_p.gather(1, ids[:, None])[:, 0]


def relative_error(found, expected):
    return ((found.double() - expected).norm() / expected.norm()).item()


@settings(max_examples=200, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(1, 6),
    st.integers(2, 20),
    st.sampled_from([0.1, 1.0, 10.0]),
    st.floats(0.3, 2.0),
    st.floats(-100, 100),
)
def test_random_heads_equal_the_definitions_and_are_blind_to_a_shift(
    seed, count, vocabulary, scale, temperature, shift
):
    states, weight, ids = head(seed, count, 3, vocabulary, scale)
    stats = head_stats(states, weight, ids, temperature=temperature)
    log_p = ((states @ weight.T) / temperature).log_softmax(-1)
    p = log_p.exp()
    expected = (
        log_p.gather(1, ids[:, None])[:, 0],
        -(p * log_p).sum(-1),
        (one_hot(ids, vocabulary).double() - p).norm(dim=-1),
    )
    bias = torch.full((vocabulary,), shift, dtype=torch.float64)
    shifted = head_stats(states, weight, ids, temperature=temperature, bias=bias)
    for name, values in zip(NAMES, expected, strict=True):
        torch.testing.assert_close(getattr(stats, name), values, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(getattr(shifted, name), values, rtol=1e-10, atol=1e-10)
    assert (stats.entropy >= 0).all()
    assert (stats.logit_grad_norm <= math.sqrt(2) + 1e-12).all()
    ours = head_log_probs(states, weight, ids, temperature=temperature)
    torch.testing.assert_close(ours, stats.log_probs, rtol=1e-12, atol=0)


@pytest.mark.parametrize("offset", [0.0, 100.0])
@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_float32_gradients_are_as_good_as_plain_autograds(offset, scale):
    states, weight, ids = head(0, 300, 32, 2000, scale)
    states[:, 0] = 1.0
    weight[:, 0] += offset  # the same on every logit, but for rounding
    states, weight = states.float(), weight.float()
    upstream = torch.linspace(-1, 1, len(ids), dtype=torch.float64)
    truth = gradients(states.double(), weight.double(), ids, upstream=upstream, function=plain)
    ours = gradients(states, weight, ids, upstream=upstream)
    usual = gradients(states, weight, ids, upstream=upstream, function=plain)
    for found, stock, expected in zip(ours, usual, truth, strict=True):
        assert relative_error(found, expected) <= 1.5 * relative_error(stock, expected)


def test_the_gradient_of_a_nearly_certain_token_is_not_lost_in_float32():
    gap = 18.0  # 1 - p is about 1.5e-8, and 1 - float32(p) is 0
    weight, ids = torch.tensor([[gap], [0.0]]), torch.tensor([0])
    _, found = gradients(torch.ones(1, 1), weight, ids)
    other = 1 / (1 + math.exp(gap))
    assert found[:, 0].tolist() == pytest.approx([other, -other], rel=1e-6)


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks of 16 rows, however few words there are."""
    monkeypatch.setattr("gmts.logits._CHUNK_BYTES", 1)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("count", [1, 15, 16, 17, 37, 48])
def test_chunks_leave_no_row_out_and_none_in_twice(count):
    states, weight, ids = head(1, count, 2, 9)
    bias = torch.linspace(-1, 1, 9, dtype=torch.float64)
    leaves = [tensor.requires_grad_() for tensor in (states, weight, bias)]
    log_p = (states @ weight.T + bias).log_softmax(-1)
    expected = log_p.gather(1, ids[:, None])[:, 0]
    stats = head_stats(states, weight, ids, temperature=1.0, bias=bias)
    torch.testing.assert_close(stats.log_probs, expected.detach(), rtol=1e-12, atol=0)
    torch.testing.assert_close(stats.entropy, -(log_p.exp() * log_p).sum(-1).detach())
    norm = (one_hot(ids, 9).double() - log_p.exp()).norm(dim=-1)
    torch.testing.assert_close(stats.logit_grad_norm, norm.detach())
    found = head_log_probs(states, weight, ids, temperature=1.0, bias=bias)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    for ours, plains in zip(
        torch.autograd.grad(found.sum(), leaves),
        torch.autograd.grad(expected.sum(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(ours, plains, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_weights_get_gradients_in_their_own_type(dtype):
    states, weight, ids = head(2, 40, 16, 50)
    states, weight = states.to(dtype), weight.to(dtype)
    found = gradients(states, weight, ids)
    expected = gradients(states.double(), weight.double(), ids, function=plain)
    for ours, truth in zip(found, expected, strict=True):
        assert ours.dtype == dtype
        assert relative_error(ours, truth) < 0.01


@pytest.mark.usefixtures("small_chunks")
def test_a_weight_gradient_adds_up_in_float32_and_not_in_the_weights_type():
    # 1024 in the first chunk, 1 in each of 63 more: bfloat16 counts in steps of 8 there.
    upstream = torch.zeros(1024)
    upstream[::16] = 1.0
    upstream[0] = 1024.0
    states, weight = torch.ones(1024, 1), torch.tensor([[0.0], [50.0]])
    _, found = gradients(
        states.bfloat16(), weight.bfloat16(), torch.zeros(1024, dtype=torch.long), upstream=upstream
    )
    assert found[:, 0].tolist() == [1088.0, -1088.0]  # 1087, rounded once


def test_a_frozen_head_still_passes_the_gradient_on():
    states, weight, ids = head(3, 5, 3, 7)
    leaf = states.clone().requires_grad_()
    head_log_probs(leaf, weight, ids, temperature=1.0).sum().backward()
    torch.testing.assert_close(leaf.grad, gradients(states, weight, ids, function=plain)[0])


def test_an_impossible_token_is_left_out_of_entropy_and_norm():
    bias = torch.tensor([0.0, 0.0, -math.inf], dtype=torch.float64)
    stats = head_stats(
        torch.zeros(1, 1, dtype=torch.float64), torch.zeros(3, 1, dtype=torch.float64),
        torch.tensor([0]), temperature=1.0, bias=bias,
    )  # fmt: skip
    assert stats.entropy.item() == pytest.approx(math.log(2), rel=1e-14)
    assert stats.logit_grad_norm.item() == pytest.approx(math.sqrt(0.5), rel=1e-14)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_broken_states_are_not_hidden_in_any_statistic(value):
    states, weight, ids = head(4, 3, 3, 5)
    states[1, 0] = value
    stats = head_stats(states, weight, ids, temperature=1.0)
    for name in NAMES:
        assert torch.isnan(getattr(stats, name)).tolist() == [False, True, False]
    found, _ = gradients(states, weight, ids)
    assert torch.isnan(found).any(1).tolist() == [False, True, False]


def test_no_token_is_no_statistic_and_gradient_zero():
    states, weight, ids = head(5, 0, 3, 5)
    stats = head_stats(states, weight, ids, temperature=1.0)
    assert all(getattr(stats, name).shape == (0,) for name in NAMES)
    found = gradients(states, weight, ids)
    assert found[0].shape == (0, 3)
    assert not found[1].any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"temperature": 0.0}, "temperature must be > 0, got 0.0"),
        ({"temperature": math.nan}, "temperature must be > 0, got nan"),
        ({"ids": torch.tensor([0, 1])}, r"ids must have shape \(3,\), got \(2,\)"),
        (
            {"weight": torch.zeros(5, 4, dtype=torch.float64)},
            r"hidden and weight must have shapes \[N, H\] and \[V, H\], got \(3, 3\) and \(5, 4\)",
        ),
        (
            {"weight": torch.zeros(5, 3)},
            r"hidden must have the weight's dtype torch\.float32, got torch\.float64",
        ),
    ],
)
@pytest.mark.parametrize("function", [head_stats, head_log_probs])
def test_what_does_not_fit_together_is_named(function, changes, message):
    states, weight, ids = head(6, 3, 3, 5)
    arguments = {"hidden": states, "weight": weight, "ids": ids, "temperature": 1.0}
    with pytest.raises(ValueError, match=message):
        function(**(arguments | changes))
