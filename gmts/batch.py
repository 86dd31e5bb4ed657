"""The tensors that flow between rollout, selection and objective: the project's shape legend.

    B  responses in the optimizer mini-batch (whole groups; this rank's share of them)
    T  response tokens after right padding; the prompt is not included
    V  vocabulary size
    N  response tokens of the whole mini-batch over all ranks

Log-probabilities and entropies are in nats, at the sampling temperature. Masks are bool.
"""

from dataclasses import dataclass, fields
from typing import Self

from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBatch:
    """One optimizer mini-batch, aligned on response tokens."""

    response_ids: Int[Tensor, "B T"]
    """Sampled token ids; anything valid where `response_mask` is False."""
    response_mask: Bool[Tensor, "B T"]
    """True on the tokens that count: sampled, up to and including the first end token."""
    old_log_probs: Float[Tensor, "B T"]
    """log pi_old of the sampled tokens, from the training engine."""
    ref_log_probs: Float[Tensor, "B T"] | None
    """log pi_ref of the sampled tokens; None where there is no KL term."""
    advantages: Float[Tensor, " B"]
    """Group advantage of each response, the same on all its tokens."""
    sample_ids: Int[Tensor, " B"]
    """Unique in the mini-batch over all ranks; they order ties, so no layout may change them."""
    group_ids: Int[Tensor, " B"]
    """The question of each response; a group may be spread over ranks."""
    rollout_log_probs: Float[Tensor, "B T"] | None = None
    """log pi_rollout of the sampled tokens, from the engine that sampled them."""

    def rows(self, index: Int[Tensor, " R"]) -> Self:
        """Return the responses at `index`, in that order."""
        picked = {
            field.name: None if (value := getattr(self, field.name)) is None else value[index]
            for field in fields(self)
        }
        return type(self)(**picked)  # type: ignore[arg-type]  # two fields alone may be None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenStats:
    """Per-token statistics of the policy's next-token distribution; no gradient."""

    log_probs: Float[Tensor, "B T"]
    """log p_t(o_t) of the sampled token."""
    entropy: Float[Tensor, "B T"]
    """-sum_v p_t(v) log p_t(v), never below 0."""
    logit_grad_norm: Float[Tensor, "B T"]
    """||onehot(o_t) - p_t||_2, in [0, sqrt(2)]."""
