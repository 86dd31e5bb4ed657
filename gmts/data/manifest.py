"""The manifest of a prepared data set, and the check that files still are what it says."""

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gmts.data.config import DataConfig
from gmts.data.questions import SPLITS, Split
from gmts.data.rows import Row
from gmts.data.splits import SplitRows
from gmts.files import file_sha256, read_json, text_sha256

MANIFEST = "manifest.json"
MANIFEST_VERSION = 1
TOKENIZER_DIR = "tokenizer"
"""Where prepare leaves the tokenizer that it builds when there is no model."""


def split_file(folder: Path, split: Split) -> Path:
    """Return the parquet file of a split."""
    return folder / f"{split}.parquet"


def build_manifest(
    folder: Path,
    config: DataConfig,
    splits: Mapping[Split, SplitRows],
    template_sha256: str | None,
    facts: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the manifest of the splits already written to `folder`.

    Args:
        folder: Where the parquet files lie.
        config: What was asked for.
        splits: Rows and counts.
        template_sha256: The prompt template under which lengths were counted.
        facts: What the source says of its files and rows, see `gmts.data.questions.Source`, and
            the model whose tokenizer counted.
    """
    hashes = {split: set(splits[split].questions) for split in SPLITS}
    overlap = {
        f"{first}-{second}": len(hashes[first] & hashes[second])
        for first, second in itertools.combinations(SPLITS, 2)
    }
    return {
        "schema_version": MANIFEST_VERSION,
        "source": config.source,
        "set": config.set,
        "task": config.task,
        "task_options": dict(config.task_options),
        "max_prompt_tokens": config.max_prompt_tokens,
        "template_sha256": template_sha256,
        "rows_sha256": text_sha256("".join(rows_hash(splits[split].rows) for split in SPLITS)),
        "overlap": overlap,
        **facts,
        "splits": {
            split: {
                "rows": len(found.rows),
                "seed": getattr(config.seeds, split) if config.source == "reasoning_gym" else None,
                "sha256": file_sha256(split_file(folder, split)),
                "rows_sha256": rows_hash(found.rows),
                "questions_sha256": text_sha256("".join(sorted(hashes[split]))),
                "duplicates_removed": found.duplicates,
                "in_another_split": found.elsewhere,
                "dropped_as_too_long": found.too_long,
            }
            for split, found in splits.items()
        },
    }


def rows_hash(rows: list[Row]) -> str:
    """Return the sha256 of the rows' canonical JSON, independent of the file format."""
    lines = (
        json.dumps(
            [row.id, list(row.messages), row.ground_truth, row.source, row.meta, row.solution],
            sort_keys=True,
            ensure_ascii=False,
        )
        for row in rows
    )
    return text_sha256("\n".join(lines))


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a prepared data set.

    Raises:
        ValueError: If it is missing, broken, or of another version of gmts.
    """
    manifest: dict[str, Any] = read_json(folder / MANIFEST)
    version = manifest.get("schema_version")
    if version != MANIFEST_VERSION:
        raise ValueError(
            f"{folder / MANIFEST}: schema_version must be {MANIFEST_VERSION}, got {version!r}; "
            "run the prepare stage again"
        )
    return manifest


def check_split(folder: Path, split: Split) -> Path:
    """Return the file of a split, after comparing it with the manifest.

    Raises:
        ValueError: If the file is missing or is not the one that prepare wrote.
    """
    expected = read_manifest(folder)["splits"][split]["sha256"]
    path = split_file(folder, split)
    if not path.is_file():
        raise ValueError(f"{path} must exist: run the prepare stage (`gmts prepare`)")
    found = file_sha256(path)
    if found != expected:
        raise ValueError(
            f"{path} must have the sha256 {expected} of its manifest, got {found}: the file is "
            "corrupt or was changed; run the prepare stage again"
        )
    return path
