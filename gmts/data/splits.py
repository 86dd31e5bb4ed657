"""Distinct rows for every split: no question twice, none in two splits, none too long."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gmts.data.config import DataConfig
from gmts.data.questions import SPLITS, Question, Source, Split, question_hash
from gmts.data.rows import Message, Row

CountTokens = Callable[[Sequence[Message]], int]
Solve = Callable[[Mapping[str, Any]], str | None]


@dataclass(slots=True, kw_only=True)
class SplitRows:
    """The rows of a split and what was left out of it."""

    rows: list[Row] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    """`question_hash` of each row."""
    duplicates: int = 0
    """Draws that the split already had."""
    elsewhere: int = 0
    """Draws that another split already had."""
    too_long: int = 0
    """Distinct questions whose prompt has more than data.max_prompt_tokens tokens."""


def draw_splits(
    config: DataConfig, source: Source, *, count_tokens: CountTokens | None, solve: Solve
) -> dict[Split, SplitRows]:
    """Return the rows of each split; test is served first, then validation, then train.

    Args:
        config: Rows wanted, the prompt, its length limit.
        source: Where questions come from.
        count_tokens: Tokens of a prompt; None to keep all lengths.
        solve: Worked solution of a task's entry.

    Raises:
        ValueError: If a split ends up empty, or a generated task cannot fill it.
    """
    owner: dict[str, Split] = {}
    splits = {}
    for split in SPLITS:
        splits[split] = _draw(split, config, source, owner, count_tokens, solve)
        _check_size(split, config, splits[split])
    return splits


def _draw(
    split: Split,
    config: DataConfig,
    source: Source,
    owner: dict[str, Split],
    count_tokens: CountTokens | None,
    solve: Solve,
) -> SplitRows:
    wanted = getattr(config, f"{split}_rows")
    result = SplitRows()
    for question in source(split):
        if len(result.rows) == wanted:
            break
        key = question_hash(question.question)
        messages = build_messages(config, question)
        # Two questions may differ and yet make the same prompt.
        keys = {key, question_hash("\n".join(message["content"] for message in messages))}
        taken = next((owner[other] for other in sorted(keys) if other in owner), None)
        if taken is not None:
            result.duplicates += taken == split
            result.elsewhere += taken != split
            continue
        owner |= dict.fromkeys(keys, split)
        if count_tokens is not None and count_tokens(messages) > config.max_prompt_tokens:
            result.too_long += 1
            continue
        result.questions.append(key)
        result.rows.append(
            Row(
                id=f"{split}-{key[:16]}",
                messages=messages,
                ground_truth=question.answer,
                source=config.set or config.task,
                meta=question.meta,
                solution=solve(question.meta),
            )
        )
    return result


def _check_size(split: Split, config: DataConfig, found: SplitRows) -> None:
    wanted = getattr(config, f"{split}_rows")
    if not found.rows:
        raise ValueError(
            f"data.{split}_rows must be filled by at least one row, got none: "
            f"{found.too_long} prompts have more than data.max_prompt_tokens "
            f"({config.max_prompt_tokens}) tokens, {found.elsewhere} questions are in another split"
        )
    if config.source == "reasoning_gym" and len(found.rows) < wanted:
        raise ValueError(
            f"data.{split}_rows must be at most {len(found.rows)} for these data.task_options, got "
            f"{wanted}: the task gave no more distinct questions of fitting length "
            f"({found.elsewhere} draws are in another split, {found.too_long} too long)"
        )


def build_messages(config: DataConfig, question: Question) -> tuple[Message, ...]:
    """Return the prompt of a question.

    Raises:
        ValueError: If data.user_prompt names a field that the question does not have.
    """
    fields = {
        name: value
        for name, value in (question.meta.get("metadata") or {}).items()
        if isinstance(value, str | int | float)
    }
    fields["question"] = question.question
    try:
        content = config.user_prompt.format_map(fields)
    except (KeyError, ValueError, IndexError) as error:
        raise ValueError(
            f"data.user_prompt must use only the fields {', '.join(sorted(fields))}, got "
            f"{config.user_prompt!r}: {error!r}"
        ) from error
    user: Message = {"role": "user", "content": content}
    if config.system_prompt is None:
        return (user,)
    return ({"role": "system", "content": config.system_prompt}, user)
