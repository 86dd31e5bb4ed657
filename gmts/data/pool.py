"""All usable questions of some files: each once, with one answer, in order, with a hash."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from gmts.data.questions import Question, question_hash
from gmts.data.records import BadRowError, BadRows, Record


class Normalise(Protocol):
    """Makes a row a question."""

    def __call__(self, record: Record) -> Question:
        """Return the question, or raise BadRowError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A question that the files answer in more than one way."""

    question: str
    answers: tuple[str, ...]
    places: tuple[str, ...]
    """Where each answer was met first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """The questions, and what was left out."""

    questions: list[Question]
    rows_read: int
    """Rows of the files, broken ones and repetitions included."""
    duplicates: int
    """Rows whose question and answer the pool already had."""
    conflicts: list[Conflict]
    bad_rows: list[str]
    """Place and reason of each broken row that was skipped."""
    sha256: str
    """Of the questions' canonical JSON, in order."""


@dataclass(slots=True)
class _Entry:
    question: Question
    answers: dict[str, str] = field(default_factory=dict)
    """Answer -> where it was met first."""


def collect(
    records: Iterable[tuple[str, Record]],
    normalise: Normalise,
    bad: BadRows,
    *,
    answer_is_text: bool = True,
) -> Pool:
    """Return the questions of `records`; memory holds each distinct question once.

    A question met again with the same answer is left out; one met with another answer is dropped
    altogether, since nothing says which is right.

    Args:
        records: (place, row) as `read_records` yields them.
        normalise: Makes a row a question.
        bad: Takes the rows that cannot become one, and those whose id another row has.
        answer_is_text: Whether other answers contradict; False where an answer is one solution of
            many: the first is kept.

    Raises:
        ValueError: At a broken row, unless those are skipped.
    """
    entries: dict[str, _Entry] = {}
    ids: dict[str, str] = {}
    rows = duplicates = 0
    for place, record in records:
        rows += 1
        try:
            question = normalise(record)
        except BadRowError as error:
            bad.add(f"{place}: {error}")
            continue
        if question.id is not None:
            first = ids.setdefault(question.id, place)
            if first != place:
                bad.add(f"{place}: id must be unique, got {question.id!r}, which {first} has")
                continue
        entry = entries.setdefault(question_hash(question.question), _Entry(question))
        known = len(entry.answers)
        if answer_is_text or not known:
            entry.answers.setdefault(question.answer, place)
        duplicates += known > 0 and len(entry.answers) == known
    kept = [entry.question for entry in entries.values() if len(entry.answers) == 1]
    return Pool(
        questions=kept,
        rows_read=rows,
        duplicates=duplicates,
        conflicts=[
            Conflict(
                question=entry.question.question,
                answers=tuple(entry.answers),
                places=tuple(entry.answers.values()),
            )
            for entry in entries.values()
            if len(entry.answers) > 1
        ],
        bad_rows=bad.found,
        sha256=canonical_sha256(kept),
    )


def canonical_sha256(questions: Iterable[Question]) -> str:
    """Return the sha256 of one JSON line [id, question, answer, meta] per question."""
    digest = hashlib.sha256()
    for question in questions:
        row = [question.id, question.question, question.answer, question.meta]
        digest.update(json.dumps(row, sort_keys=True, ensure_ascii=False).encode())
        digest.update(b"\n")
    return digest.hexdigest()


def pool_facts(pool: Pool) -> Mapping[str, Any]:
    """Return what the manifest says of a pool."""
    return {
        "rows_read": pool.rows_read,
        "rows": len(pool.questions),
        "sha256": pool.sha256,
        "duplicates_removed": pool.duplicates,
        "conflicting_questions_removed": len(pool.conflicts),
        "bad_rows_skipped": len(pool.bad_rows),
        "bad_rows": pool.bad_rows[:_BAD_ROWS_LISTED],
    }


_BAD_ROWS_LISTED = 1000
