"""What a run's form asks for, and how the answers become params.yaml."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from prefect import get_run_logger
from pydantic import Field

from gmts.config import ConfigError, load_params
from gmts.config.presets import change, preset_names, render_preset, render_tree, write_params

# What each answer means is in the docstrings of the flows: the form takes it from there.
Target = Literal["prepare", "warmstart", "train", "evaluate", "report", "publish"]
CURRENT = "params.yaml"
"""In place of a preset: the experiment that the clone has."""
Preset = Annotated[
    str,
    Field(json_schema_extra={"enum": [CURRENT, *preset_names(Path(__file__).parents[1])]}),
]
Overrides = list[str]
Seed = Annotated[int | None, Field(ge=0)]


def write_experiment(
    root: Path,
    preset: str,
    overrides: Sequence[str],
    seed: int | None,
    params: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write params.yaml in the clone, log what changes, and return the complete experiment.

    Args:
        root: The clone.
        preset: A preset to start from, or CURRENT for params.yaml as it is.
        overrides: Changes, each `key=value`.
        seed: The seed, or None to leave it.
        params: The complete experiment, in place of all of these.

    Raises:
        ConfigError: If it is not valid, or both `params` and something else is given; nothing is
            written then.
    """
    changes = [*overrides, *([] if seed is None else [f"seed={seed}"])]
    if params is not None:
        if preset != CURRENT or changes:
            raise ConfigError("params must be given without preset, overrides and seed, got both")
        text = render_tree(root, params)
    elif preset == CURRENT and not changes:
        return asdict(load_params(root / "params.yaml"))
    else:
        text = change(root, changes) if preset == CURRENT else render_preset(root, preset, changes)
    if difference := write_params(root, text):
        get_run_logger().info("params.yaml changes:\n%s", difference)
    return asdict(load_params(root / "params.yaml"))
