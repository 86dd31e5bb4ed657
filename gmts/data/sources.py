"""Where questions come from: generated tasks, files of named sets or of one's own, functions."""

import difflib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gmts.data.config import DataConfig
from gmts.data.contamination import Benchmark
from gmts.data.file_source import file_source
from gmts.data.questions import SPLITS, Question, Source, Split
from gmts.imports import load_function

_ATTEMPTS_PER_ROW = 50
_FIELDS = ("question", "answer")


def make_source(config: DataConfig, root: Path, benchmarks: Sequence[Benchmark] = ()) -> Source:
    """Return the source that `config` names, its settings checked and its files read.

    Args:
        config: The `data` section.
        root: What relative paths are relative to.
        benchmarks: Besides those of data.decontaminate; rows of files must not repeat them.

    Raises:
        ValueError: If the task, its options, a file, a row or an own function is not valid.
        OSError: If the Hub cannot be reached.
    """
    if config.source in ("hub", "local"):
        return file_source(config, root, benchmarks)
    return _SOURCES[config.source](config)


def _reasoning_gym(config: DataConfig) -> Source:
    try:
        import reasoning_gym  # noqa: PLC0415 (only generated tasks need the extra)
        from reasoning_gym.factory import DATASETS  # noqa: PLC0415
    except ImportError as error:
        raise ValueError(
            "data.source must be hub, local or custom where reasoning-gym is not installed, got "
            f"reasoning_gym: install the extra gmts[smoke] ({error})"
        ) from error
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

    return Source(draw=draw)


def _check_seeds(config: DataConfig, limits: Mapping[Split, int]) -> None:
    """Item i is drawn from seed + i: ranges of seeds that meet would give the same items."""
    spans = sorted((getattr(config.seeds, split), limits[split], split) for split in SPLITS)
    for (low, length, first), (high, _, second) in itertools.pairwise(spans):
        if low + length > high:
            raise ValueError(
                f"data.seeds.{second} must be at least {length} above data.seeds.{first} ({low}), "
                f"got {high}: item i of a task is drawn from seed + i"
            )


def _custom(config: DataConfig) -> Source:
    function = load_function("data.custom", str(config.custom), 1)

    def draw(split: Split) -> Iterator[Question]:
        for number, record in enumerate(function(split), start=1):
            _check_record(record, f"data.custom {config.custom} ({split}) row {number}")
            meta = record.get("meta", {})
            yield Question(question=record["question"], answer=record["answer"], meta=dict(meta))

    return Source(draw=draw)


def _check_record(record: Any, place: str) -> None:
    if not isinstance(record, dict):
        raise ValueError(f"{place} must be an object with {', '.join(_FIELDS)}, got {record!r}")
    for name in _FIELDS:
        if not isinstance(record.get(name), str) or not record[name].strip():
            raise ValueError(f"{place}: {name} must be non-empty text, got {record.get(name)!r}")


_SOURCES: dict[str, Callable[[DataConfig], Source]] = {
    "reasoning_gym": _reasoning_gym,
    "custom": _custom,
}
