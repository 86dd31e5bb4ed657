"""One step's rollouts: questions drawn, responses sampled and judged, groups filtered."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from gmts.data.rows import Row
from gmts.rewards.kinds import Job
from gmts.rewards.scorer import Scorer, judge_all
from gmts.rewards.verdict import ERROR, TIMEOUT, RewardError
from gmts.rollout.sampler import Sample, Sampler
from gmts.trainers.config import DynamicSamplingConfig
from gmts.trainers.standalone.groups import Group
from gmts.trainers.standalone.state import LoopState, drawn_questions, stream_seed

logger = logging.getLogger(__name__)

Decode = Callable[[Sequence[int]], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """A split with its encoded prompts, how responses to it are read and judged."""

    rows: Sequence[Row]
    prompts: Sequence[tuple[int, ...]]
    decode: Decode
    """Token ids of a response to the text that is judged; special tokens are left out."""
    decode_prompt: Decode
    """Token ids of a prompt to text, special tokens included."""
    scorer: Scorer

    def judge(
        self, draws: Sequence[int], rows: Sequence[int], samples: Sequence[Sample]
    ) -> list[Group]:
        """Return one group per drawn row from `samples`, which lie row by row.

        What an own scorer raises goes on with a note that names the row.
        """
        size = len(samples) // len(rows)
        texts = [self.decode(sample.token_ids) for sample in samples]
        verdicts = judge_all(self.scorer, self._jobs(rows, texts, size))
        groups = []
        for number, (draw, index) in enumerate(zip(draws, rows, strict=True)):
            own = slice(number * size, (number + 1) * size)
            groups.append(
                Group(
                    draw=draw,
                    row=index,
                    prompt=self.prompts[index],
                    samples=tuple(samples[own]),
                    texts=tuple(texts[own]),
                    verdicts=tuple(verdicts[own]),
                )
            )
        return groups

    def _jobs(self, rows: Sequence[int], texts: Sequence[str], size: int) -> list[Job]:
        asked = [self.rows[index] for index in rows for _ in range(size)]
        return [
            Job(id=row.id, response=text, ground_truth=row.ground_truth, meta=row.meta)
            for row, text in zip(asked, texts, strict=True)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """The groups that a step trains on, and what was sampled for them."""

    batch: list[Group]
    surplus: list[Group]
    """Mixed groups beyond the batch that the next step uses."""
    sampled: list[Group]
    """Every group sampled in this step, whatever became of it."""
    num_batches: int
    """Calls of the sampler."""
    num_discarded: int
    """Mixed groups beyond the batch that were thrown away."""
    cap_reached: bool
    """True if dynamic sampling gave up before the batch was full."""
    rollout_seconds: float
    reward_seconds: float

    @property
    def lengths(self) -> list[int]:
        """Tokens of every sampled response, end tokens included."""
        return [len(sample.token_ids) for group in self.sampled for sample in group.samples]


class Rollouts:
    """The source of a run's training groups."""

    def __init__(
        self,
        questions: Questions,
        sampler: Sampler,
        *,
        seed: int,
        group_size: int,
        questions_per_batch: int,
        dynamic_sampling: DynamicSamplingConfig,
        device: torch.device,
    ) -> None:
        self._questions = questions
        self._sampler = sampler
        self._seed = seed
        self._group_size = group_size
        self._size = questions_per_batch
        self._dynamic = dynamic_sampling
        self._device = device

    def collect(self, state: LoopState) -> Collected:
        """Sample one step's groups and advance the counters of `state`.

        Without dynamic sampling: one batch, every group. With it: batches are drawn until enough
        groups are informative or the cap is reached; carried groups come first.
        """
        pool, sampled = list(state.carried), list[Group]()
        rollout_s = reward_s = 0.0
        num_batches = 0
        limit = self._dynamic.max_batches if self._dynamic.enabled else 1
        while len(pool) < self._size and num_batches < limit:
            groups, seconds = self._sample(state)
            num_batches += 1
            rollout_s, reward_s = rollout_s + seconds[0], reward_s + seconds[1]
            sampled += groups
            pool += [group for group in groups if self._takes_part(group)]
        surplus = pool[self._size :]
        carry = self._dynamic.surplus == "carry"
        cap_reached = len(pool) < self._size
        if cap_reached:
            logger.debug("%d of %d groups are informative at the cap", len(pool), self._size)
        return Collected(
            batch=pool[: self._size],
            surplus=surplus if carry else [],
            sampled=sampled,
            num_batches=num_batches,
            num_discarded=0 if carry else len(surplus),
            cap_reached=cap_reached,
            rollout_seconds=rollout_s,
            reward_seconds=reward_s,
        )

    def _takes_part(self, group: Group) -> bool:
        return not self._dynamic.enabled or group.informative(self._dynamic.informative_on)

    def _sample(self, state: LoopState) -> tuple[list[Group], tuple[float, float]]:
        start = time.perf_counter()
        draws = range(state.draws, state.draws + self._size)
        rows = drawn_questions(
            seed=self._seed,
            num_rows=len(self._questions.rows),
            first=state.draws,
            count=self._size,
        )
        generator = torch.Generator(device=self._device)
        generator.manual_seed(stream_seed(self._seed, "rollouts", state.rollout_batches))
        samples = self._sampler.sample(
            [self._questions.prompts[row] for row in rows], self._group_size, generator
        )
        state.draws += self._size
        state.rollout_batches += 1
        sampled = time.perf_counter()
        groups = self._questions.judge(draws, rows, samples)
        if self._dynamic.informative_on == "grade":
            _check_grades(groups)
        return groups, (sampled - start, time.perf_counter() - sampled)


def _check_grades(groups: Sequence[Group]) -> None:
    """Refuse what a grade cannot be: a penalty for length, say, would make any group differ."""
    for group in groups:
        for verdict in group.verdicts:
            if not 0 <= verdict.score <= 1:
                raise RewardError(
                    "rewards must lie in [0, 1] with train.dynamic_sampling.informative_on grade, "
                    f"got {verdict.score} for a response to training row {group.row}"
                )


def rollout_metrics(collected: Collected) -> dict[str, float]:
    """Return metrics over everything sampled in a step, before any filter.

    reward/* and response/* are means over responses (length_min, length_max: extremes; tokens,
    the end token included). Counts: groups/*, reward/timeouts, reward/errors (failed verdicts).
    """
    groups = collected.sampled
    verdicts = [verdict for group in groups for verdict in group.verdicts]
    samples = [sample for group in groups for sample in group.samples]
    lengths = collected.lengths
    return {
        "reward/mean": sum(verdict.score for verdict in verdicts) / len(verdicts),
        "reward/correct": sum(verdict.correct for verdict in verdicts) / len(verdicts),
        "reward/timeouts": sum(verdict.reason == TIMEOUT for verdict in verdicts),
        "reward/errors": sum(verdict.reason.startswith(ERROR) for verdict in verdicts),
        "response/length_mean": sum(lengths) / len(lengths),
        "response/length_min": min(lengths),
        "response/length_max": max(lengths),
        "response/truncated": sum(not sample.finished for sample in samples) / len(samples),
        "groups/sampled": len(groups),
        "groups/all_right": sum(group.num_correct == len(group.verdicts) for group in groups),
        "groups/all_wrong": sum(group.num_correct == 0 for group in groups),
        "groups/trained": len(collected.batch),
        "groups/carried": len(collected.surplus),
        "groups/discarded": collected.num_discarded,
        "rollout/batches": collected.num_batches,
        "rollout/cap_reached": float(collected.cap_reached),
    }
