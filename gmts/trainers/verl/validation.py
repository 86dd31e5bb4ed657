"""verl's own validation of an experiment; loads torch and Ray, which takes some seconds.

`python -m gmts.trainers.verl.validation` reads a JSON list of overrides and ends with code 2 and
verl's words if it refuses them: so it can run in another environment than the caller's.
"""

import json
import sys

from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config

from gmts.trainers.verl.compose import composed

_SECTIONS = ("actor_rollout_ref.actor", "actor_rollout_ref.rollout", "algorithm")
"""What verl reads into dataclasses, which check themselves."""

REFUSED = 2
"""Exit code."""


def validate(config: DictConfig) -> None:
    """Let verl check a composed configuration.

    Raises:
        ValueError: If verl refuses it; quotes verl.
    """
    try:
        validate_config(config, need_reference_policy(config), need_critic(config))
        for section in _SECTIONS:
            omega_conf_to_dataclass(OmegaConf.select(config, section))
    except (AssertionError, ValueError, TypeError, NotImplementedError, HydraException) as error:
        words = " ".join(str(error).split())
        raise ValueError(f"verl refuses the experiment, in its own words: {words}") from error


def main() -> int:
    """Validate the overrides on standard input."""
    try:
        validate(composed(json.load(sys.stdin)))
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
