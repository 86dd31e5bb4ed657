"""verl's nested batches as ours, and back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed
from torch.distributed import ProcessGroup

from gmts.batch import TokenBatch, TokenStats
from gmts.tensors import gather_rows

Nested = Any
"""A jagged tensor, whose methods torch's types do not know."""

RowName = tuple[int, str, int]
"""Place of the question in the data set, verl's random name of the group, number in the group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ids:
    """Numbers of this rank's rows, the same whatever the order and the ranks."""

    sample_ids: Tensor
    group_ids: Tensor


def padded(nested: Nested) -> Tensor:
    """Return a nested [B, length] tensor right-padded with zeros to the longest row."""
    dense: Tensor = torch.nested.to_padded_tensor(nested, 0)
    return dense


def nested_like(values: Tensor, nested: Nested) -> Nested:
    """Return right-padded [B, T] values as a nested tensor with the lengths of another."""
    offsets = nested.offsets()
    places = torch.arange(values.shape[1], device=values.device) < offsets.diff()[:, None]
    return torch.nested.nested_tensor_from_jagged(values[places], offsets)


def row_ids(names: Sequence[RowName], process_group: ProcessGroup | None) -> Ids:
    """Number groups by their place in the data set, and samples within them.

    verl names groups at random; ties broken by such names would differ from run to run.

    Args:
        names: Of this rank's rows.
        process_group: Ranks that share the batch.

    Raises:
        ValueError: If two rows have the same name.
    """
    everywhere = [list(names)]
    if process_group is not None:
        everywhere = [[]] * distributed.get_world_size(process_group)
        distributed.all_gather_object(everywhere, list(names), group=process_group)
    ordered = sorted(name for part in everywhere for name in part)
    if len(set(ordered)) != len(ordered):
        raise ValueError("rows of a batch must have names of their own, got one twice")
    samples = {name: number for number, name in enumerate(ordered)}
    groups = {name: number for number, name in enumerate(sorted({name[:2] for name in ordered}))}
    return Ids(
        sample_ids=torch.tensor([samples[name] for name in names], dtype=torch.long),
        group_ids=torch.tensor([groups[name[:2]] for name in names], dtype=torch.long),
    )


def names_of(data: Any) -> list[RowName]:
    """Return the names of a verl batch's rows, from the fields that its agent loop writes."""
    index, uid, session = (listed(data[key]) for key in ("index", "uid", "session_id"))
    return [
        (int(place), str(name), int(number))
        for place, name, number in zip(index, uid, session, strict=True)
    ]


def listed(values: Any) -> list[Any]:
    """Return a field that holds one value per row as a list, whichever way verl holds it."""
    return list(values.tolist()) if hasattr(values, "tolist") else list(values)


def token_batch(data: Any, process_group: ProcessGroup | None) -> TokenBatch:
    """Return the response tokens of a verl batch.

    Args:
        data: A TensorDict of nested tensors with old log-probs and advantages.
        process_group: Ranks that share the batch.

    Raises:
        ValueError: If the advantages of a response differ from token to token.
    """
    mask = padded(data["response_mask"]).bool()
    ids = row_ids(names_of(data), process_group)
    return TokenBatch(
        response_ids=padded(data["responses"]),
        response_mask=mask,
        old_log_probs=padded(data["old_log_probs"]).float(),
        ref_log_probs=optional(data, "ref_log_prob"),
        advantages=_per_response(padded(data["advantages"]).float(), mask),
        sample_ids=ids.sample_ids.to(mask.device),
        group_ids=ids.group_ids.to(mask.device),
        rollout_log_probs=optional(data, "rollout_log_probs"),
    )


def optional(data: Any, name: str) -> Tensor | None:
    """Return a nested field of a verl batch padded in float32, None where there is none."""
    return padded(data[name]).float() if name in data else None


def _per_response(advantages: Tensor, mask: Tensor) -> Tensor:
    first = mask.to(torch.uint8).argmax(1, keepdim=True)
    own = torch.where(mask.any(1), advantages.gather(1, first)[:, 0], 0.0)
    if bool((mask & (advantages != own[:, None])).any()):
        raise ValueError(
            "algorithm.adv_estimator must give every token of a response the same advantage, got "
            "one that does not"
        )
    return own


def token_stats(log_probs: Nested, entropy: Nested, norm: Nested) -> TokenStats:
    """Return statistics from nested [B, response length] tensors; the norm is 0 if not given."""
    own = padded(entropy).float()
    return TokenStats(
        log_probs=padded(log_probs).float(),
        entropy=own,
        logit_grad_norm=torch.zeros_like(own) if norm is None else padded(norm).float(),
    )


def any_tokens(mask: Tensor, process_group: ProcessGroup | None) -> bool:
    """Return whether some rank has a response token."""
    counts, _ = gather_rows(mask.sum().view(1), process_group)
    return bool(counts.sum())
