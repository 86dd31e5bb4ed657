"""A question as its source gives it, and what makes two questions the same."""

import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gmts.files import text_sha256

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("test", "validation", "train")
"""In the order in which a question that several splits drew is awarded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question as its source gives it."""

    question: str
    answer: str
    meta: dict[str, Any]
    """The scorer's entry; scalar fields of its `metadata` may appear in data.user_prompt."""
    id: str | None = None
    """The source's own name of the row, where it has one."""
    compared: str | None = None
    """What near matches are searched in, where that is not the whole question (options)."""

    @property
    def compared_text(self) -> str:
        """The text that near matches are searched in."""
        return self.question if self.compared is None else self.compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where the questions of each split come from."""

    draw: Callable[[Split], Iterator[Question]]
    """Yields the questions of a split in order; may repeat itself; ends when it has no more."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """For the manifest: files with their hashes, rows read, rows left out and why."""
    contamination: Mapping[str, Any] | None = None
    """Near matches with benchmarks and within train; None for generated questions."""

    def __call__(self, split: Split) -> Iterator[Question]:
        """Return the questions of a split."""
        return self.draw(split)


def question_hash(text: str) -> str:
    """Return the hash by which two questions count as the same: case, spaces and forms aside."""
    normal = unicodedata.normalize("NFKC", text).casefold()
    return text_sha256(" ".join(normal.split()))
