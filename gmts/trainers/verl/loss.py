"""Our loss in the place of verl's ppo_loss: final token weights times token losses, summed."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from verl.workers.utils.padding import no_padding_2_padding

from gmts.batch import TokenBatch
from gmts.objective.config import ObjectiveConfig
from gmts.objective.terms import objective_terms
from gmts.tensors import masked_sum
from gmts.trainers.update.plan import Plan
from gmts.trainers.verl.rows import nested_like, optional, padded

TOKEN_WEIGHTS, KL_WEIGHTS = "token_weights", "gmts_kl_weights"
SCORED, ADVANTAGES = "gmts_scored_log_probs", "gmts_advantages"


def attach(data: Any, batch: TokenBatch, plan: Plan) -> None:
    """Write what the loss of a micro-batch needs into a verl batch.

    `response_mask` and `loss_mask` stay as they are: verl counts lengths and tokens by them.
    """
    like = data["response_mask"]
    data[TOKEN_WEIGHTS] = nested_like(plan.weights.pg, like)
    data[KL_WEIGHTS] = nested_like(plan.weights.kl, like)
    data[SCORED] = nested_like(plan.stats.log_probs, like)
    data[ADVANTAGES] = batch.advantages


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedLoss:
    """The loss of one optimizer step's micro-batches, which add up to the mini-batch's."""

    objective: ObjectiveConfig
    exact: bool
    """Whether the scored policy is the present one."""
    live: Tensor
    """Counts this rank's tokens that had an omega other than 0; int64, changed in place."""

    def __call__(
        self, *, model_output: Any, data: Any, dp_group: Any = None
    ) -> tuple[Tensor, dict[str, Any]]:
        """Return the micro-batch's share of the loss, and no metrics.

        The weights' denominators are global. verl's engines average gradients over data-parallel
        ranks, hence the factor.
        """
        del dp_group
        mask = padded(data["response_mask"]).bool()
        batch = TokenBatch(
            response_ids=padded(data["responses"]),
            response_mask=mask,
            old_log_probs=padded(data["old_log_probs"]).float(),
            ref_log_probs=optional(data, "ref_log_prob"),
            advantages=data[ADVANTAGES],
            sample_ids=torch.arange(len(mask)),
            group_ids=torch.arange(len(mask)),
            rollout_log_probs=optional(data, "rollout_log_probs"),
        )
        pg_weights, kl_weights = padded(data[TOKEN_WEIGHTS]), padded(data[KL_WEIGHTS])
        own = no_padding_2_padding(model_output["log_probs"], data)[:, : mask.shape[1]].float()
        if self.exact:
            # The scored value with this pass's gradient: another micro-batch's rounding must not
            # move a token over a clip bound.
            own = padded(data[SCORED]) + (own - own.detach())
        terms = objective_terms(own, batch, self.objective)
        loss = masked_sum(pg_weights * terms.pg_loss, mask)
        loss = loss + masked_sum(kl_weights * terms.kl_loss, mask)
        pulls = (pg_weights != 0) & (terms.pg_omega != 0)
        pulls = pulls | (kl_weights != 0) & (terms.kl_omega != 0)
        self.live.add_((pulls & mask).sum())
        return loss * data["dp_size"], {}
