"""Rows of a split, and the parquet files that hold them."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow
from datasets import Dataset, Features, List, Value
from pyarrow import parquet

FEATURES = Features(
    {
        "id": Value("string"),
        "messages": List({"role": Value("string"), "content": Value("string")}),
        "ground_truth": Value("string"),
        "source": Value("string"),
        "meta": Value("string"),
        "solution": Value("string"),
    }
)
"""Columns of a split."""

Message = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One question."""

    id: str
    """Unique in the experiment."""
    messages: tuple[Message, ...]
    """The prompt: {"role": ..., "content": ...}."""
    ground_truth: str
    source: str
    """The task or data set that it comes from."""
    meta: dict[str, Any]
    """What the scorer needs besides the ground truth; JSON in the file."""
    solution: str | None
    """A worked solution, which the warm start learns from."""


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write rows as parquet; equal rows give equal bytes."""
    table = Dataset.from_list(
        [
            {
                "id": row.id,
                "messages": list(row.messages),
                "ground_truth": row.ground_truth,
                "source": row.source,
                "meta": json.dumps(row.meta, sort_keys=True, ensure_ascii=False),
                "solution": row.solution,
            }
            for row in rows
        ],
        features=FEATURES,
    )
    parquet.write_table(table.data.table.replace_schema_metadata(None), path)


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a split.

    Raises:
        ValueError: If the file is missing, corrupt, empty, or lacks a column; the message names it.
    """
    try:
        table = parquet.read_table(path)
    except FileNotFoundError as error:
        raise ValueError(f"{path} must exist: run the prepare stage (`gmts prepare`)") from error
    except (OSError, pyarrow.ArrowException) as error:
        raise ValueError(
            f"{path} must be a parquet file, got one that cannot be read: {error}"
        ) from error
    missing = [name for name in FEATURES if name not in table.column_names]
    if missing:
        raise ValueError(f"{path} must have the columns {list(FEATURES)}, got none of {missing}")
    if not table.num_rows:
        raise ValueError(f"{path} must hold at least one row, got none")
    return [
        Row(
            id=record["id"],
            messages=tuple(record["messages"]),
            ground_truth=record["ground_truth"],
            source=record["source"],
            meta=json.loads(record["meta"]),
            solution=record["solution"],
        )
        for record in table.to_pylist()
    ]
