"""Rows of local files, one at a time, and what becomes of those that are broken."""

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow
from pyarrow import parquet

_BATCH_ROWS = 4096

Record = Mapping[str, Any]


class BadRowError(ValueError):
    """A row that cannot become a question: the rule and the value, without the place."""


@dataclass(slots=True, kw_only=True)
class BadRows:
    """What happens to broken rows (data.bad_rows), and which were met."""

    policy: Literal["refuse", "skip"]
    found: list[str] = field(default_factory=list)
    """Place and reason of each row that was skipped."""

    def add(self, message: str) -> None:
        """Note a broken row.

        Raises:
            ValueError: If broken rows are refused; `message` names file, line and reason.
        """
        if self.policy == "refuse":
            raise ValueError(f"{message} (data.bad_rows: skip leaves such rows out)")
        self.found.append(message)


def read_records(
    path: Path,
    key: str,
    bad: BadRows,
    *,
    columns: tuple[str, ...] | None = None,
    wanted: str = "named fields",
) -> Iterator[tuple[str, Record]]:
    """Yield (FILE:LINE, row) of a parquet, JSON or JSON-lines file, gzipped or not.

    The line is the row's number where a file has no lines, from 1. Memory holds one batch of a
    parquet file, one line, or one whole JSON array.

    Args:
        path: The file; its suffix tells what it is, JSON lines unless .parquet or .json.
        key: The parameter that names the file, for errors.
        bad: Takes lines that are not JSON, and rows that are not objects.
        columns: Top-level columns to read of a parquet file, those it has; None for all.
        wanted: What a row is an object with, for errors.

    Raises:
        ValueError: If the file is missing or cannot be read, or at a broken row unless skipped.
    """
    kind = path.suffixes[-2:-1] if path.suffix == ".gz" else path.suffixes[-1:]
    try:
        if kind == [".parquet"]:
            rows = _parquet_rows(path, columns)
        else:
            rows = _json_rows(path, bad, array=kind == [".json"])
        for number, record in rows:
            place = f"{path}:{number}"
            if isinstance(record, Mapping):
                yield place, record
            else:
                bad.add(f"{place} must be an object with {wanted}, got {record!r:.80}")
    except FileNotFoundError as error:
        raise ValueError(f"{key} must name a file, got {path}: there is none") from error
    except (OSError, EOFError, zlib.error, pyarrow.ArrowException) as error:
        raise ValueError(f"{key}: {path} cannot be read: {error}") from error


def _parquet_rows(path: Path, columns: tuple[str, ...] | None) -> Iterator[tuple[int, Any]]:
    number = 0
    # Without pre-buffering a file of gigabytes stays on the disk, apart from one batch.
    with parquet.ParquetFile(path, pre_buffer=False) as file:
        names = file.schema_arrow.names
        wanted = None if columns is None else [name for name in names if name in columns]
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=wanted):
            for record in batch.to_pylist():
                number += 1
                yield number, record


def _json_rows(path: Path, bad: BadRows, *, array: bool) -> Iterator[tuple[int, Any]]:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        if array and _starts_array(file):
            try:
                records = json.load(file)
            except ValueError as error:
                raise ValueError(f"{path} is not valid JSON: {error}") from error
            yield from enumerate(records, start=1)
            return
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except ValueError as error:
                bad.add(f"{path}:{number} is not valid JSON: {error}")
                continue
            yield number, record


def _starts_array(file: Any) -> bool:
    start = file.read(1)
    while start.isspace():
        start = file.read(1)
    file.seek(0)
    return bool(start == b"[")


def field_value(record: Record, *paths: str) -> Any:
    """Return the value at the first of the dotted `paths` that the row has; None if it has none."""
    for path in paths:
        here: Any = record
        for name in path.split("."):
            here = here.get(name) if isinstance(here, Mapping) else None
        if here is not None:
            return here
    return None


def field_text(record: Record, *paths: str) -> str:
    """Return non-empty text at the first of the dotted `paths` that the row has.

    Raises:
        BadRowError: If there is none, it is empty, or not text.
    """
    value = field_value(record, *paths)
    if not isinstance(value, str) or not value.strip():
        raise BadRowError(f"{' or '.join(paths)} must be non-empty text, got {value!r:.80}")
    return value
