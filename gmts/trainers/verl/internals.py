"""Every place where we reach into a private name of verl, and why. Nothing else may.

verl has no public hook for what follows. `PRIVATE_NAMES` lists what the classes here rely on;
tests/verl compares it with the installed verl, so that a new one fails there and not in a run.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import ray
from torch import nn
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1 import PPOTrainerSync
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.utils.device import get_device_name
from verl.workers.engine.fsdp import FSDPEngineWithLMHead
from verl.workers.rollout import base as rollout_base
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry

VERL_VERSION = "0.9.1"

PRIVATE_NAMES: Mapping[str, tuple[str, ...]] = {
    "verl.workers.engine.fsdp.transformer_impl:FSDPEngine._build_fsdp_module": ("self", "module"),
    "verl.trainer.ppo.v1.trainer_base:PPOTrainer._init_resource_pool_mgr": ("self",),
    "verl.trainer.ppo.v1.trainer_base:PPOTrainer._build_replay_buffer": ("self",),
    "verl.trainer.ppo.v1.trainer_base:PPOTrainer._balance_batch": (
        "self", "batch", "metrics", "logging_prefix", "keep_minibatch",
    ),
    "verl.trainer.ppo.v1.trainer_base:PPOTrainer._compute_metrics": (
        "self", "batch", "metrics", "timing_raw", "global_steps", "epoch",
    ),
    "verl.trainer.ppo.v1.replay_buffer:ReplayBuffer._dapo_filtered_keys": ("self", "partition_id"),
    "verl.trainer.ppo.v1.replay_buffer:ReplayBuffer._evict_terminal_groups": (
        "self", "global_steps", "partition_id", "eviction_reasons",
    ),
    "verl.trainer.ppo.v1.replay_buffer:ReplayBuffer._wait_for_next_poll": (
        "self", "partition_id", "last_debug_time",
    ),
}  # fmt: skip
"""`module:name` and its parameters."""


class UnpinnedFSDPEngine(FSDPEngineWithLMHead):
    """verl offloads a reference's weights to pinned memory; on a CPU pinning fails."""

    def _build_fsdp_module(self, module: nn.Module) -> nn.Module:
        if get_device_name() != "cpu" or not self.engine_config.forward_only:
            return super()._build_fsdp_module(module)  # type: ignore[no-any-return]
        # The flag decides nothing else in there. verl's configs refuse assignment.
        object.__setattr__(self.engine_config, "forward_only", False)
        try:
            return super()._build_fsdp_module(module)  # type: ignore[no-any-return]
        finally:
            object.__setattr__(self.engine_config, "forward_only", True)


class HookedReplica(RolloutReplica):
    """A rollout replica of one server actor."""

    @abstractmethod
    async def start_server(self) -> tuple[str, Any]:
        """Return the server's name and its actor, ready to generate."""

    async def launch_servers(self) -> None:
        """Start the server; verl's load balancer finds it under these private attributes."""
        self._server_address, self._server_handle = await self.start_server()
        self.servers = [self._server_handle]


def register_rollout(name: str, load: Callable[[], type[RolloutReplica]], adapter: str) -> None:
    """Make `actor_rollout_ref.rollout.name=name` known.

    Args:
        name: Of the rollout.
        load: Returns the class of what serves; called where one is started.
        adapter: Full name of the class in the trainer's worker that sends weights. verl keeps
            these in a private dictionary.
    """
    RolloutReplicaRegistry.register(name, load)
    rollout_base._ROLLOUT_REGISTRY[(name, "async")] = adapter


class HookedReplayBuffer(ReplayBuffer):
    """verl's replay buffer, which tells what its group filter does and when it has to wait."""

    @abstractmethod
    def on_filtered(self, verdicts: Counter[float]) -> None:
        """Hear of training groups that were filtered: how many by the value that they share."""

    @abstractmethod
    def on_failed(self, groups: Collection[str]) -> None:
        """Hear of groups of which some response could not be sampled or judged."""

    @abstractmethod
    def on_wait(self, num_unfinished: int) -> None:
        """Hear that training has too few groups while `num_unfinished` are being sampled."""

    def _evict_terminal_groups(
        self, global_steps: int, partition_id: str, eviction_reasons: Any
    ) -> Any:
        if self.failure_keys[partition_id]:
            self.on_failed(self.failure_keys[partition_id])
        if partition_id != "val":
            self.on_filtered(Counter(eviction_reasons[3]))
        return super()._evict_terminal_groups(global_steps, partition_id, eviction_reasons)

    def _wait_for_next_poll(self, partition_id: str, last_debug_time: float) -> float:
        if partition_id != "val":
            unfinished = self.pending_keys[partition_id] | self.running_keys[partition_id]
            self.on_wait(len(unfinished))
        return super()._wait_for_next_poll(partition_id, last_debug_time)  # type: ignore[no-any-return]


class HookedTrainer(PPOTrainerSync):
    """verl's synchronous trainer with our worker, our replay buffer, our order of rows."""

    # verl compares the mode with the literal "sync" to choose buffer, feed and checkpoint.
    trainer_mode = property(lambda self: "sync", lambda self, value: None)

    @abstractmethod
    def actor_worker(self) -> type:
        """Return the class of the workers that hold policy, reference and rollout."""

    @abstractmethod
    def replay_buffer_of(self, buffer: ReplayBuffer) -> ReplayBuffer:
        """Return the buffer to use in place of verl's own, from which it can be copied."""

    @abstractmethod
    def rank_of_rows(self, batch: Any, num_ranks: int) -> Sequence[Sequence[int]]:
        """Return the rows of each rank, in order, all of the same number."""

    @abstractmethod
    def own_metrics(self, batch: Any, metrics: dict[str, Any]) -> dict[str, float]:
        """Return metrics of the step besides verl's."""

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        for role in (Role.ActorRollout, Role.ActorRolloutRef):
            if role in self.role_worker_mapping:
                self.role_worker_mapping[role] = ray.remote(self.actor_worker())

    def _build_replay_buffer(self) -> ReplayBuffer:
        return self.replay_buffer_of(super()._build_replay_buffer())

    def _balance_batch(self, batch: Any, metrics: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        # verl pads to whole mini-batches, then mixes the rows of all of them to even out lengths.
        batch = super()._balance_batch(batch, metrics, *args, **kwargs)
        num_ranks = max(self.actor_rollout_wg._dispatch_info["actor"]) + 1
        rows = self.rank_of_rows(batch, num_ranks)
        batch.reorder([row for part in rows for row in part])
        return batch

    def _compute_metrics(self, batch: Any, metrics: dict[str, Any], *args: Any, **kw: Any) -> None:
        super()._compute_metrics(batch, metrics, *args, **kw)
        metrics.update(self.own_metrics(batch, metrics))
