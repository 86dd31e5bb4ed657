"""verl's metric records while they are written, and our file of them when a run goes on."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from gmts.trainers.verl.metrics import translated


class Records:
    """The file of verl's file logger: {"step", "data"} per line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._position = 0

    def new(self) -> Iterator[tuple[int, Mapping[str, float]]]:
        """Yield (step, metrics under our names) of the lines written since the last call."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._position)
            while (line := file.readline()).endswith(b"\n"):
                self._position += len(line)
                record = json.loads(line)
                yield int(record["step"]), translated(record["data"])


def logged_steps(metrics_file: Path) -> set[int]:
    """Return the steps in a metrics.jsonl; none if there is no file.

    A last line that was cut short by a kill does not count.
    """
    return {step for step, _ in _whole_records(metrics_file)}


def validation_accuracy(metrics_file: Path, step: int) -> dict[int, float]:
    """Return the validation accuracies up to and including `step`, by step."""
    if not metrics_file.exists():
        return {}
    lines = metrics_file.read_bytes()[: kept_length(metrics_file, step)].splitlines()
    records = [json.loads(line) for line in lines]
    return {
        int(record["step"]): float(record["validation/accuracy"])
        for record in records
        if "validation/accuracy" in record
    }


def kept_length(metrics_file: Path, step: int | None) -> int:
    """Return the bytes of metrics.jsonl up to and including `step`; 0 for None."""
    if step is None:
        return 0
    return max((end for own, end in _whole_records(metrics_file) if own <= step), default=0)


def _whole_records(metrics_file: Path) -> list[tuple[int, int]]:
    """Return (step, where its line ends) of every whole line."""
    if not metrics_file.exists():
        return []
    content = metrics_file.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    found, end = [], 0
    for line in whole.splitlines(keepends=True):
        end += len(line)
        found.append((int(json.loads(line)["step"]), end))
    return found
