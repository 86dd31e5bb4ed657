"""Which work pool a stage belongs to, and which pools this machine serves."""

import os
from pathlib import Path

from gmts.config import ConfigError
from gmts.config.load import read_yaml

POOLS = ("cpu", "gpu")
"""The work pools; docs/orchestration.md says how to serve them elsewhere than in processes."""

POOLS_VARIABLE = "GMTS_POOLS"
"""Environment variable: the pools of this machine, separated by commas; every pool if not set."""


def pools_here() -> frozenset[str]:
    """Return the pools that this machine serves.

    Raises:
        ConfigError: If GMTS_POOLS names a pool that there is not.
    """
    text = os.environ.get(POOLS_VARIABLE)
    if text is None:
        return frozenset(POOLS)
    pools = frozenset(name.strip() for name in text.split(","))
    if not pools <= set(POOLS):
        raise ConfigError(
            f"{POOLS_VARIABLE} must be pools out of {', '.join(POOLS)}, separated by commas, "
            f"got {text!r}"
        )
    return pools


def stage_pool(stage: str, root: Path) -> str:
    """Return the pool that prefect.yaml deploys the stage to.

    Raises:
        ConfigError: If prefect.yaml cannot be read, or has no deployment of that name on a pool.
    """
    file = root / "prefect.yaml"
    for deployment in read_yaml(file).get("deployments") or []:
        if deployment.get("name") == stage:
            pool = str((deployment.get("work_pool") or {}).get("name"))
            if pool in POOLS:
                return pool
            raise ConfigError(
                f"work_pool.name of deployment {stage} in {file} must be one of "
                f"{', '.join(POOLS)}, got {pool!r}"
            )
    raise ConfigError(f"{file} must have a deployment named {stage}, got none")


def is_elsewhere(stage: str, root: Path) -> bool:
    """Tell whether the stage belongs to a pool that this machine does not serve."""
    return POOLS_VARIABLE in os.environ and stage_pool(stage, root) not in pools_here()


def check_here(stage: str, root: Path) -> None:
    """See that this machine serves the stage's pool.

    Raises:
        ConfigError: If it does not.
    """
    if is_elsewhere(stage, root):
        raise ConfigError(
            f"stage {stage} must run on pool {stage_pool(stage, root)}, got a machine that serves "
            f"{', '.join(sorted(pools_here()))} ({POOLS_VARIABLE}): run `python -m flows "
            "pipeline`, which sends it there"
        )
