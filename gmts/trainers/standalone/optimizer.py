"""AdamW with a constant rate after a linear warm-up."""

from typing import Any

import torch

from gmts.trainers.config import OptimizerConfig


def make_optimizer(policy: Any, config: OptimizerConfig) -> torch.optim.AdamW:
    """Return AdamW over the policy's trainable parameters, in the single-tensor form.

    One tensor at a time and nothing fused: the same numbers on every run.
    """
    return torch.optim.AdamW(
        [parameter for parameter in policy.parameters() if parameter.requires_grad],
        lr=config.lr,
        betas=(config.beta1, config.beta2),
        eps=config.eps,
        weight_decay=config.weight_decay,
        foreach=False,
        fused=False,
    )


def set_rate(optimizer: torch.optim.Optimizer, config: OptimizerConfig, step: int) -> float:
    """Set and return the rate of optimizer step number `step`, counted from 0."""
    rate = config.lr * min(1.0, (step + 1) / (config.warmup_steps or 1))
    for group in optimizer.param_groups:
        group["lr"] = rate
    return rate
