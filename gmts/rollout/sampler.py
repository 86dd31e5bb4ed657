"""Sampling responses: prompts are read once per group, finished rows leave the batch."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from gmts.rollout.decoders import Decoder, make_decoder

_COMPACT_SHARE = 0.25
"""Finished rows are dropped once they are this share of the rows in the cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One response."""

    token_ids: tuple[int, ...]
    """Up to and including the end token, if one was sampled."""
    finished: bool
    """False: cut at the length limit."""
    log_probs: tuple[float, ...]
    """log p of each sampled token at the sampling temperature, in nats, from float32 logits."""


@dataclass(slots=True)
class _Group:
    """Responses under way to one chunk of prompts."""

    token_ids: Tensor  # [B, max] int64
    log_probs: Tensor  # [B, max] float32
    lengths: Tensor  # [B]
    finished: Tensor  # [B] bool


class Sampler:
    """Samples from a causal language model of transformers.

    The model's current weights are used at every call; it is not changed. Greedy responses do not
    depend on `batch_size`; sampled ones are reproducible for the same generator state.
    """

    def __init__(
        self,
        model: Any,
        *,
        eos_ids: Sequence[int],
        temperature: float,
        max_response_tokens: int,
        batch_size: int,
    ) -> None:
        """Prepare to sample from `model`.

        Args:
            model: The policy, in any dtype.
            eos_ids: Tokens that end a response.
            temperature: Divides the logits.
            max_response_tokens: Length limit, the end token included.
            batch_size: Responses side by side; a larger group is split.

        Raises:
            ValueError: If a number is out of range.
        """
        if temperature <= 0:
            raise ValueError(f"temperature must be > 0, got {temperature}")
        if max_response_tokens < 1:
            raise ValueError(f"max_response_tokens must be >= 1, got {max_response_tokens}")
        if batch_size < 1:
            raise ValueError(f"batch_size must be >= 1, got {batch_size}")
        self._model = model
        self._eos = torch.tensor(list(eos_ids), device=model.device)
        self._temperature = temperature
        self._max_new = max_response_tokens
        self._batch_size = batch_size

    @property
    def device(self) -> torch.device:
        """Where the model is, and generators must be."""
        device: torch.device = self._model.device
        return device

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        num_samples: int,
        generator: torch.Generator,
        *,
        progress: str | None = None,
    ) -> list[Sample]:
        """Return `num_samples` responses to each prompt, prompt by prompt.

        Args:
            prompts: Token ids.
            num_samples: Responses per prompt.
            generator: Source of randomness, on the model's device.
            progress: Label of a progress bar; None for no bar.

        Raises:
            ValueError: If `num_samples` is < 1, a prompt is empty, or prompt and response need more
                positions than the model has.
            FloatingPointError: If the model's logits are NaN.
        """
        if num_samples < 1:
            raise ValueError(f"num_samples must be >= 1, got {num_samples}")
        return self._run(prompts, num_samples, generator, progress)

    def greedy(
        self, prompts: Sequence[Sequence[int]], *, progress: str | None = None
    ) -> list[Sample]:
        """Return the most probable token after token, one response per prompt.

        Raises:
            ValueError: If a prompt is empty, or prompt and response need more positions than the
                model has.
            FloatingPointError: If the model's logits are NaN.
        """
        return self._run(prompts, 1, None, progress)

    def _run(
        self,
        prompts: Sequence[Sequence[int]],
        num_samples: int,
        generator: torch.Generator | None,
        progress: str | None,
    ) -> list[Sample]:
        self._check_lengths(prompts)
        samples: list[list[Sample]] = [[] for _ in prompts]
        with (
            _evaluating(self._model),
            torch.inference_mode(),
            tqdm(
                total=len(prompts) * num_samples,
                desc=progress,
                unit="response",
                disable=True if progress is None else None,
            ) as bar,
        ):
            for chunk, times in self._chunks(len(prompts), num_samples):
                group = self._generate([prompts[index] for index in chunk], times, generator)
                _check_logits(group, chunk, times)
                for row, sample in enumerate(_unpack(group)):
                    samples[chunk[row // times]].append(sample)
                bar.update(len(chunk) * times)
        return [sample for own in samples for sample in own]

    def _check_lengths(self, prompts: Sequence[Sequence[int]]) -> None:
        config = self._model.config
        # Rotary positions have no end; a table of learned ones has.
        rotary = getattr(config, "rope_parameters", None)
        room = None if rotary else getattr(config, "max_position_embeddings", None)
        for index, prompt in enumerate(prompts):
            if not prompt:
                raise ValueError(f"prompt {index} must have at least one token, got none")
            if room is not None and len(prompt) + self._max_new > room:
                raise ValueError(
                    f"max_response_tokens must be <= {room - len(prompt)}, got {self._max_new}: "
                    f"the model has {room} positions and prompt {index} takes {len(prompt)}"
                )

    def _chunks(self, num_prompts: int, num_samples: int) -> Iterator[tuple[range, int]]:
        """Yield (prompts, responses to each); whole groups where one fits into a batch."""
        if num_samples > self._batch_size:
            for index in range(num_prompts):
                for done in range(0, num_samples, self._batch_size):
                    yield range(index, index + 1), min(self._batch_size, num_samples - done)
            return
        step = self._batch_size // num_samples
        for first in range(0, num_prompts, step):
            yield range(first, min(first + step, num_prompts)), num_samples

    def _generate(
        self, prompts: Sequence[Sequence[int]], times: int, generator: torch.Generator | None
    ) -> _Group:
        decoder = make_decoder(self._model, self._max_new)
        logits = decoder.prefill(*_left_padded(prompts, self._model.device))
        decoder.repeat(times)
        logits = logits.repeat_interleave(times, 0)
        count, device = len(logits), logits.device
        group = _Group(
            token_ids=torch.zeros(count, self._max_new, dtype=torch.long, device=device),
            log_probs=torch.zeros(count, self._max_new, device=device),
            lengths=torch.full((count,), self._max_new, device=device),
            finished=torch.zeros(count, dtype=torch.bool, device=device),
        )
        self._decode(decoder, logits, group, generator)
        return group

    def _decode(
        self, decoder: Decoder, logits: Tensor, group: _Group, generator: torch.Generator | None
    ) -> None:
        rows = torch.arange(len(logits), device=logits.device)  # where each cache row belongs
        done = torch.zeros(len(rows), dtype=torch.bool, device=logits.device)
        for position in range(self._max_new):
            tokens, log_probs = self._pick(logits, generator)
            live = ~done
            target = rows[live]
            group.token_ids[target, position] = tokens[live]
            group.log_probs[target, position] = log_probs[live]
            ends = torch.isin(tokens, self._eos) & live
            group.lengths[rows[ends]] = position + 1
            group.finished[rows[ends]] = True
            done = done | ends
            num_done = int(done.sum())
            if num_done == len(rows) or position == self._max_new - 1:
                return
            if num_done >= _COMPACT_SHARE * len(rows):
                kept = (~done).nonzero()[:, 0]
                decoder.keep(kept)
                rows, tokens, done = rows[kept], tokens[kept], done[kept]
            logits = decoder.step(tokens)

    def _pick(self, logits: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """Return the next token of each row and its log-probability at the temperature."""
        # float64 stays float64 for greedy comparisons; everything else is picked in float32.
        logits = logits if logits.dtype == torch.float64 else logits.float()
        log_probs = torch.log_softmax(logits / self._temperature, -1)
        if generator is None:
            tokens = logits.argmax(-1)
        else:
            # The smallest of exponential races with rates p wins with probability p.
            # Some platforms draw an exact 0, which would let any token win.
            race = torch.empty_like(log_probs).exponential_(generator=generator)
            race.clamp_min_(torch.finfo(race.dtype).tiny)
            tokens = (log_probs - race.log_()).argmax(-1)
        return tokens, log_probs.gather(1, tokens[:, None])[:, 0].float()


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Switch dropout off; afterwards put every module back as it was, which train() would not."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def _check_logits(group: _Group, chunk: range, times: int) -> None:
    broken = group.log_probs.isnan()
    if bool(broken.any()):
        row, position = broken.nonzero()[0].tolist()
        raise FloatingPointError(
            f"logits of the model must be numbers, got nan after prompt {chunk[row // times]} "
            f"and {position} response tokens"
        )


def _left_padded(prompts: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return ids [n, P] and the bool mask of real tokens."""
    width = max(len(prompt) for prompt in prompts)
    ids = torch.zeros(len(prompts), width, dtype=torch.long)
    mask = torch.zeros(len(prompts), width, dtype=torch.bool)
    for index, prompt in enumerate(prompts):
        ids[index, width - len(prompt) :] = torch.tensor(list(prompt))
        mask[index, width - len(prompt) :] = True
    return ids.to(device), mask.to(device)


def _unpack(group: _Group) -> Iterator[Sample]:
    rows = zip(
        group.token_ids.tolist(),
        group.log_probs.tolist(),
        group.lengths.tolist(),
        group.finished.tolist(),
        strict=True,
    )
    for token_ids, log_probs, length, finished in rows:
        yield Sample(
            token_ids=tuple(token_ids[:length]),
            finished=finished,
            log_probs=tuple(log_probs[:length]),
        )
