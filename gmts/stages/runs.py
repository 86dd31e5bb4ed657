"""Records of finished runs in work/runs: the summary and the params.yaml that led to it."""

import shutil
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from gmts.config import ConfigError
from gmts.config.presets import write_params
from gmts.files import new_folder, read_json
from gmts.stages.workspace import Workspace

_SHORT_HASH = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A finished run."""

    name: str
    finished: str
    summary: dict[str, Any]


def record_run(root: Path) -> Run:
    """Record the run that reports/summary.json describes, under its name and params hash."""
    workspace = Workspace(root)
    summary = read_summary(root)
    name = f"{summary['name']}-{summary['params_hash'][:_SHORT_HASH]}"
    folder = _runs_dir(root) / name
    if not folder.exists() or read_json(folder / "summary.json") != summary:
        with new_folder(folder) as temporary:
            shutil.copy2(workspace.summary_file, temporary / "summary.json")
            shutil.copyfile(workspace.params_file, temporary / "params.yaml")
    return read_run(root, name)


def read_summary(root: Path) -> dict[str, Any]:
    """Return what the publish stage wrote of the newest run.

    Raises:
        ValueError: If it has not been there, or its file is not valid JSON.
    """
    summary: dict[str, Any] = read_json(Workspace(root).summary_file)
    return summary


def list_runs(root: Path) -> list[Run]:
    """Return the recorded runs, newest first."""
    folders = (file.parent for file in _runs_dir(root).glob("*/summary.json"))
    runs = [read_run(root, folder.name) for folder in folders]
    return sorted(runs, key=lambda run: run.finished, reverse=True)


def read_run(root: Path, name: str) -> Run:
    """Return one recorded run.

    Raises:
        ConfigError: If there is none of that name; the message lists those there are.
    """
    file = _runs_dir(root) / name / "summary.json"
    if not file.is_file():
        known = sorted(found.parent.name for found in _runs_dir(root).glob("*/summary.json"))
        raise ConfigError(f"run must be one of {', '.join(known) or '(none yet)'}, got {name!r}")
    finished = datetime.fromtimestamp(file.stat().st_mtime).strftime("%Y-%m-%d %H:%M")
    return Run(name=name, finished=finished, summary=read_json(file))


def restore_run(root: Path, name: str) -> str:
    """Make the run's params.yaml the current one and return the difference."""
    read_run(root, name)
    text = (_runs_dir(root) / name / "params.yaml").read_text(encoding="utf-8")
    return write_params(root, text)


def delete_run(root: Path, name: str, *, dry_run: bool) -> Path:
    """Delete the record of a run, unless `dry_run`, and return its folder."""
    read_run(root, name)
    folder = _runs_dir(root) / name
    if not dry_run:
        shutil.rmtree(folder)
    return folder


def _runs_dir(root: Path) -> Path:
    return Workspace(root).work_dir / "runs"
