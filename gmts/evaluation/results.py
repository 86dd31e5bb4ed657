"""The files of an evaluation: every response with its verdict, from which each number follows."""

import gzip
import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gmts.data.rows import Row
from gmts.evaluation.cache import Response
from gmts.files import file_sha256, read_json, write_atomic
from gmts.rewards.verdict import Verdict

SCORES = "scores.json"
RESPONSES = "responses.jsonl.gz"
SCORES_VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A question with its responses and their verdicts."""

    row: Row
    responses: tuple[Response, ...]
    verdicts: tuple[Verdict, ...]


def write_responses(path: Path, judged: Sequence[Judged]) -> None:
    """Write questions, responses and verdicts as gzipped JSON lines; equal ones as equal bytes."""
    lines = (json.dumps(_line(one), ensure_ascii=False) for one in judged)
    write_atomic(path, gzip.compress("\n".join(lines).encode(), mtime=0))


def _line(judged: Judged) -> dict[str, Any]:
    row = judged.row
    return {
        "id": row.id,
        "messages": list(row.messages),
        "ground_truth": row.ground_truth,
        "source": row.source,
        "meta": row.meta,
        "responses": [
            asdict(response)
            | {
                "correct": verdict.correct,
                "score": verdict.score,
                "reason": verdict.reason,
                "extracted": verdict.extracted,
            }
            | ({"statuses": dict(verdict.statuses)} if verdict.statuses else {})
            for response, verdict in zip(judged.responses, judged.verdicts, strict=True)
        ],
    }


def read_scores(folder: Path) -> dict[str, Any]:
    """Return the scores in `folder`.

    Raises:
        ValueError: If there are none, or they are of another version of gmts.
    """
    scores: dict[str, Any] = read_json(folder / SCORES)
    version = scores.get("schema_version") if isinstance(scores, dict) else None
    if version != SCORES_VERSION:
        raise ValueError(
            f"{folder / SCORES}: schema_version must be {SCORES_VERSION}, got {version!r}; "
            "evaluate again (the sampled responses are cached)"
        )
    return scores


def read_results(folder: Path) -> tuple[dict[str, Any], list[Judged]]:
    """Return the scores in `folder` and the responses that they were computed from.

    Raises:
        ValueError: If a file is missing, damaged, of another version of gmts, or not that which
            the scores were computed from; the message names it.
    """
    scores, path = read_scores(folder), folder / RESPONSES
    if not path.is_file():
        raise ValueError(f"{path} must exist: it holds the responses of {folder / SCORES}")
    found = file_sha256(path)
    recorded = scores.get("responses_sha256")
    if found != recorded:
        raise ValueError(
            f"{path} must have the sha256 {recorded} that {SCORES} records, got "
            f"{found}: the file was changed or is corrupt"
        )
    try:
        lines = gzip.decompress(path.read_bytes()).decode().split("\n")
        return scores, [_judged(json.loads(line)) for line in lines]
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} must hold the responses that gmts wrote: {error!r}") from error


def _judged(line: dict[str, Any]) -> Judged:
    responses = line["responses"]
    return Judged(
        row=Row(
            id=line["id"],
            messages=tuple(line["messages"]),
            ground_truth=line["ground_truth"],
            source=line["source"],
            meta=line["meta"],
            solution=None,
        ),
        responses=tuple(
            Response(text=r["text"], num_tokens=r["num_tokens"], finished=r["finished"])
            for r in responses
        ),
        verdicts=tuple(
            Verdict(
                correct=r["correct"],
                score=r["score"],
                reason=r["reason"],
                extracted=r["extracted"],
                seconds=0.0,
                statuses=r.get("statuses", {}),
            )
            for r in responses
        ),
    )
