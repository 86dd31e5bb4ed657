"""params.yaml must stay what it was while a run goes on.

DVC reads it again after a stage's command and would record the new values for the old result.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gmts.config import ConfigError, load_params


def check_unchanged(params: Mapping[str, Any], root: Path) -> None:
    """Compare params.yaml with the experiment that was started.

    Raises:
        ConfigError: If it says something else now.
    """
    if asdict(load_params(root / "params.yaml")) != dict(params):
        raise ConfigError(
            "params.yaml must not change while a run goes on, got other values than the run "
            "started with: run again for the new ones"
        )
