"""Where questions come from: generated tasks, local files, own functions."""

import difflib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow
import reasoning_gym
from pyarrow import parquet
from reasoning_gym.factory import DATASETS

from gmts.data.config import DataConfig
from gmts.imports import load_function

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("test", "validation", "train")
"""In the order in which a question that several splits drew is awarded."""

_ATTEMPTS_PER_ROW = 50
_FIELDS = ("question", "answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question as its source gives it."""

    question: str
    answer: str
    meta: dict[str, Any]
    """The scorer's entry; its scalar fields may appear in data.user_prompt."""


Source = Callable[[Split], Iterator[Question]]
"""Yields the questions of a split in order; may repeat itself; ends when it has no more."""


def make_source(config: DataConfig, root: Path) -> Source:
    """Return the source that `config` names, its settings checked.

    Raises:
        ValueError: If the task, its options, a file or an own function is not valid.
    """
    return _SOURCES[config.source](config, root)


def _reasoning_gym(config: DataConfig, root: Path) -> Source:
    del root
    if config.task not in DATASETS:
        close = difflib.get_close_matches(config.task, DATASETS, n=3)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise ValueError(f"data.task must be a reasoning-gym task, got {config.task!r}{hint}")
    limits = {split: _ATTEMPTS_PER_ROW * getattr(config, f"{split}_rows") for split in SPLITS}
    _check_seeds(config, limits)
    tasks = {}
    for split in SPLITS:
        try:
            tasks[split] = reasoning_gym.create_dataset(
                config.task,
                size=limits[split],
                seed=getattr(config.seeds, split),
                **config.task_options,
            )
        except (TypeError, AssertionError, ValueError) as error:
            raise ValueError(
                f"data.task_options must be options of {config.task}, got "
                f"{config.task_options}: {error}"
            ) from error

    def draw(split: Split) -> Iterator[Question]:
        for entry in tasks[split]:
            meta = json.loads(json.dumps(entry))
            yield Question(question=entry["question"], answer=str(entry["answer"]), meta=meta)

    return draw


def _check_seeds(config: DataConfig, limits: Mapping[Split, int]) -> None:
    """Item i is drawn from seed + i: ranges of seeds that meet would give the same items."""
    spans = sorted((getattr(config.seeds, split), limits[split], split) for split in SPLITS)
    for (low, length, first), (high, _, second) in itertools.pairwise(spans):
        if low + length > high:
            raise ValueError(
                f"data.seeds.{second} must be at least {length} above data.seeds.{first} ({low}), "
                f"got {high}: item i of a task is drawn from seed + i"
            )


def _local(config: DataConfig, root: Path) -> Source:
    files = {split: getattr(config.files, split) for split in SPLITS}
    tables = {
        split: _read_records(root / name, f"data.files.{split}")
        for split, name in files.items()
        if name is not None
    }

    def draw(split: Split) -> Iterator[Question]:
        # Without a file of its own, validation takes the first rows of train; the rows it takes
        # are not left for train, because a question belongs to one split only.
        for record in tables.get(split, tables["train"]):
            yield Question(
                question=record["question"],
                answer=record["answer"],
                meta=record | {"metadata": record.get("metadata") or {}},
            )

    return draw


def _read_records(path: Path, key: str) -> list[dict[str, Any]]:
    records: list[dict[str, Any]]
    try:
        if path.suffix == ".parquet":
            records = parquet.read_table(path).to_pylist()
        else:
            records = _read_json_lines(path)
    except FileNotFoundError as error:
        raise ValueError(f"{key} must name a file, got {path}: there is none") from error
    except (OSError, pyarrow.ArrowException, UnicodeDecodeError) as error:
        raise ValueError(f"{key}: {path} cannot be read: {error}") from error
    for number, record in enumerate(records, start=1):
        _check_record(record, f"{path}:{number}")
    return records


def _read_json_lines(path: Path) -> list[Any]:
    records = []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                records.append(json.loads(line))
            except ValueError as error:
                raise ValueError(f"{path}:{number} is not valid JSON: {error}") from error
    return records


def _check_record(record: Any, place: str) -> None:
    if not isinstance(record, dict):
        raise ValueError(f"{place} must be an object with {', '.join(_FIELDS)}, got {record!r}")
    for name in _FIELDS:
        if not isinstance(record.get(name), str) or not record[name].strip():
            raise ValueError(f"{place}: {name} must be non-empty text, got {record.get(name)!r}")


def _custom(config: DataConfig, root: Path) -> Source:
    del root
    function = load_function("data.custom", str(config.custom), 1)

    def draw(split: Split) -> Iterator[Question]:
        for number, record in enumerate(function(split), start=1):
            _check_record(record, f"data.custom {config.custom} ({split}) row {number}")
            meta = record.get("meta", {})
            yield Question(question=record["question"], answer=record["answer"], meta=dict(meta))

    return draw


_SOURCES: dict[str, Callable[[DataConfig, Path], Source]] = {
    "reasoning_gym": _reasoning_gym,
    "local": _local,
    "custom": _custom,
}
