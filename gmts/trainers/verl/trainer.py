"""verl's synchronous trainer with our selection: `trainer.v1.trainer_mode=gmts`."""

from collections.abc import Sequence
from typing import Any

import transfer_queue
from omegaconf import OmegaConf, open_dict
from verl.trainer.ppo.v1 import register_trainer
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from gmts.rewards.overlong import overlong_metrics
from gmts.trainers.verl.advantages import PENALTY, penalty_node
from gmts.trainers.verl.buffer import BoundedReplayBuffer
from gmts.trainers.verl.checks import check_config
from gmts.trainers.verl.internals import HookedTrainer
from gmts.trainers.verl.layout import rank_rows
from gmts.trainers.verl.metrics import PREFIX, rollout_metrics
from gmts.trainers.verl.options import NODE, from_config
from gmts.trainers.verl.rows import listed
from gmts.trainers.verl.worker import SelectingActorWorker

MODE = "gmts"


@register_trainer(MODE)
class SelectingTrainer(HookedTrainer):
    """Everything else is verl's: rollouts, old log-probs, checkpoints, the loop."""

    def __init__(self, config: Any) -> None:
        node = OmegaConf.select(config, NODE)
        plain = None if node is None else OmegaConf.to_container(node, resolve=True)
        self._options = from_config(plain)
        check_config(lambda key: OmegaConf.select(config, key), self._options)
        with open_dict(config.algorithm):
            config.algorithm[PENALTY] = penalty_node(
                self._options.overlong, self._options.max_response_tokens
            )
        super().__init__(config)

    def actor_worker(self) -> type:
        """Return the worker that selects."""
        return SelectingActorWorker

    def replay_buffer_of(self, buffer: ReplayBuffer) -> ReplayBuffer:
        """Return the buffer with the limit of rollout batches."""
        return BoundedReplayBuffer(buffer, self._options.max_batches)

    def rank_of_rows(self, batch: Any, num_ranks: int) -> Sequence[Sequence[int]]:
        """Return whole groups per mini-batch."""
        return rank_rows(
            [key.split("_")[0] for key in batch.keys],
            [tag["seq_len"] for tag in batch.tags],
            group_size=self.config.actor_rollout_ref.rollout.n,
            groups_per_mini_batch=self.config.actor_rollout_ref.actor.ppo_mini_batch_size,
            num_ranks=num_ranks,
        )

    def own_metrics(self, batch: Any, metrics: dict[str, Any]) -> dict[str, float]:
        """Return the rollouts' metrics under the names of the standalone trainer."""
        keys = [
            key
            for key, tag in zip(batch.keys, batch.tags, strict=True)
            if not tag.get("is_padding")
        ]
        data = transfer_queue.kv_batch_get(
            keys=keys,
            partition_id=batch.partition_id,
            select_fields=["responses", "rm_scores", "extra_fields", "uid"],
        )
        lengths = data["responses"].offsets().diff().tolist()
        found = rollout_metrics(
            groups=listed(data["uid"]),
            lengths=lengths,
            scores=data["rm_scores"].sum(dim=1).tolist(),
            extras=listed(data["extra_fields"]),
            filtered=self.replay_buffer.filtered,
            num_sampled=self.replay_buffer.num_submitted,
            group_size=self.config.actor_rollout_ref.rollout.n,
            batch_size=self.config.data.train_batch_size,
        ) | overlong_metrics(
            lengths,
            self._options.overlong,
            max_response_tokens=self._options.max_response_tokens,
        )
        return {f"{PREFIX}{name}": value for name, value in found.items()}
