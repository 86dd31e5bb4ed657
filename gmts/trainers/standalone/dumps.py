"""Compressed samples of what the policy said: prompt, response, verdict, advantage."""

import gzip
import io
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from gmts.files import write_atomic

_NAME = re.compile(r"step-(\d+)\.jsonl\.gz")


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedResponse:
    """One response of one training step."""

    sample_id: int
    row_id: str
    """Id of the question in the training split."""
    prompt: str
    response: str
    correct: bool
    score: float
    reason: str
    advantage: float
    num_selected_tokens: int
    """Response tokens that carried loss."""
    num_response_tokens: int
    """Tokens sampled, the end token included."""
    finished: bool
    """False: cut at the length limit."""


def dump_file(folder: Path, step: int) -> Path:
    """Return where the dump of `step` lies."""
    return folder / f"step-{step:06d}.jsonl.gz"


def write_dump(folder: Path, step: int, responses: Iterable[DumpedResponse], *, limit: int) -> Path:
    """Write at most `limit` responses, atomically; equal content gives equal bytes."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0) as file:
        for number, response in enumerate(responses):
            if number == limit:
                break
            line = json.dumps(asdict(response), ensure_ascii=False, allow_nan=False)
            file.write(f"{line}\n".encode())
    path = dump_file(folder, step)
    write_atomic(path, buffer.getvalue())
    return path


def read_dump(path: Path) -> Iterator[DumpedResponse]:
    """Yield the responses of a dump in the order they were written.

    Raises:
        ValueError: If the file is damaged; the message names it.
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                yield DumpedResponse(**json.loads(line))
    except (OSError, EOFError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a dump of rollouts: {error}") from error


def drop_dumps_after(folder: Path, step: int) -> None:
    """Delete the dumps of later steps than `step`, which a resumed run writes again."""
    for path in folder.glob("step-*.jsonl.gz"):
        name = _NAME.fullmatch(path.name)
        if name is not None and int(name[1]) > step:
            path.unlink()
