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

_MAX_SHOWN = 10
_TEXTS = ("response", "ground_truth")


class Kind(StrEnum):
    """What is judged."""

    math = "math"
    choice = "choice"


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
            "(rel_tol) where the kind needs them."
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
    jobs = _read(file)
    limits = _Limits(
        workers=workers, deadline_s=deadline_s, memory_mib=memory_mib, require_box=require_box
    )
    verdicts = _SCORERS[kind](kind, [job for _, job in jobs], limits)
    for (identifier, _), verdict in zip(jobs, verdicts, strict=True):
        line = {
            "id": identifier,
            "correct": verdict.correct,
            "reason": verdict.reason,
            "extracted": verdict.extracted,
            "seconds": round(verdict.seconds, 6),
        }
        typer.echo(json.dumps(line, ensure_ascii=False))


def _read(file: Path) -> "list[tuple[Any, Job]]":
    """Return (id, job) of every row; the job's id is its place, for messages."""
    from gmts.rewards.kinds import Job

    jobs, problems = [], []
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
        if (problem := _problem(row)) is not None:
            problems.append(f"{place} {problem}")
            continue
        meta = (row.get("meta") or {}) | {
            key: row[key] for key in ("choices", "rel_tol") if row.get(key) is not None
        }
        job = Job(id=place, response=row["response"], ground_truth=row["ground_truth"], meta=meta)
        jobs.append((row.get("id"), job))
    if problems:
        more = len(problems) - _MAX_SHOWN
        shown = problems[:_MAX_SHOWN] + [f"and {more} more"] * (more > 0)
        raise ConfigError("\n".join(shown))
    if not jobs:
        raise ConfigError(f"{file} must hold at least one row, got none")
    return jobs


def _problem(row: Any) -> str | None:
    """Return why a row cannot be judged; None if it can."""
    if not isinstance(row, dict):
        return f"must be an object, got {row!r:.80}"
    for name in _TEXTS:
        if not isinstance(row.get(name), str):
            return f"must have the text {name}, got {row.get(name)!r:.80}"
    if not row["ground_truth"].strip():
        return f"ground_truth must be non-empty text, got {row['ground_truth']!r:.80}"
    if not isinstance(row.get("meta") or {}, dict):
        return f"meta must be an object, got {row['meta']!r:.80}"
    return None


def _pooled(kind: Kind, jobs: "Sequence[Job]", limits: _Limits) -> "list[Verdict]":
    from tqdm import tqdm

    from gmts.rewards.config import PoolConfig
    from gmts.rewards.pool import RewardPool
    from gmts.rewards.verdict import RewardError

    config = PoolConfig(
        workers=limits.workers, deadline_s=limits.deadline_s, memory_mib=limits.memory_mib
    )
    with (
        RewardPool(kind.value, config, require_box=limits.require_box) as pool,
        tqdm(total=len(jobs), desc="score", unit="row", file=sys.stderr, disable=None) as bar,
    ):
        try:
            return pool.score_all(jobs, on_verdict=bar.update)
        except RewardError as error:
            raise ConfigError(str(error)) from error


_SCORERS: "dict[Kind, Callable[[Kind, Sequence[Job], _Limits], list[Verdict]]]" = {
    Kind.math: _pooled,
    Kind.choice: _pooled,
}
"""Who judges each kind."""
