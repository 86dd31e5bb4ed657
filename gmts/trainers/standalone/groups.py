"""A question with its sampled and judged responses."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from gmts.batch import TokenStats
from gmts.rewards.verdict import Verdict
from gmts.rollout.sampler import Sample
from gmts.trainers.config import InformativeOn


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The responses to one drawn question."""

    draw: int
    """Number of the draw in this run: unique, the group's id in a batch."""
    row: int
    """Place of the question in the training split."""
    prompt: tuple[int, ...]
    """Token ids."""
    samples: tuple[Sample, ...]
    texts: tuple[str, ...]
    """Decoded responses, as they were judged."""
    verdicts: tuple[Verdict, ...]
    stats: TokenStats | None = None
    """[G, T] of the policy that sampled; None until the old-log-prob pass has been made."""

    @property
    def num_correct(self) -> int:
        """Responses with a positive verdict."""
        return sum(verdict.correct for verdict in self.verdicts)

    def informative(self, on: InformativeOn) -> bool:
        """Whether the responses were judged differently.

        Args:
            on: verdict: neither all right nor all wrong, whatever the scores; grade: scores differ.
        """
        if on == "grade":
            return len({verdict.score for verdict in self.verdicts}) > 1
        return 0 < self.num_correct < len(self.verdicts)

    @classmethod
    def unpacked(cls, packed: Mapping[str, Any]) -> Self:
        """Return the group behind its `dataclasses.asdict`."""
        stats = packed["stats"]
        return cls(
            draw=packed["draw"],
            row=packed["row"],
            prompt=tuple(packed["prompt"]),
            samples=tuple(Sample(**sample) for sample in packed["samples"]),
            texts=tuple(packed["texts"]),
            verdicts=tuple(Verdict(**verdict) for verdict in packed["verdicts"]),
            stats=None if stats is None else TokenStats(**stats),
        )
