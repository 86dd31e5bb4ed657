"""What selection refuses, on every rank at once."""

import torch
from jaxtyping import Int
from torch import Tensor
from torch.distributed import ProcessGroup

from gmts.batch import TokenBatch
from gmts.selection.config import SelectionConfig
from gmts.selection.scores import Scores, first_broken
from gmts.tensors import global_sum


def input_problem(
    scores: Scores,
    batch: TokenBatch,
    config: SelectionConfig,
    micro_batch_ids: Int[Tensor, " B"] | None,
) -> str | None:
    """Return what is wrong with this rank's input to `select_tokens`, in words; or None."""
    mask, rows = batch.response_mask, tuple(batch.response_mask.shape[:1])
    for name, tensor in (("response_mask", mask), ("eligible", scores.eligible)):
        if tensor.dtype != torch.bool:
            return f"masks must be bool, got {tensor.dtype} for {name}"
    if mask.dim() != 2:
        return f"response_mask must have the shape [B, T], got {tuple(mask.shape)}"
    for name, tensor in (("scores", scores.values), ("eligible", scores.eligible)):
        if tensor.shape != mask.shape:
            return (
                f"{name} must have the shape of response_mask {tuple(mask.shape)}, got "
                f"{tuple(tensor.shape)}"
            )
    for name, tensor in (("sample_ids", batch.sample_ids), ("group_ids", batch.group_ids)):
        if tensor.shape != rows:
            return f"{name} must have the shape {rows}, got {tuple(tensor.shape)}"
    if scores.values.dtype != torch.float32:
        return f"scores must be float32, got {scores.values.dtype}"
    if int(torch.count_nonzero(scores.eligible & ~mask)):
        return "eligible must lie within response_mask, got tokens outside of it"
    found = None if micro_batch_ids is None else tuple(micro_batch_ids.shape)
    if config.scope == "micro_batch" and config.score != "none" and found != rows:
        return (
            "micro_batch_ids must be given for selection.scope micro_batch, one per row "
            f"{rows}, got {found}"
        )
    return first_broken(scores.values, batch)


def raise_everywhere(
    problem: str | None, device: torch.device, process_group: ProcessGroup | None
) -> None:
    """Raise if this rank or another one has a problem: a rank left alone would wait for ever.

    Raises:
        ValueError: With this rank's own problem, or the number of ranks that have one.
    """
    faults = torch.tensor(int(problem is not None), device=device)
    num_faults = int(global_sum(faults, process_group))
    if problem is not None:
        raise ValueError(problem)
    if num_faults:
        raise ValueError(f"selection must have valid input, got faults on {num_faults} other ranks")


def check_unique(sample_ids: Int[Tensor, " R"]) -> None:
    """Refuse repeated ids among those of all ranks.

    Raises:
        ValueError: If one is repeated; the first is named.
    """
    values, counts = torch.unique(sample_ids, return_counts=True)
    repeated = values[counts > 1]
    if len(repeated):
        raise ValueError(
            "sample_ids must be unique within the mini-batch over all ranks, got "
            f"{int(repeated[0])} more than once"
        )
