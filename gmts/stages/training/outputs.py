"""What training leaves: two model folders and reports/train."""

import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gmts.config import SCHEMA_VERSION
from gmts.files import new_folder, write_json
from gmts.models.folder import save_model
from gmts.models.template import PromptTemplate
from gmts.stages.workspace import Workspace
from gmts.trainers.watch.tracking import METRICS_FILE, read_metrics

_REPORTED = (METRICS_FILE, "tensorboard", "dvclive", "rollouts")
"""What reports/train takes over from the run's live files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A policy of the run."""

    step: int
    validation_accuracy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """The policies that are reported."""

    initial: Point
    last: Point
    best: Point

    def values(self) -> dict[str, float]:
        """Return their accuracies, for the stage's result."""
        return {
            f"{name}_validation_accuracy": float(point["validation_accuracy"])
            for name, point in asdict(self).items()
        }


def validated(live_dir: Path) -> dict[int, float]:
    """Return the validation accuracy by step, from the run's metrics."""
    return {
        int(record["step"]): record["validation/accuracy"]
        for record in read_metrics(live_dir / METRICS_FILE)
        if "validation/accuracy" in record
    }


def lineage_of(parts: Mapping[str, str], fingerprint: str) -> dict[str, str]:
    """Return what a checkpoint is to say of where it comes from."""
    return {
        "fingerprint": fingerprint,
        "params_sha256": parts["params"],
        "data_sha256": parts["data"],
        "initial_weights_sha256": parts["initial_weights"],
        "code_sha256": parts["code"],
    }


def save_policy(
    policy: Any, template: PromptTemplate, extra: Mapping[str, Any], target: Path
) -> None:
    """Write a policy as a Hugging Face folder, which replaces `target` once it is complete."""
    with new_folder(target) as folder:
        save_model(folder, policy, template.tokenizer, template, extra)


def write_report(
    workspace: Workspace,
    live_dir: Path,
    points: Points,
    counts: Mapping[str, int],
    lineage: Mapping[str, str],
) -> None:
    """Write reports/train from the run's live files and its summary."""
    with new_folder(workspace.train_dir) as folder:
        for source in (live_dir / name for name in _REPORTED):
            if source.is_dir():
                shutil.copytree(source, folder / source.name)
            elif source.exists():
                shutil.copy2(source, folder / source.name)
        summary = {"schema_version": SCHEMA_VERSION} | asdict(points) | dict(counts) | dict(lineage)
        write_json(folder / "summary.json", summary)
