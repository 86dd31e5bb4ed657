"""verl's FSDP engine, whose scoring passes return our token statistics."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from verl.utils import tensordict_utils as tu
from verl.workers.engine import EngineRegistry

from gmts.logits import logit_stats
from gmts.trainers.verl.internals import UnpinnedFSDPEngine

WITH_NORM = "gmts_with_logit_grad_norm"
"""Set in a batch whose scoring pass shall return `logit_grad_norm` too."""


class StatsEngine(UnpinnedFSDPEngine):
    """The engine of the policy and of the reference.

    Entropies of passes without gradient are those of `gmts.logits`: verl's logsumexp - sum p z
    cancels for peaked distributions and may be below 0.
    """

    step_gate: Callable[[], bool] | None = None
    """Asked after the backward pass whether the optimizer may step; None: it does."""

    def prepare_model_outputs(
        self, output: Any, output_args: dict[str, Any], micro_batch: Any, *args: Any, **kwargs: Any
    ) -> dict[str, Any]:
        """Return verl's outputs, nested over whole sequences, with our statistics among them.

        Raises:
            ValueError: If fused kernels keep the logits to themselves, or the temperature differs
                from row to row.
        """
        own = not torch.is_grad_enabled() and tu.get_non_tensor_data(
            micro_batch, "calculate_entropy", False
        )
        if own:
            tu.assign_non_tensor(micro_batch, calculate_entropy=False)
        result: dict[str, Any] = super().prepare_model_outputs(
            output, output_args, micro_batch, *args, **kwargs
        )
        if not own:
            return result
        if tu.get_non_tensor_data(micro_batch, "use_fused_kernels", False):
            raise ValueError("actor_rollout_ref.model.use_fused_kernels must be false, got true")
        temperature = micro_batch["temperature"]
        if isinstance(temperature, Tensor):
            raise ValueError("the temperature must be one number, got one per row")
        input_ids = micro_batch["input_ids"]
        stats = logit_stats(
            _packed(output.logits, input_ids),
            torch.roll(input_ids.values(), shifts=-1, dims=0),
            temperature=float(temperature),
        )
        offsets = input_ids.offsets()
        result["entropy"] = torch.nested.nested_tensor_from_jagged(stats.entropy, offsets)
        if tu.get_non_tensor_data(micro_batch, WITH_NORM, False):
            norm = torch.nested.nested_tensor_from_jagged(stats.logit_grad_norm, offsets)
            result["logit_grad_norm"] = norm
        return result

    def optimizer_step(self) -> float:
        """Clip and step, unless `step_gate` says no: weights, moments and counters stay."""
        if self.step_gate is not None and not self.step_gate():
            self.optimizer_zero_grad()
            return 0.0
        return float(super().optimizer_step())


def _packed(logits: Tensor, input_ids: Any) -> Tensor:
    """Return the logits of the real tokens [N, V], sequence by sequence.

    Args:
        logits: [1, N + padding, V] as verl packs them, or [B, width, V] right-padded.
        input_ids: Nested, [B, length].
    """
    lengths = input_ids.offsets().diff()
    if logits.shape[0] == 1 and logits.shape[1] >= int(lengths.sum()):
        return logits[0, : int(lengths.sum())]
    return logits[torch.arange(logits.shape[1], device=logits.device) < lengths[:, None]]


EngineRegistry.register(model_type="language_model", backend=["fsdp2"], device="cpu")(StatsEngine)
# verl looks for the vendor's own engine before the device's.
EngineRegistry.register(
    model_type="language_model", backend=["fsdp", "fsdp2"], device="cuda", vendor="nvidia"
)(StatsEngine)
