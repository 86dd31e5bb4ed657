"""Files outside the pipeline that prepare has read, and whether they still are what it read."""

from pathlib import Path

from gmts.files import file_sha256, read_json
from gmts.stages.workspace import Workspace


def changed_files(root: Path) -> list[str]:
    """Return the files under data.files and data.decontaminate that changed since prepare ran.

    They are named in params.yaml, so dvc.yaml cannot list them as dependencies; the manifest of
    data/prepared has their hashes instead. Without a manifest the list is empty: prepare is due
    anyway. A file that is gone counts as changed.

    Args:
        root: The clone; names are relative to it.

    Raises:
        ValueError: If the manifest is not valid JSON.
    """
    manifest = Workspace(root).prepared_dir / "manifest.json"
    if not manifest.is_file():
        return []
    recorded = read_json(manifest).get("files", {})
    return [
        name
        for name, sha256 in recorded.items()
        if not (root / name).is_file() or file_sha256(root / name) != sha256
    ]
