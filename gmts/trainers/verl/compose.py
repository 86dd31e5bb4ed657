"""Hydra overrides to verl's configuration, without loading verl, torch or Ray."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

_CONFIG = "ppo_trainer"


def config_dir() -> Path:
    """Return the folder of the installed verl's configuration files, without importing verl.

    Raises:
        ValueError: If verl is not installed in this environment.
    """
    found = importlib.util.find_spec("verl")
    if found is None or found.origin is None:
        raise ValueError(
            "train.backend verl needs the package verl, which is not installed here: "
            "`pip install -c constraints/cpu.txt 'gmts[verl]'`, or on GPUs see docs/gpu.md"
        )
    return Path(found.origin).parent / "trainer" / "config"


def composed(overrides: Sequence[str]) -> DictConfig:
    """Return verl's configuration with `overrides`, interpolations resolved; torch is not loaded.

    Raises:
        ValueError: If verl has no such setting or it cannot hold the value; quotes Hydra.
    """
    try:
        with initialize_config_dir(str(config_dir()), version_base=None):
            config = compose(_CONFIG, overrides=list(overrides))
        resolved = OmegaConf.to_container(config, resolve=True)
    except (HydraException, OmegaConfBaseException) as error:
        words = " ".join(" ".join(str(e).split()) for e in (error, error.__cause__) if e)
        raise ValueError(
            f"verl's configuration refuses an override, in Hydra's words: {words}"
        ) from error
    assert isinstance(resolved, dict)
    return OmegaConf.create(resolved)
