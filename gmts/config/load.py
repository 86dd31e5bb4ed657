"""Reading and hashing params.yaml."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from gmts.config.checks import check
from gmts.config.errors import ConfigError, describe
from gmts.config.schema import SCHEMA_VERSION, Judging, Params
from gmts.rewards.config import RewardsConfig

_ADAPTER = TypeAdapter(Params)
_JUDGING = TypeAdapter(Judging)


def load_params(path: Path) -> Params:
    """Read and validate `path`.

    Raises:
        ConfigError: If the file is absent or not YAML, or a key is unknown, missing, of the wrong
            type or out of range; every broken rule is named.
    """
    return parse_params(read_yaml(path))


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file, as plain Python values.

    Raises:
        ConfigError: If the file cannot be read or holds no mapping.
    """
    try:
        return parse_yaml(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not valid YAML: {error}") from error


def parse_yaml(text: str, name: str = "params.yaml") -> dict[str, Any]:
    """Return the mapping in YAML text, as plain Python values.

    Raises:
        ConfigError: If it is not YAML or holds no mapping; the message names it `name`.
    """
    try:
        tree = YAML(typ="safe").load(text)
    except YAMLError as error:
        raise ConfigError(f"{name} is not valid YAML: {error}") from error
    if not isinstance(tree, dict):
        raise ConfigError(f"{name} must hold a mapping of keys to values, got {tree!r}")
    return tree


def parse_params(tree: Mapping[str, Any]) -> Params:
    """Validate a parsed params.yaml.

    Raises:
        ConfigError: As `load_params`.
    """
    version = tree.get("schema_version")
    if version != SCHEMA_VERSION:
        raise ConfigError(
            f"schema_version must be {SCHEMA_VERSION}, got {version!r}: this params.yaml was "
            "written for another version of gmts; start again from a preset with "
            "`gmts config use PRESET` and re-apply your changes"
        )
    try:
        # As JSON, where a list may stand for a tuple although types are strict.
        params = _ADAPTER.validate_json(json.dumps(tree, default=str))
    except ValidationError as error:
        raise ConfigError(describe(error.errors(), Params)) from error
    problems = check(params)
    if problems:
        raise ConfigError("\n".join(problems))
    return params


def parse_rewards(tree: Mapping[str, Any]) -> RewardsConfig:
    """Validate a `rewards` section by itself, e.g. the one that results record.

    Raises:
        ConfigError: If a key is unknown, missing, of the wrong type or out of range.
    """
    try:
        return _JUDGING.validate_json(json.dumps({"rewards": dict(tree)})).rewards
    except ValidationError as error:
        raise ConfigError(describe(error.errors(), Judging)) from error


def params_hash(params: Params, sections: Sequence[str] | None = None) -> str:
    """Return the sha256 of the canonical JSON of `params`, or of some top-level `sections`."""
    tree = asdict(params)
    if sections is not None:
        tree = {name: tree[name] for name in sections}
    text = json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
