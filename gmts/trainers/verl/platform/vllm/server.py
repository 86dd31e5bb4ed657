"""verl's vLLM server with the worker of this package. Imports vLLM.

Like `gmts.trainers.verl.internals` this reaches into private names, of verl's vLLM modules, which
are only there where vLLM is: the hooks that verl's variants of the server override too.
"""

from typing import Any

import ray
from verl.workers.rollout.vllm_rollout.vllm_async_server import vLLMHttpServer, vLLMReplica

from gmts.trainers.verl.platform.vllm import NAME


class CPUServer(vLLMHttpServer):
    """A Ray actor with vLLM's engine."""

    def _get_worker_extension_cls(self) -> str:
        return "gmts.trainers.verl.platform.vllm.worker.CPUWorkerExtension"


class CPUReplica(vLLMReplica):
    """Starts one server."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.server_class = ray.remote(CPUServer)

    def _get_server_name_prefix(self) -> str:
        return f"{NAME}_"  # by which verl's adapter looks for the server
