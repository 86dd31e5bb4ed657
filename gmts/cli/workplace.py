"""The clone that a command works in."""

from pathlib import Path

from gmts.config import ConfigError


def clone_root(root: Path) -> Path:
    """Return `root` resolved.

    Raises:
        ConfigError: If it is not the root of a gmts clone.
    """
    root = root.resolve()
    for name in ("dvc.yaml", "configs"):
        if not (root / name).exists():
            raise ConfigError(
                f"--root must be the root of a gmts clone, got {root}: it has no {name}"
            )
    return root
