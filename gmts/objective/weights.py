"""How much each token counts: base weights, and the denominators of the selected ones.

The sums run over the whole mini-batch and all ranks and are known before the first backward, so
that gradient accumulation and data parallelism are exact. Source: docs/objective.md.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.distributed import ProcessGroup

from gmts.batch import TokenBatch
from gmts.objective.algorithms import ALGORITHMS
from gmts.objective.config import ObjectiveConfig
from gmts.tensors import gather_rows, global_sum, masked_sum


@dataclass(frozen=True, slots=True, kw_only=True)
class LossWeights:
    """The loss of a micro-batch is sum(pg * pg_loss + kl * kl_loss); micro-batches add up."""

    pg: Float[Tensor, "B T"]
    """0 on tokens that are not selected."""
    kl: Float[Tensor, "B T"]
    """The same, or the base weight of every response token if objective.mask_kl is false."""


def base_weights(
    response_mask: Bool[Tensor, "B T"],
    config: ObjectiveConfig,
    *,
    max_response_tokens: int,
    process_group: ProcessGroup | None = None,
) -> Float[Tensor, "B T"]:
    """Return the weight of each response token before selection, in float64; they sum to 1.

    (Dr. GRPO's sum to the mean length over the limit.) Responses without a token do not count.
    """
    lengths = response_mask.sum(1)
    counts = torch.stack([lengths.sum(), (lengths > 0).sum()])
    num_tokens, num_responses = (int(count) for count in global_sum(counts, process_group))
    weights = torch.zeros(response_mask.shape, dtype=torch.float64, device=response_mask.device)
    if num_tokens == 0:
        return weights
    aggregation = ALGORITHMS[config.algorithm].aggregation
    if aggregation == "token_mean":
        row = torch.full_like(lengths, 1, dtype=torch.float64) / num_tokens
    elif aggregation == "sequence_mean":
        row = 1.0 / (num_responses * lengths.double())
    else:
        row = torch.full_like(lengths, 1, dtype=torch.float64) / (
            num_responses * max_response_tokens
        )
    return torch.where(response_mask, row[:, None], weights)


def loss_weights(
    batch: TokenBatch,
    selected: Bool[Tensor, "B T"],
    eligible: Bool[Tensor, "B T"],
    config: ObjectiveConfig,
    *,
    max_response_tokens: int,
    process_group: ProcessGroup | None = None,
) -> LossWeights:
    """Return each token's weight in the loss, 0 everywhere if nothing is selected.

    Args:
        batch: This rank's share of the mini-batch.
        selected: Tokens that carry loss, a subset of `batch.response_mask`.
        eligible: Tokens that could have been selected.
        config: Algorithm, denominator, mask_kl.
        max_response_tokens: The length limit of rollouts, for Dr. GRPO.
        process_group: Ranks that share the mini-batch.

    Raises:
        ValueError: If a mask is not bool or has another shape than the response mask, or
            `selected` reaches outside of it.
    """
    for name, mask in (("selected", selected), ("eligible", eligible)):
        if mask.dtype != torch.bool:
            raise ValueError(f"{name} must be bool, got {mask.dtype}")
        if mask.shape != batch.response_mask.shape:
            raise ValueError(
                f"{name} must have the shape of response_mask "
                f"{tuple(batch.response_mask.shape)}, got {tuple(mask.shape)}"
            )
    if bool((selected & ~batch.response_mask).any()):
        raise ValueError("selected must lie within response_mask, got tokens outside of it")
    base = base_weights(
        batch.response_mask,
        config,
        max_response_tokens=max_response_tokens,
        process_group=process_group,
    )
    chosen = torch.where(selected, base, torch.zeros_like(base))
    if config.denominator == "group_selected":
        chosen = _group_weights(batch, selected, process_group)
    elif config.denominator != "all":
        pool = batch.response_mask if config.denominator == "selected" else eligible
        sums = torch.stack([masked_sum(base, pool), chosen.sum()])
        whole, kept = global_sum(sums, process_group).tolist()
        chosen = chosen * (whole / kept) if kept else chosen
    dtype = batch.old_log_probs.dtype
    kl = chosen if config.mask_kl else base
    return LossWeights(pg=chosen.to(dtype), kl=kl.to(dtype))


def _group_weights(
    batch: TokenBatch, selected: Tensor, process_group: ProcessGroup | None
) -> Tensor:
    """Return 1/S of the token's group over the number of groups: equation 2, literally."""
    counted = batch.response_mask.any(1)
    rows = torch.stack([batch.group_ids, selected.sum(1), counted.long()], 1)
    everywhere, own = gather_rows(rows, process_group)
    everywhere_counted = everywhere[:, 2] > 0
    groups, index = torch.unique(everywhere[:, 0], return_inverse=True)
    sums = torch.zeros(len(groups), dtype=torch.float64, device=selected.device)
    sums.index_add_(0, index, everywhere[:, 1].double())
    num_groups = len(torch.unique(everywhere[everywhere_counted, 0]))
    per_token = 1.0 / (sums[index[own]].clamp_min(1) * max(num_groups, 1))
    return torch.where(selected, per_token[:, None], sums.new_zeros(()))
