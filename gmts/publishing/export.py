"""The published folder."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from gmts.files import write_atomic, write_json
from gmts.publishing.card import model_card
from gmts.publishing.manifest import MANIFEST, Lineage, folder_manifest

_REQUIRED = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")


def export(
    model_dir: Path, folder: Path, lineage: Lineage, *, license_name: str, extra: Sequence[Path]
) -> None:
    """Fill the existing, empty `folder` with the model, its card, its manifest and `extra` files.

    Raises:
        ValueError: If the model folder lacks a file that loading needs; the message names it.
    """
    for name in _REQUIRED:
        if not (model_dir / name).is_file():
            raise ValueError(f"{model_dir} must hold {name}; run the train stage again")
    if not list(model_dir.glob("*.safetensors")):
        raise ValueError(f"{model_dir} must hold its weights as safetensors; run train again")
    for file in sorted(model_dir.iterdir()):
        shutil.copy2(file, folder / file.name)
    for file in extra:
        shutil.copy2(file, folder / file.name)
    write_atomic(folder / "README.md", model_card(lineage, license_name=license_name))
    write_json(folder / MANIFEST, folder_manifest(folder, lineage))
