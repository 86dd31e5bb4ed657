"""What `gmts inspect` shows: rows as the model sees them, verdicts, questions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a prompt's token text."""

    text: str
    special: bool
    """One token that the tokenizer has besides its vocabulary of text, e.g. <|im_start|>."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRow:
    """A prepared row, its prompt as the model gets it."""

    id: str
    source: str
    kind: str
    """Of the verdict: the row's own, else rewards.scorer."""
    ground_truth: str
    num_tokens: int
    prompt: tuple[Piece, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenSplit:
    """Rows of a split."""

    num_rows: int
    """All there are."""
    rows: list[SeenRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """How often a reason was given."""

    reason: str
    responses: int
    right: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponse:
    """A response with its verdict."""

    id: str
    """Of the question."""
    sample: int
    """From 0."""
    ground_truth: str
    text: str
    num_tokens: int
    finished: bool
    correct: bool
    reason: str
    extracted: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenVerdicts:
    """Verdicts of an evaluation."""

    reasons: list[Reason]
    """Of all responses, the most frequent first."""
    responses: list[StoredResponse]
    """Those that were asked for, in the order of questions and samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer that was found in responses to a question."""

    text: str | None
    """None: no answer was found."""
    responses: int
    correct: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenQuestion:
    """A question and how its responses did."""

    id: str
    question: str
    """The last message."""
    ground_truth: str
    right: float
    truncated: float
    answers: tuple[Answer, ...]
    """The most frequent ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A question whose share of right responses is another one."""

    question: SeenQuestion
    before: float
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """An evaluation beside an earlier one."""

    average: tuple[float, float, float]
    """Of the earlier one: value, low, high."""
    changed: list[Change]
    """The most changed first."""
    common: int
    """Questions that both asked."""
    other: int
    """Questions that only one of them asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenScores:
    """An evaluation, its worst questions first."""

    scores: Mapping[str, Any]
    """As in scores.json."""
    questions: list[SeenQuestion]
    comparison: Comparison | None
