"""verl's replay buffer with an end: data without signal must not be sampled for ever."""

from collections import Counter
from collections.abc import Collection
from typing import Any

from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from gmts.trainers.verl.internals import HookedReplayBuffer

_POLL_SECONDS = 0.2
"""verl's 2 s would be most of a step of a small model."""


class NoSignalError(RuntimeError):
    """The limit of rollout batches is reached without a full batch of mixed groups."""

    def __init__(
        self, *, num_groups: int, num_all_wrong: int, num_all_right: int, limit: int
    ) -> None:
        """Keep the counts.

        Args:
            num_groups: Sampled in this step.
            num_all_wrong: Of them, all of whose responses were wrong.
            num_all_right: Of them, all of whose responses were right.
            limit: train.dynamic_sampling.max_batches.
        """
        super().__init__(num_groups, num_all_wrong, num_all_right, limit)
        self.num_groups, self.limit = num_groups, limit
        self.num_all_wrong, self.num_all_right = num_all_wrong, num_all_right

    def __reduce__(self) -> tuple[Any, ...]:
        """Survive the way between Ray's processes with its counts."""
        return _no_signal, tuple(self.args)

    def __str__(self) -> str:
        """Say what was found."""
        return (
            f"no full batch of mixed groups within {self.limit} rollout batches "
            f"(train.dynamic_sampling.max_batches): of {self.num_groups} groups "
            f"{self.num_all_wrong} were all wrong and {self.num_all_right} all right"
        )


def _no_signal(num_groups: int, num_all_wrong: int, num_all_right: int, limit: int) -> Any:
    return NoSignalError(
        num_groups=num_groups,
        num_all_wrong=num_all_wrong,
        num_all_right=num_all_right,
        limit=limit,
    )


class BoundedReplayBuffer(HookedReplayBuffer):
    """Samples like verl's, at most `limit` rollout batches per step."""

    def __init__(self, source: ReplayBuffer, limit: int) -> None:
        """Take over the settings of verl's own buffer."""
        self.__dict__.update(source.__dict__)
        self.poll_interval = _POLL_SECONDS
        self._limit = limit
        self._refill = source.refill_fn
        self.refill_fn = self._bounded_refill
        self._num_submitted = 0
        self._filtered: Counter[float] = Counter()

    @property
    def num_submitted(self) -> int:
        """Groups that the newest step asked for."""
        return self._num_submitted

    @property
    def filtered(self) -> Counter[float]:
        """How many groups the newest step filtered, by the metric that their responses share."""
        return self._filtered

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> Any:
        """Return a batch; see verl.

        Raises:
            NoSignalError: If the limit is reached first.
        """
        if partition_id != "val":
            self._num_submitted = batch_size  # the trainer's own, of this step
            self._filtered = Counter()
        return super().sample(
            global_steps=global_steps, partition_id=partition_id, batch_size=batch_size
        )

    def _bounded_refill(self, num_prompts: int) -> int:
        """Submit no more than the limit leaves."""
        room = self._limit * int(self.train_batch_size) - self._num_submitted
        allowed = min(num_prompts, room)
        if allowed <= 0:
            return 0
        self._num_submitted += allowed
        self._refill(allowed)
        return allowed

    def on_filtered(self, verdicts: Counter[float]) -> None:
        """Count."""
        self._filtered += verdicts

    def on_failed(self, groups: Collection[str]) -> None:
        """End the run: a failure is never a silent 0.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(
            f"{len(groups)} groups could not be sampled or judged; the errors are in the log above"
        )

    def on_wait(self, num_unfinished: int) -> None:
        """End the run if nothing is under way and nothing more may be asked for.

        Raises:
            NoSignalError: In that case.
        """
        if self.filter_groups_metric is None or num_unfinished:
            return
        if self._num_submitted < self._limit * int(self.train_batch_size):
            return
        raise NoSignalError(
            num_groups=self._num_submitted,
            num_all_wrong=sum(n for value, n in self._filtered.items() if value <= 0),
            num_all_right=sum(n for value, n in self._filtered.items() if value > 0),
            limit=self._limit,
        )
