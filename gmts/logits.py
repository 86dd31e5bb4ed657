"""From hidden states to token statistics in chunks: [tokens, vocabulary] never exists at once.

    N  tokens      H  hidden size      V  vocabulary size

Logits are divided by the sampling temperature. Everything is accumulated in float32 under bfloat16
and float16 weights; float32 and float64 stay as they are.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

_CHUNK_BYTES = 32 << 20
_SMALLEST_CHUNK = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadStats:
    """Statistics of the next-token distribution p at each of N positions; no gradient."""

    log_probs: Float[Tensor, " N"]
    """log p(o) of the given token, nats."""
    entropy: Float[Tensor, " N"]
    """-sum p log p, nats, never below 0."""
    logit_grad_norm: Float[Tensor, " N"]
    """||onehot(o) - p||_2."""


@torch.no_grad()
def head_stats(
    hidden: Float[Tensor, "N H"],
    weight: Float[Tensor, "V H"],
    ids: Int[Tensor, " N"],
    *,
    temperature: float,
    bias: Float[Tensor, " V"] | None = None,
) -> HeadStats:
    """Return log-probability, entropy and logit-gradient norm at each position.

    The norm is the root of (sum_{k != o} p_k)^2 + sum_{k != o} p_k^2: written as
    1 - 2 p_o + sum p^2 it would be 0 in float32 below 1 - p_o = 1e-4. The entropy is
    -sum p log_softmax: lse - sum p z cancels for peaked p. A NaN in the logits is NaN in all three.

    Args:
        hidden: States that predict the tokens.
        weight: Of the head.
        ids: The tokens.
        temperature: By which logits are divided, > 0.
        bias: Of the head, if it has one.

    Raises:
        ValueError: If shapes disagree, dtypes differ or the temperature is not above 0.
    """
    _check(hidden, weight, ids, temperature)
    stats = _empty_stats(hidden, len(hidden))
    dtype = stats.log_probs.dtype
    for rows in _chunks(len(hidden), len(weight), dtype):
        logits = _logits(hidden[rows], weight, bias, temperature, dtype)
        _fill(stats, rows, logits, ids[rows, None])
    return stats


@torch.no_grad()
def logit_stats(
    logits: Float[Tensor, "N V"], ids: Int[Tensor, " N"], *, temperature: float
) -> HeadStats:
    """Return what `head_stats` returns, where an engine has made the logits already.

    Raises:
        ValueError: If shapes disagree or the temperature is not above 0.
    """
    if logits.dim() != 2 or ids.shape != logits.shape[:1]:
        raise ValueError(
            f"logits and ids must have shapes [N, V] and [N], got {tuple(logits.shape)} and "
            f"{tuple(ids.shape)}"
        )
    _check_temperature(temperature)
    stats = _empty_stats(logits, len(logits))
    dtype = stats.log_probs.dtype
    for rows in _chunks(len(logits), logits.shape[1], dtype):
        _fill(stats, rows, logits[rows].to(dtype) / temperature, ids[rows, None])
    return stats


def _empty_stats(like: Tensor, num_tokens: int) -> HeadStats:
    empty = like.new_empty(3, num_tokens, dtype=_accumulator(like.dtype))
    log_probs, entropy, norm = empty
    return HeadStats(log_probs=log_probs, entropy=entropy, logit_grad_norm=norm)


def _fill(stats: HeadStats, rows: slice, logits: Tensor, own: Tensor) -> None:
    """Write the statistics of `rows`, whose logits at the temperature and tokens [n, 1] these are.

    See `head_stats` for the forms of the sums.
    """
    log_probs, entropy, norm = stats.log_probs, stats.entropy, stats.logit_grad_norm
    log_p = torch.log_softmax(logits, -1)
    log_probs[rows] = log_p.gather(1, own)[:, 0]
    p = log_p.exp()
    # 0 log 0 is 0, also where log p is -infinity.
    entropy[rows] = -torch.where(p == 0, torch.zeros_like(p), p * log_p).sum(-1)
    entropy[rows].clamp_min_(0)
    p.scatter_(1, own, 0.0)
    norm[rows] = (p.sum(-1).square() + p.square().sum(-1)).sqrt()


def head_log_probs(
    hidden: Float[Tensor, "N H"],
    weight: Float[Tensor, "V H"],
    ids: Int[Tensor, " N"],
    *,
    temperature: float,
    bias: Float[Tensor, " V"] | None = None,
) -> Float[Tensor, " N"]:
    """Return log p(o) at each position, differentiable in hidden, weight and bias.

    The backward pass computes the logits again, chunk by chunk. A tied head's gradient adds to the
    embedding's as autograd always does. Arguments and errors are those of `head_stats`.
    """
    _check(hidden, weight, ids, temperature)
    result: Tensor = _HeadLogProbs.apply(  # type: ignore[no-untyped-call]
        hidden, weight, bias, ids, temperature
    )
    return result


class _HeadLogProbs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        ids: Tensor,
        temperature: float,
    ) -> Tensor:
        dtype = _accumulator(hidden.dtype)
        log_probs = hidden.new_empty(len(hidden), dtype=dtype)
        for rows in _chunks(len(hidden), len(weight), dtype):
            log_p = torch.log_softmax(_logits(hidden[rows], weight, bias, temperature, dtype), -1)
            log_probs[rows] = log_p.gather(1, ids[rows, None])[:, 0]
        ctx.save_for_backward(hidden, weight, bias, ids)
        ctx.temperature = temperature
        return log_probs

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad: Tensor
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None, None, None]:
        hidden, weight, bias, ids = ctx.saved_tensors
        dtype = grad.dtype
        grad_hidden = torch.empty_like(hidden)
        grad_weight = torch.zeros_like(weight, dtype=dtype)
        grad_bias = None if bias is None else torch.zeros_like(bias, dtype=dtype)
        for rows in _chunks(len(hidden), len(weight), dtype):
            logits = _logits(hidden[rows], weight, bias, ctx.temperature, dtype)
            grad_logits = _onehot_minus_softmax(logits, ids[rows, None])
            grad_logits.mul_((grad[rows] / ctx.temperature)[:, None])
            if grad_bias is not None:
                grad_bias += grad_logits.sum(0)
            grad_hidden[rows] = (grad_logits.to(weight.dtype) @ weight).to(hidden.dtype)
            grad_weight.addmm_(grad_logits.T, hidden[rows].to(dtype))
        return (
            grad_hidden,
            grad_weight.to(weight.dtype),
            None if grad_bias is None else grad_bias.to(bias.dtype),
            None,
            None,
        )


def _onehot_minus_softmax(logits: Tensor, own: Tensor) -> Tensor:
    """Return onehot(o) - softmax, in place of `logits`.

    1 - p_o is summed over the other tokens: 1 minus a rounded p_o may be 0. exp(z - lse) would
    scale a row by the rounding of lse, the logsumexp, which is large where all logits are.
    """
    others = logits.sub_(logits.amax(-1, keepdim=True)).exp_()
    itself = others.gather(1, own)
    others.scatter_(1, own, 0.0)
    rest = others.sum(-1, keepdim=True)
    return others.div_(-(rest + itself)).scatter_(1, own, rest / (rest + itself))


def _check(hidden: Tensor, weight: Tensor, ids: Tensor, temperature: float) -> None:
    if hidden.dim() != 2 or weight.dim() != 2 or hidden.shape[1] != weight.shape[1]:
        raise ValueError(
            f"hidden and weight must have shapes [N, H] and [V, H], got {tuple(hidden.shape)} and "
            f"{tuple(weight.shape)}"
        )
    if hidden.dtype != weight.dtype:
        raise ValueError(f"hidden must have the weight's dtype {weight.dtype}, got {hidden.dtype}")
    if ids.shape != hidden.shape[:1]:
        raise ValueError(f"ids must have shape {tuple(hidden.shape[:1])}, got {tuple(ids.shape)}")
    _check_temperature(temperature)


def _check_temperature(temperature: float) -> None:
    if not temperature > 0:
        raise ValueError(f"temperature must be > 0, got {temperature}")


def _accumulator(dtype: torch.dtype) -> torch.dtype:
    return dtype if dtype in (torch.float32, torch.float64) else torch.float32


def _chunks(num_rows: int, vocabulary: int, dtype: torch.dtype) -> Iterator[slice]:
    size = max(_SMALLEST_CHUNK, _CHUNK_BYTES // (vocabulary * dtype.itemsize))
    for first in range(0, num_rows, size):
        yield slice(first, first + size)


def _logits(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, temperature: float, dtype: torch.dtype
) -> Tensor:
    logits = (hidden @ weight.T).to(dtype)
    if bias is not None:
        logits = logits + bias.to(dtype)
    return logits if temperature == 1.0 else logits / temperature
