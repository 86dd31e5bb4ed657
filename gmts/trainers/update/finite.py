"""Values that are not finite stop a step before weights or moments move."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.distributed import ProcessGroup

from gmts.batch import TokenBatch
from gmts.tensors import global_sum


def check_finite(
    named: Mapping[str, Tensor | None],
    batch: TokenBatch,
    step: int,
    process_group: ProcessGroup | None,
) -> None:
    """Refuse a response token whose value is NaN or infinite.

    Args:
        named: Tensors [B, T] by what they are called in the message; None ones are left out.
        batch: The mini-batch.
        step: Number of the optimizer step.
        process_group: Ranks that share the mini-batch; all of them raise, none waits for ever.

    Raises:
        FloatingPointError: Naming step, tensor, sample and position.
    """
    message = _not_finite(named, batch)
    count = torch.tensor(float(message is not None), device=batch.response_ids.device)
    if global_sum(count, process_group):
        reason = message or "another rank has a value that is not finite; its log names the sample"
        raise FloatingPointError(f"optimizer step {step} is refused: {reason}")


def _not_finite(named: Mapping[str, Tensor | None], batch: TokenBatch) -> str | None:
    for name, values in named.items():
        if values is None:
            continue
        broken = batch.response_mask & ~torch.isfinite(values)
        if bool(broken.any()):
            row, position = broken.nonzero()[0].tolist()
            return (
                f"the {name} of sample {int(batch.sample_ids[row])} at position {position} is "
                f"{values[row, position]}"
            )
    return None


def clipped_norm(policy: Any, max_norm: float, step: int) -> float:
    """Scale the policy's gradients down to a global norm of `max_norm`; return their norm before.

    Raises:
        FloatingPointError: If the norm is NaN or infinite; a parameter at fault is named.
    """
    parameters = [p for p in policy.parameters() if p.requires_grad]
    norm = float(torch.nn.utils.clip_grad_norm_(parameters, max_norm, foreach=False))
    if norm != norm or norm == float("inf"):
        for name, parameter in policy.named_parameters():
            gradient = parameter.grad
            if gradient is not None and not bool(torch.isfinite(gradient).all()):
                raise FloatingPointError(
                    f"optimizer step {step} is refused: the gradient of {name} is not finite"
                )
        raise FloatingPointError(f"optimizer step {step} is refused: the gradient norm is {norm}")
    return norm
