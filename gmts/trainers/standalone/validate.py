"""Accuracy on the validation split during training."""

from collections.abc import Sequence

import torch

from gmts.rollout.sampler import Sampler
from gmts.trainers.standalone.rollouts import Questions
from gmts.trainers.standalone.state import stream_seed


class Validator:
    """Asks every validation question `num_samples` times, each time from the same seed."""

    def __init__(
        self,
        questions: Questions,
        sampler: Sampler,
        *,
        seed: int,
        num_samples: int,
        device: torch.device,
    ) -> None:
        self._questions = questions
        self._sampler = sampler
        self._seed = stream_seed(seed, "validation")
        self._num_samples = num_samples
        self._device = device

    def metrics(self) -> dict[str, float]:
        """Return means over responses: accuracy, score, tokens, share cut at the limit."""
        generator = torch.Generator(device=self._device)
        generator.manual_seed(self._seed)
        rows: Sequence[int] = range(len(self._questions.rows))
        samples = self._sampler.sample(self._questions.prompts, self._num_samples, generator)
        groups = self._questions.judge(rows, rows, samples)
        verdicts = [verdict for group in groups for verdict in group.verdicts]
        return {
            "validation/accuracy": sum(verdict.correct for verdict in verdicts) / len(verdicts),
            "validation/score_mean": sum(verdict.score for verdict in verdicts) / len(verdicts),
            "validation/length_mean": sum(len(s.token_ids) for s in samples) / len(samples),
            "validation/truncated": sum(not s.finished for s in samples) / len(samples),
        }
