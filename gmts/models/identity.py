"""What a model folder is, in hashes: its weights, and everything else that changes its behaviour.

Loads no engine, so that the command line can ask at once whether a folder has changed.
"""

import json
from pathlib import Path

from gmts.files import file_sha256, folder_sha256, text_sha256
from gmts.models.card import CARD

_WEIGHTS = "*.safetensors"
_NOT_SETTINGS = (".safetensors", ".bin", ".md", ".gitattributes")


def weights_sha256(folder: Path) -> str:
    """Return one sha256 over the names and bytes of the folder's safetensors files.

    Raises:
        ValueError: If it has none.
    """
    return folder_sha256(folder, _WEIGHTS)


def settings_sha256(folder: Path) -> str:
    """Return one sha256 over the folder's config, tokenizer and template files.

    Left out are weights, words for people, hidden files, and the card that gmts wrote: the same
    policy saved at another step behaves alike.
    """
    names = sorted(
        file.name
        for file in folder.iterdir()
        if file.is_file()
        and file.suffix not in _NOT_SETTINGS
        and file.name != CARD
        and not file.name.startswith(".")
    )
    return text_sha256(json.dumps({name: file_sha256(folder / name) for name in names}))
