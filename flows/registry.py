"""Stage flows by name; only the one asked for is imported."""

import importlib
from typing import Any

from flows.roster import enroll


def stage_flow(name: str) -> Any:
    """Return the Prefect flow of the stage `name`, which holds its place in the roster."""
    found = getattr(importlib.import_module(f"flows.{name}"), name)
    return found.with_options(on_running=[enroll])
