"""LiveCodeBench: which problems are asked, and how."""

from datetime import date
from typing import Any

from gmts.data.records import BadRowError, Record, field_text, field_value
from gmts.evaluation.code_questions import code_question
from gmts.rewards.code.livecodebench import KIND, decode_tests, tests_sha256

FIRST_DAY, LAST_DAY = date(2024, 7, 1), date(2024, 11, 30)
"""Of the contests whose problems are asked. Source: arXiv 2608.30632, evaluation."""

_STDIN = "The script reads standard input and writes the answer to standard output."


def in_window(record: Record) -> bool:
    """Return whether the problem's contest was from July to November 2024."""
    text = field_text(record, "contest_date")
    try:
        day = date.fromisoformat(text[:10])
    except ValueError as error:
        raise BadRowError(f"contest_date must begin with YYYY-MM-DD, got {text!r:.80}") from error
    return FIRST_DAY <= day <= LAST_DAY


def contest_question(name: str, record: Record) -> str:
    """Return the problem, with the code to start from or the word that it reads standard input."""
    problem = field_text(record, "question_content").strip()
    starter = str(field_value(record, "starter_code") or "")
    if starter.strip():
        return code_question(problem, starter.rstrip())
    return code_question(f"{problem}\n\n{_STDIN}")


def contest_meta(record: Record) -> dict[str, Any]:
    """Return what the problem is judged by, save where its tests lie.

    Raises:
        BadRowError: If the tests are not in the published format.
    """
    try:
        tests = decode_tests(record)
    except ValueError as error:
        raise BadRowError(str(error)) from error
    kept = ("question_id", "platform", "contest_date", "difficulty")
    return {
        "kind": KIND,
        **{name: field_value(record, name) for name in kept},
        "func_name": tests.func_name,
        "num_tests": len(tests.inputs),
        "tests_sha256": tests_sha256(record),
    }
