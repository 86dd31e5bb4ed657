"""Work folders that nothing needs any more."""

import fcntl
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from gmts.config import STAGE_SECTIONS, load_params, params_hash
from gmts.files import locked, read_json
from gmts.stages.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Removable:
    """A folder or file that could be deleted."""

    path: Path
    size_mib: float
    reason: str


def removable(root: Path) -> list[Removable]:
    """Return what neither the current results nor a run of params.yaml need.

    Resumable states of other experiments, sampled responses of other models, and left-over parts
    of interrupted writes. A state that a running training holds is never listed.
    """
    workspace = Workspace(root)
    current = _current_fingerprint(workspace)
    wanted = None
    if workspace.params_file.is_file():
        wanted = params_hash(load_params(workspace.params_file), STAGE_SECTIONS["train"])
    found = []
    for folder in sorted((workspace.work_dir / "train").glob("*")):
        needed = folder.name == current or _identity(folder).get("params", "") == wanted
        if folder.is_dir() and not needed and not _in_use(folder):
            reason = "resumable state of another experiment"
            found.append(Removable(path=folder, size_mib=_size_mib(folder), reason=reason))
    sampled = _current_samples(workspace)
    for folder in sorted((workspace.work_dir / "eval-cache").glob("*")):
        if folder.name not in sampled:
            reason = "responses sampled from another model"
            found.append(Removable(path=folder, size_mib=_size_mib(folder), reason=reason))
    for parent in ("models", "published", "reports", "reports/evaluation", "data"):
        for leftover in sorted((root / parent).glob(".*.*")):
            reason = "left over from an interrupted write"
            found.append(Removable(path=leftover, size_mib=_size_mib(leftover), reason=reason))
    return found


def delete_removable(root: Path) -> list[Removable]:
    """Delete what `removable` returns, and return it.

    Raises:
        ValueError: If a stage is running: what it writes now would look left over.
    """
    workspace = Workspace(root)
    try:
        with locked(workspace.lock_file, shared=False):
            found = removable(root)
            for item in found:
                if item.path.is_dir():
                    shutil.rmtree(item.path)
                else:
                    item.path.unlink()
            return found
    except BlockingIOError as error:
        raise ValueError(
            f"{root} must have no running stage to be cleaned; try again when it has ended"
        ) from error


def _current_fingerprint(workspace: Workspace) -> str | None:
    file = workspace.train_dir / "summary.json"
    if not file.is_file():
        return None
    fingerprint: str = read_json(file)["fingerprint"]
    return fingerprint


def _current_samples(workspace: Workspace) -> set[str]:
    files = [
        *workspace.evaluation_dir("initial").parent.glob("*/scores.json"),
        *workspace.benchmarks_dir.glob("*/*/scores.json"),
    ]
    return {read_json(file)["sampling_sha256"] for file in files}


def _identity(folder: Path) -> dict[str, str]:
    file = folder / "identity.json"
    identity: dict[str, str] = read_json(file) if file.is_file() else {}
    return identity


def _in_use(folder: Path) -> bool:
    lock = folder / "lock"
    if not lock.exists():
        return False
    handle = os.open(lock, os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _size_mib(path: Path) -> float:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files) / 2**20
