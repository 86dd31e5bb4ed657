"""The model that training starts from, as models/initial/initial.json names it."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from gmts.files import read_json, write_json

INITIAL = "initial.json"
INITIAL_VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialModel:
    """Where the initial policy lies, and what it was when it was first seen."""

    path: Path
    weights_sha256: str
    settings_sha256: str
    """Over config, tokenizer and template, see `gmts.models.identity`."""
    template_kind: Literal["tokenizer", "plain"]
    template_sha256: str
    built: bool
    """True if the warm start built it."""


def write_initial(folder: Path, initial: InitialModel) -> None:
    """Write initial.json into `folder`.

    A path that is not absolute is one from that folder, so that a clone stays whole when it moves.
    """
    tree = asdict(initial) | {"path": str(initial.path), "schema_version": INITIAL_VERSION}
    write_json(folder / INITIAL, tree)


def read_initial(folder: Path) -> InitialModel:
    """Return the initial model that `folder` describes, its path resolved.

    Raises:
        ValueError: If initial.json is missing, broken, or of another version of gmts.
    """
    tree = read_json(folder / INITIAL)
    version = tree.pop("schema_version", None) if isinstance(tree, dict) else None
    if version != INITIAL_VERSION:
        raise ValueError(
            f"{folder / INITIAL}: schema_version must be {INITIAL_VERSION}, got {version!r}; "
            "run the warmstart stage again"
        )
    names = InitialModel.__dataclass_fields__.keys()
    if tree.keys() != names:
        raise ValueError(f"{folder / INITIAL} must hold {sorted(names)}, got {sorted(tree)}")
    path = (folder.resolve() / tree["path"]).resolve()
    return InitialModel(**(tree | {"path": path}))
