"""Whether a mini-batch moves the policy at all."""

from typing import Literal

import torch
from jaxtyping import Bool
from torch import Tensor
from torch.distributed import ProcessGroup

from gmts.batch import TokenBatch
from gmts.objective.config import ObjectiveConfig
from gmts.objective.terms import ObjectiveTerms
from gmts.tensors import global_sum

Signal = Literal["reward", "kl_only", "none"]


def signal_of(
    batch: TokenBatch,
    terms: ObjectiveTerms,
    selected: Bool[Tensor, "B T"],
    config: ObjectiveConfig,
    *,
    process_group: ProcessGroup | None = None,
) -> Signal:
    """Return what the tokens that carry loss have in them, over all ranks.

    reward: some selected token has a policy-gradient coefficient other than 0. kl_only: none has,
    but a KL term that counts is active. none: weights and moments must not be touched, since
    momentum and weight decay would still move the weights.
    """
    carries_kl = selected if config.mask_kl else batch.response_mask
    counts = torch.stack(
        [
            (selected & (terms.pg_omega != 0)).sum(),
            (carries_kl & (terms.kl_omega != 0)).sum(),
        ]
    )
    reward, kl = global_sum(counts, process_group).tolist()
    if reward:
        return "reward"
    return "kl_only" if kl else "none"
