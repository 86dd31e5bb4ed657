"""The folder of shared data that lies beside the repository, or where GMTS_SHARED says."""

import os
from pathlib import Path

import pytest

_FOLDER = Path(os.environ.get("GMTS_SHARED", Path(__file__).resolve().parents[2].parent / "shared"))


def shared_file(name: str) -> Path:
    """Return a file of shared data, or skip the test where there is none."""
    path = _FOLDER / name
    if not path.is_file():
        pytest.skip(f"shared data is not there: {path.name}")
    return path
