import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gmts.logits import head_log_probs, head_stats


def head(count=37, hidden=8, vocabulary=50, dtype=torch.float64, scale=1.0):
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(count, hidden, generator=generator, dtype=torch.float64)
    weight = torch.randn(vocabulary, hidden, generator=generator, dtype=torch.float64) * scale
    ids = torch.randint(0, vocabulary, (count,), generator=generator)
    return states.to(dtype), weight.to(dtype), ids


def plain_log_probs(states, weight, ids, temperature=1.0, bias=0.0):
    logits = (states.double() @ weight.double().T + bias) / temperature
    return logits.log_softmax(-1).gather(1, ids[:, None])[:, 0]


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_statistics_equal_the_definitions_in_float64(temperature):
    states, weight, ids = head()
    stats = head_stats(states, weight, ids, temperature=temperature)
    log_p = ((states @ weight.T) / temperature).log_softmax(-1)
    onehot = torch.nn.functional.one_hot(ids, len(weight)).double()
    expected = {
        "log_probs": log_p.gather(1, ids[:, None])[:, 0],
        "entropy": -(log_p.exp() * log_p).sum(-1),
        "logit_grad_norm": (onehot - log_p.exp()).norm(dim=-1),
    }
    for name, values in expected.items():
        torch.testing.assert_close(getattr(stats, name), values, rtol=1e-12, atol=1e-13)


def test_the_norm_of_a_nearly_certain_token_is_not_lost_in_float32():
    gap = 18.0  # 1 - p is about 1.5e-8
    weight = torch.tensor([[gap], [0.0]])
    stats = head_stats(torch.ones(1, 1), weight, torch.tensor([0]), temperature=1.0)
    other = 1 / (1 + math.exp(gap))
    assert stats.logit_grad_norm.item() == pytest.approx(other * math.sqrt(2), rel=1e-5)
    assert 0 <= stats.entropy.item() < 1e-5


def test_adding_a_constant_to_all_logits_changes_nothing():
    states, weight, ids = head()
    plain = head_stats(states, weight, ids, temperature=1.0)
    for shift in (-100.0, 100.0):
        bias = torch.full((len(weight),), shift, dtype=torch.float64)
        shifted = head_stats(states, weight, ids, temperature=1.0, bias=bias)
        for name in ("log_probs", "entropy", "logit_grad_norm"):
            torch.testing.assert_close(
                getattr(shifted, name), getattr(plain, name), rtol=1e-10, atol=1e-10
            )


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("with_bias", [False, True])
def test_gradients_equal_autograds_in_float64(temperature, with_bias):
    states, weight, ids = head()
    bias = torch.linspace(-1, 1, len(weight), dtype=torch.float64) if with_bias else None
    leaves = [t.clone().requires_grad_() for t in (states, weight, bias) if t is not None]
    upstream = torch.linspace(-2, 2, len(ids), dtype=torch.float64)
    ours = head_log_probs(
        leaves[0], leaves[1], ids, temperature=temperature, bias=leaves[2] if with_bias else None
    )
    plain = plain_log_probs(leaves[0], leaves[1], ids, temperature, leaves[2] if with_bias else 0.0)
    torch.testing.assert_close(ours, plain, rtol=1e-12, atol=1e-13)
    for ours_gradient, gradient in zip(
        torch.autograd.grad((ours * upstream).sum(), leaves),
        torch.autograd.grad((plain * upstream).sum(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(ours_gradient, gradient, rtol=1e-11, atol=1e-12)


def test_a_tied_head_adds_its_gradient_to_the_embeddings():
    _, weight, ids = head()
    table = weight.clone().requires_grad_()
    ours = head_log_probs(table[ids] * 0.5, table, ids, temperature=1.0).sum()
    plain = plain_log_probs(table[ids] * 0.5, table, ids).sum()
    torch.testing.assert_close(
        torch.autograd.grad(ours, table)[0], torch.autograd.grad(plain, table)[0]
    )


def test_bfloat16_weights_are_accumulated_in_float32():
    states, weight, ids = head(dtype=torch.bfloat16)
    stats = head_stats(states, weight, ids, temperature=1.0)
    assert stats.log_probs.dtype == torch.float32
    expected = plain_log_probs((states @ weight.T).double(), torch.eye(len(weight)), ids)
    torch.testing.assert_close(stats.log_probs.double(), expected, rtol=1e-5, atol=1e-5)


class LargestTensor(TorchDispatchMode):
    """Remembers the most elements of any tensor that an operation returns."""

    def __init__(self):
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.elements = max(self.elements, leaf.numel())
        return result


def test_tokens_times_vocabulary_never_exists_at_once():
    count, vocabulary = 600, 30_000
    states, weight, ids = head(count, 4, vocabulary, torch.float32)
    states.requires_grad_()
    weight.requires_grad_()
    with LargestTensor() as largest:
        head_stats(states, weight, ids, temperature=1.0)
        head_log_probs(states, weight, ids, temperature=1.0).sum().backward()
    assert largest.elements * 4 <= 33 << 20
    assert largest.elements < count * vocabulary / 2
