"""gmts.json: what a model folder that gmts wrote says about itself. Reading it loads no engine."""

from pathlib import Path
from typing import Any

from gmts.files import read_json

CARD = "gmts.json"
CARD_VERSION = 1


def read_model_card(folder: Path) -> dict[str, Any]:
    """Return gmts.json of a folder that gmts wrote.

    Raises:
        ValueError: If it is missing, or was written for another version of gmts.
    """
    card: dict[str, Any] = read_json(folder / CARD)
    version = card.get("schema_version") if isinstance(card, dict) else None
    if version != CARD_VERSION:
        raise ValueError(
            f"{folder / CARD}: schema_version must be {CARD_VERSION}, got {version!r}: the folder "
            "was written by another version of gmts; train or warm-start it again"
        )
    return card
