"""`gmts score`: verdicts on responses in a file."""

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gmts.config import ConfigError

if TYPE_CHECKING:
    from gmts.rewards.kinds import Job
    from gmts.rewards.verdict import Verdict

Row = dict[str, Any]
Rows = Sequence[tuple[str, Row]]

_MAX_SHOWN = 10
_TEXTS = ("response", "ground_truth")


class Kind(StrEnum):
    """What is judged."""

    math = "math"
    choice = "choice"
    code = "code"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limits:
    workers: int
    deadline_s: float
    memory_mib: int
    require_box: bool


def score(
    file: Annotated[
        Path,
        typer.Argument(
            help="JSON lines with id, response, ground_truth; choices (label to text) or meta "
            "(rel_tol) where the kind needs them. code: id, kind (assert, pytest, unittest, "
            "stdin), tests, solution (a program) or response; timeout_s."
        ),
    ],
    kind: Annotated[Kind, typer.Option("--kind", "-k", help="What is judged.")],
    workers: Annotated[
        int, typer.Option("--workers", min=1, help="Processes that judge.", show_default="CPUs")
    ] = os.cpu_count() or 1,
    deadline_s: Annotated[
        float, typer.Option("--deadline", min=0.1, help="CPU seconds of one verdict.")
    ] = 3.0,
    memory_mib: Annotated[
        int, typer.Option("--memory", min=512, help="Address space of one process, in MiB.")
    ] = 1024,
    require_box: Annotated[
        bool, typer.Option("--require-box", help="math: only \\boxed{} and \\fbox{} count.")
    ] = False,
) -> None:
    """Judge the responses in a file: one JSON line per row on stdout, in the file's order.

    Rows that cannot be judged are named with file and line, and nothing is judged then.
    """
    how = _KINDS[kind]
    rows = _read(file, how.problem)
    limits = _Limits(
        workers=workers, deadline_s=deadline_s, memory_mib=memory_mib, require_box=require_box
    )
    verdicts = how.judge(kind, rows, limits)
    for (_, row), verdict in zip(rows, verdicts, strict=True):
        line = {
            "id": row.get("id"),
            "correct": verdict.correct,
            "reason": verdict.reason,
            "extracted": verdict.extracted,
            "seconds": round(verdict.seconds, 6),
        }
        typer.echo(json.dumps(line, ensure_ascii=False))


def _read(file: Path, problem_of: Callable[[Row], str | None]) -> list[tuple[str, Row]]:
    """Return (file and line, row) of every row.

    Raises:
        ConfigError: If a row cannot be judged, or there is none.
    """
    rows, problems = [], []
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} must be UTF-8 text, got {error}") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"{file}:{number}"
        try:
            row = json.loads(line)
        except ValueError as error:
            problems.append(f"{place} is not valid JSON: {error}")
            continue
        problem = (
            problem_of(row) if isinstance(row, dict) else f"must be an object, got {row!r:.80}"
        )
        if problem is not None:
            problems.append(f"{place} {problem}")
            continue
        rows.append((place, row))
    if problems:
        more = len(problems) - _MAX_SHOWN
        shown = problems[:_MAX_SHOWN] + [f"and {more} more"] * (more > 0)
        raise ConfigError("\n".join(shown))
    if not rows:
        raise ConfigError(f"{file} must hold at least one row, got none")
    return rows


def _answer_problem(row: Row) -> str | None:
    """Return why an answer cannot be judged; None if it can."""
    for name in _TEXTS:
        if not isinstance(row.get(name), str):
            return f"must have the text {name}, got {row.get(name)!r:.80}"
    if not row["ground_truth"].strip():
        return f"ground_truth must be non-empty text, got {row['ground_truth']!r:.80}"
    if not isinstance(row.get("meta") or {}, dict):
        return f"meta must be an object, got {row['meta']!r:.80}"
    return None


def _code_problem(row: Row) -> str | None:
    """Return why a program cannot be judged; None if it can."""
    from gmts.rewards.code.scorer import refused_rows

    if not any(isinstance(row.get(name), str) for name in ("solution", "response")):
        return "must have the text solution or response, got neither"
    for _, reason in refused_rows([row]):
        return f"cannot be judged: {reason}"
    return None


def _job(place: str, row: Row) -> "Job":
    from gmts.rewards.kinds import Job

    meta = (row.get("meta") or {}) | {
        key: row[key] for key in ("choices", "rel_tol") if row.get(key) is not None
    }
    return Job(id=place, response=row["response"], ground_truth=row["ground_truth"], meta=meta)


def _bar(num_rows: int) -> Any:
    from tqdm import tqdm

    return tqdm(total=num_rows, desc="score", unit="row", file=sys.stderr, disable=None)


def _pooled(kind: Kind, rows: Rows, limits: _Limits) -> "list[Verdict]":
    from gmts.rewards.config import PoolConfig
    from gmts.rewards.pool import RewardPool
    from gmts.rewards.verdict import RewardError

    config = PoolConfig(
        workers=limits.workers, deadline_s=limits.deadline_s, memory_mib=limits.memory_mib
    )
    with (
        RewardPool(kind.value, config, require_box=limits.require_box) as pool,
        _bar(len(rows)) as bar,
    ):
        try:
            return pool.score_all([_job(*row) for row in rows], on_verdict=bar.update)
        except RewardError as error:
            raise ConfigError(str(error)) from error


def _sandboxed(kind: Kind, rows: Rows, limits: _Limits) -> "list[Verdict]":
    del kind, limits  # rows have their own
    from gmts.rewards.code.scorer import judge_row
    from gmts.rewards.sandbox.isolation import IsolationError

    verdicts = []
    with _bar(len(rows)) as bar:
        for _, row in rows:
            try:
                verdicts.append(judge_row(row))
            except IsolationError as error:
                raise ConfigError(str(error)) from error
            bar.update()
    return verdicts


@dataclass(frozen=True, slots=True, kw_only=True)
class _How:
    problem: Callable[[Row], str | None]
    judge: "Callable[[Kind, Rows, _Limits], list[Verdict]]"


_KINDS: dict[Kind, _How] = {
    Kind.math: _How(problem=_answer_problem, judge=_pooled),
    Kind.choice: _How(problem=_answer_problem, judge=_pooled),
    Kind.code: _How(problem=_code_problem, judge=_sandboxed),
}
"""Who judges each kind."""
