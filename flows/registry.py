"""Stage flows by name; only the one asked for is imported."""

import importlib
from typing import Any


def stage_flow(name: str) -> Any:
    """Return the Prefect flow of the stage `name`."""
    return getattr(importlib.import_module(f"flows.{name}"), name)
