"""Imported in vLLM's worker process before it loads the model."""

from typing import Any

from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension
from vllm.model_executor.layers.linear import UnquantizedLinearMethod
from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm


def _pack(self: Any, layer: Any) -> None:
    """Pack a weight for oneDNN and keep it: vLLM drops it, and then no other can be loaded."""
    dispatch_cpu_unquantized_gemm(layer, remove_weight=False)


UnquantizedLinearMethod.process_weights_after_loading = _pack


class CPUWorkerExtension(vLLMColocateWorkerExtension):
    """verl's extension: takes the trainer's weights, then has vLLM process them again."""
