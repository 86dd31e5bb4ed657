"""What a published checkpoint is made of, for machines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gmts.files import file_sha256

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """How a checkpoint came to be."""

    schema_version: int
    name: str
    preset: str
    changed_keys: tuple[str, ...]
    base_model: str
    base_weights_sha256: str
    data_hash: str
    data_manifest: Mapping[str, Any]
    params: Mapping[str, Any]
    params_hash: str
    code_version: str
    checkpoint: str
    step: int
    template_sha256: str
    scores: Mapping[str, Mapping[str, Any]]
    """Test scores with intervals by model: initial, last, best."""
    benchmarks: Sequence[Mapping[str, Any]] = ()
    """Lines of `gmts.stages.scores.benchmark_lines`."""


def folder_manifest(folder: Path, lineage: Lineage) -> dict[str, Any]:
    """Return the manifest of `folder`: its files with sha256 and bytes, and the lineage."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != MANIFEST)
    return {
        "schema_version": lineage.schema_version,
        "name": lineage.name,
        "preset": lineage.preset,
        "changed_keys": list(lineage.changed_keys),
        "checkpoint": lineage.checkpoint,
        "step": lineage.step,
        "base_model": lineage.base_model,
        "base_weights_sha256": lineage.base_weights_sha256,
        "data": {"hash": lineage.data_hash, "manifest": dict(lineage.data_manifest)},
        "params": {"hash": lineage.params_hash, "values": dict(lineage.params)},
        "code_version": lineage.code_version,
        "template_sha256": lineage.template_sha256,
        "scores": {model: dict(score) for model, score in lineage.scores.items()},
        "benchmarks": [dict(line) for line in lineage.benchmarks],
        "files": {
            file.relative_to(folder).as_posix(): {
                "sha256": file_sha256(file),
                "bytes": file.stat().st_size,
            }
            for file in files
        },
    }
