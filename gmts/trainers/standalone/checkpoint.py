"""Resumable checkpoints: complete or ignored, the newest few kept."""

import fcntl
import json
import logging
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from gmts.files import file_sha256, new_folder, read_json, write_json

logger = logging.getLogger(__name__)

SCHEMA_VERSION = 1
"""Layout of a checkpoint folder."""

_MANIFEST = "checkpoint.json"
_WEIGHTS = "policy.safetensors"
_BEST = "best.safetensors"
_STATE = "state.pt"
_NAME = re.compile(r"step-(\d+)")
_LOCK_PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Everything that decides how training goes on."""

    weights: dict[str, Tensor]
    best_weights: dict[str, Tensor] | None
    optimizer: Mapping[str, Any]
    """`state_dict` of the optimizer and whatever belongs to it."""
    carried: list[dict[str, Any]]
    """Groups held over, as plain values and tensors."""
    counters: Mapping[str, Any]
    """`LoopState.counters()`: with the seed, the state of every random stream too."""
    metrics_bytes: int
    """Length of metrics.jsonl at this step."""


class CheckpointStore:
    """The checkpoints of one run in `folder`/step-NNNNNN."""

    def __init__(self, folder: Path, *, fingerprint: str, kept: int) -> None:
        self._folder = folder
        self._fingerprint = fingerprint
        self._kept = kept

    def save(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint; only once it is complete are the oldest beyond `kept` deleted.

        Raises:
            OSError: If the disk refuses; earlier checkpoints are untouched.
        """
        step = int(checkpoint.counters["step"])
        with new_folder(self._folder / f"step-{step:06d}") as folder:
            save_file(_storable(checkpoint.weights), folder / _WEIGHTS)
            if checkpoint.best_weights is not None:
                save_file(_storable(checkpoint.best_weights), folder / _BEST)
            state = {"optimizer": checkpoint.optimizer, "carried": checkpoint.carried}
            torch.save(state, folder / _STATE)
            files = {file.name: file_sha256(file) for file in sorted(folder.iterdir())}
            manifest = {
                "schema_version": SCHEMA_VERSION,
                "fingerprint": self._fingerprint,
                "counters": dict(checkpoint.counters),
                "metrics_bytes": checkpoint.metrics_bytes,
                "files": files,
            }
            write_json(folder / _MANIFEST, manifest)
        # Later ones can only be such as could not be used; they must not crowd out this one.
        later = [other for other in self.steps() if other > step]
        for old in [*later, *[s for s in self.steps() if s <= step][: -self._kept]]:
            self._delete(self._folder / f"step-{old:06d}")

    def newest(self, *, metrics_bytes: int) -> Checkpoint | None:
        """Return the newest intact checkpoint, or None; damaged ones are named in the log.

        Args:
            metrics_bytes: Length of metrics.jsonl now; a checkpoint that needs more is no use.

        Raises:
            ValueError: If a checkpoint has another schema version.
        """
        for step in reversed(self.steps()):
            folder = self._folder / f"step-{step:06d}"
            try:
                return self._read(folder, metrics_bytes)
            except _DamagedError as error:
                logger.warning("checkpoint %s is not used: %s", folder, error)
        return None

    def steps(self) -> list[int]:
        """Return the steps that have a checkpoint, ascending."""
        if not self._folder.is_dir():
            return []
        names = (_NAME.fullmatch(folder.name) for folder in self._folder.iterdir())
        return sorted(int(name[1]) for name in names if name is not None)

    def clear_leftovers(self) -> None:
        """Delete what a killed process left half-written or half-deleted."""
        if self._folder.is_dir():
            for folder in self._folder.glob(".*"):
                shutil.rmtree(folder)

    def _delete(self, folder: Path) -> None:
        doomed = folder.with_name(f".{folder.name}.deleted")
        os.replace(folder, doomed)
        shutil.rmtree(doomed)

    def _read(self, folder: Path, metrics_bytes: int) -> Checkpoint:
        try:
            manifest = read_json(folder / _MANIFEST)
            version, files = manifest["schema_version"], manifest["files"]
        except (ValueError, KeyError, TypeError) as error:
            raise _DamagedError(f"no readable {_MANIFEST}: {error}") from error
        if version != SCHEMA_VERSION:
            raise ValueError(
                f"{folder / _MANIFEST}: schema_version must be {SCHEMA_VERSION}, got {version}: "
                "another version of gmts wrote it; delete the run's work folder to start again"
            )
        if manifest["fingerprint"] != self._fingerprint:
            raise _DamagedError("it belongs to another run")
        for name, sha256 in files.items():
            if not (folder / name).is_file() or file_sha256(folder / name) != sha256:
                raise _DamagedError(f"{name} is missing or damaged")
        if manifest["metrics_bytes"] > metrics_bytes:
            raise _DamagedError("metrics.jsonl is shorter than it was at this checkpoint")
        state = torch.load(folder / _STATE, map_location="cpu", weights_only=True)
        try:
            weights = load_file(folder / _WEIGHTS)
            best = load_file(folder / _BEST) if _BEST in files else None
        except SafetensorError as error:
            raise _DamagedError(str(error)) from error
        return Checkpoint(
            weights=weights,
            best_weights=best,
            optimizer=state["optimizer"],
            carried=state["carried"],
            counters=manifest["counters"],
            metrics_bytes=manifest["metrics_bytes"],
        )


class _DamagedError(Exception):
    """A checkpoint that cannot be resumed from."""


def _storable(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold `folder` for this process: two that train one run would destroy each other's files.

    A process that was orphaned by SIGKILL ends itself within a second, so the lock is waited for a
    little.

    Raises:
        ValueError: If another process keeps it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        deadline = time.monotonic() + _LOCK_PATIENCE_S
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ValueError(
                        f"{folder} must be free, but another process is training this very run; "
                        "wait for it or end it"
                    ) from None
                time.sleep(0.2)
        yield


def write_identity(folder: Path, parts: Mapping[str, str]) -> None:
    """Record in `folder`/identity.json what the run's fingerprint is made of."""
    path = folder / "identity.json"
    if not path.exists() or json.loads(path.read_text(encoding="utf-8")) != dict(parts):
        write_json(path, dict(parts))
