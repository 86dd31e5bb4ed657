"""Why the last stage failed: DVC passes on neither a stage's exit code nor its message."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A stage's exit code and message."""

    stage: str
    code: int
    message: str


def record_failure(root: Path, stage: str, code: int, message: str) -> None:
    """Leave a note for the pipeline that started the stage."""
    file = _file(root)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(asdict(Failure(stage=stage, code=code, message=message))))


def last_failure(root: Path) -> Failure | None:
    """Return the note, if a stage has left one."""
    file = _file(root)
    return Failure(**json.loads(file.read_text())) if file.exists() else None


def forget_failure(root: Path) -> None:
    """Remove the note of an earlier run."""
    _file(root).unlink(missing_ok=True)


def _file(root: Path) -> Path:
    return root / "work" / "failure.json"
