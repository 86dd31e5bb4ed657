"""Presets in configs/, overrides on the command line, and where each value came from."""

import difflib
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from gmts.config.errors import ConfigError, flatten
from gmts.config.load import parse_params, parse_yaml, read_yaml
from gmts.files import write_atomic

_BASE = "base"
_WHOLE = ("data.task_options", "verl.overrides", "benchmarks")
"""Mappings that are replaced as a whole: another task has other options."""


def preset_names(root: Path) -> list[str]:
    """Return the presets in `root`/configs, sorted."""
    return sorted(file.stem for file in (root / "configs").glob("*.yaml") if file.stem != _BASE)


def render_preset(root: Path, preset: str, overrides: Sequence[str] = ()) -> str:
    """Return the complete params.yaml of a preset with overrides, with the comments of base.yaml.

    Args:
        root: A clone.
        preset: A name in configs/, or several joined by `+`: each changes what is left of it, and
            together they name the run.
        overrides: `key.path=value`, the value in YAML.

    Raises:
        ConfigError: If a preset, a key or a value is not valid; nothing is written.
    """
    tree = _round_trip().load((root / "configs" / f"{_BASE}.yaml").read_text(encoding="utf-8"))
    for key, value in (_preset_values(root, preset) | parse_overrides(overrides)).items():
        _assign(tree, key, value)
    tree["preset"] = preset
    parse_params(_plain(tree))
    return _dump(tree)


def render_tree(root: Path, tree: Mapping[str, Any]) -> str:
    """Return the complete params.yaml that says what `tree` says, with the comments of base.yaml.

    Raises:
        ConfigError: If the tree is not a valid experiment.
    """
    parse_params(tree)
    rendered = _round_trip().load((root / "configs" / f"{_BASE}.yaml").read_text(encoding="utf-8"))
    # Through JSON, so that a tuple becomes a list.
    for key, value in _leaves(json.loads(json.dumps(tree))).items():
        _assign(rendered, key, value)
    return _dump(rendered)


def change(root: Path, overrides: Sequence[str]) -> str:
    """Return `root`/params.yaml with overrides applied, comments kept.

    Raises:
        ConfigError: As `render_preset`.
    """
    read_yaml(root / "params.yaml")
    tree = _round_trip().load((root / "params.yaml").read_text(encoding="utf-8"))
    for key, value in parse_overrides(overrides).items():
        _assign(tree, key, value)
    parse_params(_plain(tree))
    return _dump(tree)


def write_params(root: Path, text: str) -> str:
    """Replace `root`/params.yaml, unless it says the same, and return the difference as text."""
    path = root / "params.yaml"
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    if old != text:
        write_atomic(path, text)
    lines = difflib.unified_diff(
        old.splitlines(), text.splitlines(), "params.yaml (before)", "params.yaml", lineterm="", n=0
    )
    return "\n".join(lines)


def origins(root: Path, tree: Mapping[str, Any]) -> dict[str, str]:
    """Return for each dotted key of `tree` where its value comes from.

    `base`, `preset NAME`, or `changed (NAME has VALUE)` where params.yaml departs from its preset.
    """
    preset = str(tree["preset"])
    own: set[str] = set()
    expected = flatten(read_yaml(root / "configs" / f"{_BASE}.yaml"))
    if preset != _BASE:
        own = {"preset"} | flatten(_preset_values(root, preset)).keys()
        expected = flatten(parse_yaml(render_preset(root, preset)))
    found = {}
    for key, value in flatten(tree).items():
        if key in expected and value == expected[key]:
            found[key] = f"preset {preset}" if key in own else "base"
        else:
            found[key] = f"changed ({preset} has {expected.get(key)!r})"
    return found


def changed_keys(root: Path, tree: Mapping[str, Any]) -> list[str]:
    """Return the dotted keys whose values depart from the preset that `tree` names."""
    return [key for key, origin in origins(root, tree).items() if origin.startswith("changed")]


def parse_overrides(overrides: Sequence[str]) -> dict[str, Any]:
    """Return `key.path=value` pairs as a mapping, values read as YAML.

    Raises:
        ConfigError: If an override has no `=`, or its value is not YAML.
    """
    parsed = {}
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key:
            raise ConfigError(f"an override must be key=value, got {override!r}")
        try:
            parsed[key] = YAML(typ="safe").load(text)
        except YAMLError as error:
            raise ConfigError(f"the value of {key} must be YAML, got {text!r}: {error}") from error
    return parsed


def _preset_values(root: Path, preset: str) -> dict[str, Any]:
    """Return what `preset` changes of base.yaml, by dotted keys."""
    names = preset.split("+")
    values: dict[str, Any] = {}
    for name in names:
        values |= _file_values(root, name, ())
    if len(names) > 1:
        values["name"] = "-".join(names)
    return values


def _file_values(root: Path, name: str, below: tuple[str, ...]) -> dict[str, Any]:
    """Return the values of one file over those of the files that it extends."""
    path = root / "configs" / f"{name}.yaml"
    if name == _BASE or not path.is_file():
        raise ConfigError(
            f"preset must be one of {', '.join(preset_names(root))}, or several of them joined by "
            f"+, got {name!r}"
        )
    if name in below:
        raise ConfigError(f"{path}: extends must not lead back to {name}, got {below}")
    tree = read_yaml(path)
    values: dict[str, Any] = {}
    for parent in tree.pop("extends", []):
        values |= _file_values(root, parent, (*below, name))
    return values | _leaves(tree)


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and key not in _WHOLE:
            leaves |= _leaves(value, f"{key}.")
        else:
            leaves[key] = value
    return leaves


def _assign(tree: Any, key: str, value: Any) -> None:
    *sections, name = key.split(".")
    here = tree
    for section in sections:
        below = here.get(section) if isinstance(here, Mapping) else None
        if not isinstance(below, Mapping):
            raise ConfigError(f"{key} is not a known key: there is no section {section}")
        here = below
    here[name] = value


def _plain(tree: Any) -> dict[str, Any]:
    plain: dict[str, Any] = YAML(typ="safe").load(_dump(tree))
    return plain


def _round_trip() -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    yaml.representer.add_representer(
        type(None), lambda dumper, _: dumper.represent_scalar("tag:yaml.org,2002:null", "null")
    )
    return yaml


def _dump(tree: Any) -> str:
    stream = io.StringIO()
    _round_trip().dump(tree, stream)
    return stream.getvalue()
