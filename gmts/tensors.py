"""Masked sums, and sums and rows over ranks. Masks are bool, denominators are arguments."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, distributed
from torch.distributed import ProcessGroup


def masked_sum(values: Float[Tensor, "*shape"], mask: Bool[Tensor, "*shape"]) -> Float[Tensor, ""]:
    """Return the sum of `values` where `mask` is True; other positions may hold NaN or infinity."""
    return torch.where(mask, values, torch.zeros_like(values)).sum()


def global_sum(values: Tensor, process_group: ProcessGroup | None) -> Tensor:
    """Return `values` summed over the ranks of `process_group`; as they are without one."""
    if process_group is None:
        return values
    total = values.clone()
    distributed.all_reduce(total, group=process_group)
    return total


def gather_rows(rows: Tensor, process_group: ProcessGroup | None) -> tuple[Tensor, slice]:
    """Return the rows of all ranks one after another, and where this rank's lie among them.

    Args:
        rows: [n, ...]; n may differ between ranks, the rest may not.
        process_group: The ranks; None for this process alone.
    """
    if process_group is None:
        return rows, slice(0, len(rows))
    rank, size = distributed.get_rank(process_group), distributed.get_world_size(process_group)
    counts = torch.zeros(size, dtype=torch.int64, device=rows.device)
    counts[rank] = len(rows)
    lengths = [int(count) for count in global_sum(counts, process_group)]
    padded = rows.new_zeros((max(lengths), *rows.shape[1:]))
    padded[: len(rows)] = rows
    parts = [torch.empty_like(padded) for _ in range(size)]
    distributed.all_gather(parts, padded, group=process_group)
    first = sum(lengths[:rank])
    gathered = torch.cat([part[:length] for part, length in zip(parts, lengths, strict=True)])
    return gathered, slice(first, first + len(rows))
