"""One training step: sample, judge, measure, update; and validation."""

import copy
import random
import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy
import torch
from torch import Tensor

from gmts.batch import TokenBatch, TokenStats
from gmts.objective.config import ObjectiveConfig
from gmts.rewards.config import OverlongConfig
from gmts.rewards.overlong import overlong_metrics, overlong_penalty
from gmts.rollout.config import RolloutConfig
from gmts.rollout.sampler import Sampler
from gmts.selection.config import SelectionConfig
from gmts.selection.scores import ScoreFunction
from gmts.trainers.config import TrainConfig
from gmts.trainers.standalone.batches import (
    Prompts,
    Rollout,
    StatsPass,
    log_ratio_metrics,
    measured,
    rollout_of,
)
from gmts.trainers.standalone.dumps import DumpedResponse
from gmts.trainers.standalone.forward import check_head, response_stats
from gmts.trainers.standalone.groups import Group
from gmts.trainers.standalone.optimizer import make_optimizer
from gmts.trainers.standalone.rollouts import Questions, Rollouts, rollout_metrics
from gmts.trainers.standalone.state import LoopState, put_weights, stream_seed
from gmts.trainers.standalone.step import StepSettings, update_step
from gmts.trainers.standalone.validate import Validator
from gmts.trainers.update.metrics import over_mini_batches


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What decides the course of training."""

    seed: int
    rollout: RolloutConfig
    overlong: OverlongConfig
    objective: ObjectiveConfig
    selection: SelectionConfig
    train: TrainConfig
    custom_score: ScoreFunction | None = None
    """The function that `selection.custom` names."""


class Trainer:
    """A policy, its optimizer, and everything a step needs; `loop.run_training` drives it."""

    def __init__(
        self,
        policy: Any,
        recipe: Recipe,
        *,
        questions: Questions,
        validation: Questions,
        eos_ids: Sequence[int],
    ) -> None:
        """Prepare to train.

        Args:
            policy: A causal language model of transformers; changed in place.
            recipe: The parameters.
            questions: The training split.
            validation: The validation split.
            eos_ids: Tokens that end a response.

        Raises:
            ValueError: If the model's logits are not its head's output.
        """
        check_head(policy)
        train, rollout = recipe.train, recipe.rollout
        device = policy.device
        self.policy = policy
        self.state = LoopState()
        self._recipe = recipe
        self._questions = questions
        self._device = device
        self._penalty = partial(
            overlong_penalty,
            config=recipe.overlong,
            max_response_tokens=rollout.max_response_tokens,
        )
        self._optimizer = make_optimizer(policy, train.optimizer)
        self._reference: StatsPass | None = None
        if recipe.objective.beta > 0:
            self._reference = self._stats_of(copy.deepcopy(policy).requires_grad_(False))
        self._settings = StepSettings(
            objective=recipe.objective,
            selection=recipe.selection,
            optimizer=train.optimizer,
            seed=recipe.seed,
            temperature=rollout.temperature,
            max_response_tokens=rollout.max_response_tokens,
            micro_batch_tokens=train.micro_batch_tokens,
            skip_no_signal=train.skip_no_signal,
            custom_score=recipe.custom_score,
        )
        sampler = Sampler(
            policy,
            eos_ids=eos_ids,
            temperature=rollout.temperature,
            max_response_tokens=rollout.max_response_tokens,
            batch_size=rollout.batch_size,
        )
        self._rollouts = Rollouts(
            questions,
            sampler,
            seed=recipe.seed,
            group_size=rollout.group_size,
            questions_per_batch=train.questions_per_batch,
            dynamic_sampling=train.dynamic_sampling,
            device=device,
        )
        self._validator = Validator(
            validation,
            sampler,
            seed=recipe.seed,
            num_samples=train.validation_samples,
            device=device,
        )

    def step(self) -> tuple[dict[str, float], list[DumpedResponse]]:
        """Train on one rollout batch; return its metrics and its responses.

        time/* are seconds, memory/* MiB: they alone differ between equal runs.

        Raises:
            FloatingPointError: If a log-prob or gradient is not finite; that update is refused.
            RewardError: If an own scorer fails.
        """
        start = time.perf_counter()
        _seed_libraries(stream_seed(self._recipe.seed, "libraries", self.state.step))
        times: dict[str, float] = {}
        collected = self._rollouts.collect(self.state)
        times["time/rollout"] = collected.rollout_seconds
        times["time/reward"] = collected.reward_seconds
        metrics = rollout_metrics(collected) | overlong_metrics(
            collected.lengths,
            self._recipe.overlong,
            max_response_tokens=self._recipe.rollout.max_response_tokens,
        )
        kept = [*collected.batch, *collected.surplus]
        with _timed(times, "time/old_log_probs"):
            kept = measured(kept, self._stats_of(self.policy), self._device)
        batch = kept[: len(collected.batch)]
        self.state.carried = kept[len(batch) :]
        responses: list[DumpedResponse] = []
        if batch:
            fresh = {group.draw for group in collected.sampled}
            with _timed(times, "time/reference"):
                rollout = rollout_of(
                    batch,
                    self._recipe.objective,
                    reference=self._reference,
                    penalty=self._penalty,
                    fresh=fresh,
                    device=self._device,
                )
            metrics |= log_ratio_metrics(batch)
            with _timed(times, "time/update"):
                updates, selected = self._update(rollout)
            metrics |= updates
            responses = self._dumped(batch, rollout.tokens.advantages, selected)
        else:
            metrics |= self._no_signal()
        self.state.step += 1
        metrics |= {
            "data/epoch": self.state.draws / len(self._questions.rows),
            "train/optimizer_steps": self.state.optimizer_steps,
            "train/no_signal_steps": self.state.no_signal_steps,
        }
        times["time/step"] = time.perf_counter() - start
        return metrics | times | self._memory(), responses

    def validate(self) -> dict[str, float]:
        """Return validation metrics; training's random numbers are not touched."""
        start = time.perf_counter()
        metrics = self._validator.metrics()
        return metrics | {"time/validation": time.perf_counter() - start}

    def optimizer_state(self) -> dict[str, Any]:
        """Return the moments and the optimizer's own counters."""
        return self._optimizer.state_dict()

    def restore(
        self, weights: Mapping[str, Tensor], optimizer: Mapping[str, Any], state: LoopState
    ) -> None:
        """Go back to a checkpoint. The reference stays the initial policy."""
        put_weights(self.policy, weights)
        self._optimizer.load_state_dict(dict(optimizer))
        self.state = state

    def _stats_of(self, model: Any) -> StatsPass:
        def stats(prompts: Prompts, tokens: TokenBatch) -> TokenStats:
            return response_stats(
                model,
                prompts,
                tokens,
                temperature=self._recipe.rollout.temperature,
                micro_batch_tokens=self._recipe.train.micro_batch_tokens,
            )

        return stats

    def _update(self, rollout: Rollout) -> tuple[dict[str, float], list[int]]:
        """Take one optimizer step per mini-batch; return metrics and selected tokens per row."""
        results, selected = [], list[int]()
        moved = rollout.stale
        for part in rollout.mini_batches(self._recipe.train.questions_per_mini_batch):
            if not bool(part.tokens.response_mask.any()):  # every response was cut and filtered
                results.append(self._no_signal())
                selected.extend([0] * len(part.prompts))
                continue
            result = update_step(
                self.policy,
                self._optimizer,
                part.tokens,
                part.prompts,
                part.stats,
                self._settings,
                step=self.state.optimizer_steps,
                moved=moved,
                on_selection=lambda selection: selected.extend(selection.mask.sum(1).tolist()),
            )
            self.state.optimizer_steps += 1
            self.state.no_signal_steps += int(result["train/no_signal"])
            moved = moved or not (result["train/no_signal"] and self._settings.skip_no_signal)
            results.append(result)
        return over_mini_batches(results), selected

    def _no_signal(self) -> dict[str, float]:
        """Count an optimizer step that had nothing to learn from; the schedule goes on."""
        self.state.optimizer_steps += 1
        self.state.no_signal_steps += 1
        return {"train/no_signal": 1.0, "train/kl_only": 0.0}

    def _dumped(
        self, groups: Sequence[Group], advantages: Tensor, selected: Sequence[int]
    ) -> list[DumpedResponse]:
        numbers = iter(zip(advantages.tolist(), selected, strict=True))
        responses = []
        for group in groups:
            prompt = self._questions.decode_prompt(group.prompt)
            for place, sample in enumerate(group.samples):
                own_advantage, num_selected = next(numbers)
                verdict = group.verdicts[place]
                responses.append(
                    DumpedResponse(
                        sample_id=group.draw * len(group.samples) + place,
                        row_id=self._questions.rows[group.row].id,
                        prompt=prompt,
                        response=group.texts[place],
                        correct=verdict.correct,
                        score=verdict.score,
                        reason=verdict.reason,
                        advantage=own_advantage,
                        num_selected_tokens=num_selected,
                        num_response_tokens=len(sample.token_ids),
                        finished=sample.finished,
                    )
                )
        return responses

    def _memory(self) -> dict[str, float]:
        peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        memory = {"memory/peak_mib": peak_kib / 1024}
        if self._device.type == "cuda":
            memory["memory/peak_device_mib"] = torch.cuda.max_memory_allocated() / 2**20
        return memory


def _seed_libraries(seed: int) -> None:
    """Seed the global generators that own scorers and exotic layers may draw from."""
    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed % 2**32)


@contextmanager
def _timed(times: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    times[name] = time.perf_counter() - start
