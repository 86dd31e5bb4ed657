"""Whether two clones are of the same code."""

from pathlib import Path

from gmts.files import file_sha256, folder_sha256, text_sha256


def code_sha256(root: Path) -> str:
    """Return one sha256 over what stages run and depend on: gmts, examples and dvc.yaml.

    Raises:
        ValueError: If the clone at `root` lacks one of them.
    """
    parts = [folder_sha256(root / name, "**/*.py") for name in ("gmts", "examples")]
    return text_sha256("\n".join([*parts, file_sha256(root / "dvc.yaml")]))
