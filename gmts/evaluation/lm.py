"""The policy as a model of lm-eval: prompts by the template of training, samples by our sampler."""

import json
from collections.abc import Sequence
from typing import Any

import torch
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from tqdm import tqdm

from gmts.evaluation.cache import Response, SampleCache
from gmts.files import text_sha256
from gmts.models.template import PromptTemplate
from gmts.rollout.sampler import Sample, Sampler

_SEED_BITS = 63


class PolicyLM(LM):  # type: ignore[misc]  # lm-eval is not typed
    """Answers generate_until requests; the repeats of a prompt are sampled as one group.

    lm-eval asks for every repeat separately and in order. Questions are sampled in chunks, each
    from a seed made of `seed` and its prompts, so that responses depend neither on what was cached
    nor on where an evaluation was interrupted.
    """

    def __init__(
        self,
        sampler: Sampler,
        template: PromptTemplate,
        cache: SampleCache,
        *,
        samples: int,
        questions_per_chunk: int,
        seed: int,
        greedy: bool = False,
    ) -> None:
        """Wrap a policy.

        Args:
            sampler: Over the policy, with temperature and length limit.
            template: Of training.
            cache: Where sampled chunks are kept.
            samples: Repeats of each prompt.
            questions_per_chunk: Questions sampled side by side.
            seed: Of the evaluation.
            greedy: Take the most probable tokens; `samples` is 1 then.

        Raises:
            ValueError: If several greedy samples are asked for: they are all the same.
        """
        if greedy and samples != 1:
            raise ValueError(f"samples must be 1 where responses are greedy, got {samples}")
        super().__init__()
        self._sampler = sampler
        self._template = template
        self._cache = cache
        self._samples = samples
        self._chunk = questions_per_chunk
        self._seed = seed
        self._greedy = greedy
        self.responses: list[list[Response]] = []
        """What was answered, question by question."""
        self.num_sampled = 0
        """Responses that were not in the cache."""

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Return one response per request.

        Raises:
            ValueError: If the repeats of a prompt do not follow one another.
        """
        texts = [request.args[0] for request in requests]
        prompts = texts[:: self._samples]
        if [text for text in prompts for _ in range(self._samples)] != texts:
            raise ValueError(f"each prompt must be requested {self._samples} times in a row")
        self.responses = []
        with tqdm(
            total=len(texts),
            desc="evaluate",
            unit="response",
            disable=True if disable_tqdm else None,
        ) as bar:
            for first in range(0, len(prompts), self._chunk):
                answered = self._answer(prompts[first : first + self._chunk])
                self.responses += answered
                bar.update(len(answered) * self._samples)
        return [response.text for group in self.responses for response in group]

    def _answer(self, prompts: Sequence[str]) -> list[list[Response]]:
        key = text_sha256(json.dumps(prompts))
        cached = self._cache.read(key)
        if cached is not None:
            return cached
        samples = self._sample([self._template.encode_text(prompt) for prompt in prompts], key)
        self.num_sampled += len(samples)
        responses = [
            Response(
                text=self._template.tokenizer.decode(sample.token_ids, skip_special_tokens=True),
                num_tokens=len(sample.token_ids),
                finished=sample.finished,
            )
            for sample in samples
        ]
        groups = [
            responses[first : first + self._samples]
            for first in range(0, len(responses), self._samples)
        ]
        self._cache.write(key, groups)
        return groups

    def _sample(self, prompts: list[list[int]], key: str) -> list[Sample]:
        if self._greedy:
            return self._sampler.greedy(prompts)
        seed = int(text_sha256(f"{self._seed}/{key}"), 16) % 2**_SEED_BITS
        generator = torch.Generator(device=self._sampler.device).manual_seed(seed)
        return self._sampler.sample(prompts, self._samples, generator)

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        """Not part of our tasks."""
        raise NotImplementedError("gmts evaluates by generation only")

    def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
        """Not part of our tasks."""
        raise NotImplementedError("gmts evaluates by generation only")


def score_with(lm: Any, task: Any) -> dict[str, Any]:
    """Run lm-eval's evaluator on one task and return its results."""
    from lm_eval.evaluator import evaluate  # noqa: PLC0415  (imports much; only when evaluating)

    results: dict[str, Any] = evaluate(
        lm, {task.config.task: task}, bootstrap_iters=0, log_samples=False
    )
    return results
