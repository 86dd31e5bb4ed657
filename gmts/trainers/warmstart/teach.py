"""Supervised steps on worked solutions, first right ones, then some with slips."""

import logging
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

from gmts.data.rows import Row
from gmts.data.solutions import worked_solution
from gmts.models.template import PromptTemplate
from gmts.trainers.config import WarmstartConfig

logger = logging.getLogger(__name__)

_WARMUP_STEPS = 30
_DECAY_SHARE = 0.3
_BETAS = (0.9, 0.98)
_WEIGHT_DECAY = 0.01
_MAX_GRAD_NORM = 1.0
_LOG_EVERY = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """A question as tokens, with its right solution."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    """The worked solution without slips; the end token follows it."""
    row: Row


def teach(
    model: Any, template: PromptTemplate, rows: Sequence[Row], config: WarmstartConfig, *, seed: int
) -> float:
    """Train `model` in place and return the mean loss of the last steps, in nats per token.

    Cross-entropy on the solution's tokens and the end token, a token mean over the batch. AdamW;
    the rate rises over 30 steps and falls linearly over the last 30%.

    Args:
        model: A causal language model.
        template: How a prompt is written.
        rows: Questions with worked solutions.
        config: Steps, batch size, rate, slips.
        seed: Of the questions drawn and of the slips.

    Raises:
        ValueError: If the rows have no worked solutions, or the loss is no longer a finite number.
    """
    if any(row.solution is None for row in rows):
        raise ValueError(
            "model.path must name a model for a task without worked solutions, got null: the warm "
            f"start cannot teach {rows[0].source!r}"
        )
    lessons = _lessons(template, rows)
    rng = random.Random(seed)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=config.lr, betas=_BETAS, weight_decay=_WEIGHT_DECAY
    )
    num_steps = config.clean_steps + config.noisy_steps
    losses: list[float] = []
    model.train()
    for step in tqdm(range(num_steps), desc="warm start", unit="step", disable=None):
        slips = 0.0 if step < config.clean_steps else config.slip_probability
        for group in optimizer.param_groups:
            group["lr"] = config.lr * _rate(step, num_steps)
        batch = rng.sample(lessons, min(config.batch_size, len(lessons)))
        loss = _loss(model, *_collate(batch, template.tokenizer, slips, rng))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), _MAX_GRAD_NORM)
        optimizer.step()
        losses.append(_finite(loss.item(), step, config.lr))
        if (step + 1) % _LOG_EVERY == 0:
            logger.info("warm start %d/%d: loss %.3f", step + 1, num_steps, losses[-1])
    model.eval()
    recent = losses[-_LOG_EVERY:]
    return sum(recent) / len(recent) if recent else 0.0


def _lessons(template: PromptTemplate, rows: Sequence[Row]) -> list[Lesson]:
    answers = template.tokenizer([row.solution for row in rows], add_special_tokens=False)
    return [
        Lesson(prompt=tuple(template.encode(row.messages)), answer=tuple(answer), row=row)
        for row, answer in zip(rows, answers["input_ids"], strict=True)
    ]


def _finite(loss: float, step: int, lr: float) -> float:
    if not math.isfinite(loss):
        raise ValueError(
            f"warmstart.lr must be low enough for a finite loss, got {lr}: the loss of step "
            f"{step + 1} is {loss}"
        )
    return loss


def _rate(step: int, num_steps: int) -> float:
    decay_steps = max(1.0, _DECAY_SHARE * num_steps)
    return min(1.0, (step + 1) / _WARMUP_STEPS) * min(1.0, (num_steps - step) / decay_steps)


def _collate(
    lessons: Sequence[Lesson], tokenizer: Any, slip_probability: float, rng: random.Random
) -> tuple[Tensor, Tensor]:
    """Return ids [B, T] padded on the right, and a bool mask [B, T-1] of the targets taught."""
    answers = [lesson.answer for lesson in lessons]
    if slip_probability:
        texts = [
            worked_solution(lesson.row.meta, slip_probability=slip_probability, rng=rng)
            for lesson in lessons
        ]
        answers = [tuple(ids) for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]]
    width = max(
        len(lesson.prompt) + len(answer) + 1
        for lesson, answer in zip(lessons, answers, strict=True)
    )
    ids = torch.full((len(lessons), width), tokenizer.pad_token_id)
    taught = torch.zeros(len(lessons), width - 1, dtype=torch.bool)
    for index, (lesson, answer) in enumerate(zip(lessons, answers, strict=True)):
        tokens = torch.tensor([*lesson.prompt, *answer, tokenizer.eos_token_id])
        ids[index, : len(tokens)] = tokens
        taught[index, len(lesson.prompt) - 1 : len(tokens) - 1] = True
    return ids, taught


def _loss(model: Any, ids: Tensor, taught: Tensor) -> Tensor:
    # Padding lies on the right of causal attention: no mask is needed.
    hidden = model.get_decoder()(input_ids=ids[:, :-1], use_cache=False).last_hidden_state
    logits = model.get_output_embeddings()(hidden[taught]).float()
    return functional.cross_entropy(logits, ids[:, 1:][taught])
