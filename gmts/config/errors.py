"""Validation errors in the words of params.yaml: key, rule, value, valid choices."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic_core import ErrorDetails

_BOUNDS = {
    "greater_than": ("gt", ">"),
    "greater_than_equal": ("ge", ">="),
    "less_than": ("lt", "<"),
    "less_than_equal": ("le", "<="),
}


class ConfigError(ValueError):
    """Bad input to a command: every broken rule, one per line."""


def describe(errors: Sequence[ErrorDetails], root: type) -> str:
    """Return one line per error, `key must be RULE, got VALUE`."""
    return "\n".join(_line(error, root) for error in errors)


def _line(error: ErrorDetails, root: type) -> str:
    path = [part for part in error["loc"] if isinstance(part, str) and "[" not in part]
    key = ".".join(path) or "params.yaml"
    value = error["input"]
    kind = error["type"]
    if kind in ("unexpected_keyword_argument", "extra_forbidden"):
        valid = _keys_of(root, path[:-1])
        close = difflib.get_close_matches(path[-1], valid, n=1)
        hint = f"; did you mean {'.'.join([*path[:-1], close[0]])}?" if close else ""
        return f"{key} is not a known key{hint} (valid here: {', '.join(valid)})"
    if kind in ("missing", "missing_argument"):
        return f"{key} is missing: params.yaml names every value of the experiment"
    if kind == "value_error":
        return str(error.get("ctx", {}).get("error", error["msg"]))
    return f"{key} must be {_rule(error, root, path)}, got {_show(value)}"


def _rule(error: ErrorDetails, root: type, path: Sequence[str]) -> str:
    context = error.get("ctx", {})
    if error["type"] == "literal_error":
        return f"one of {context['expected']}"
    if error["type"] in _BOUNDS or error["type"] == "finite_number":
        interval = bounds_of(_annotation(root, path))
        if interval:
            return interval
    if error["type"] in _BOUNDS:
        name, sign = _BOUNDS[error["type"]]
        return f"{sign} {context[name]}"
    return {
        "float_type": "a number",
        "finite_number": "a finite number",
        "int_type": "a whole number",
        "int_from_float": "a whole number",
        "bool_type": "true or false",
        "string_type": "text",
        "dataclass_type": "a mapping of keys to values",
        "dict_type": "a mapping of keys to values",
        "tuple_type": "a list",
    }.get(error["type"], error["msg"])


def _show(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value)


def _annotation(root: type, path: Sequence[str]) -> Any:
    """Return the annotation of the field at `path`, with its metadata, or None."""
    here: Any = root
    for name in path:
        if not is_dataclass(here):
            return None
        here = get_type_hints(here, include_extras=True).get(name)
        bare = get_args(here)[0] if get_origin(here) is Annotated else here
        if is_dataclass(bare):
            here = bare
    return here


def _keys_of(root: type, path: Sequence[str]) -> list[str]:
    section = _annotation(root, path)
    return [field.name for field in fields(section)] if is_dataclass(section) else []


def bounds_of(annotation: Any) -> str:
    """Return the interval that an annotated number lies in, e.g. `in (0, 1]`; "" without bounds."""
    if get_origin(annotation) is not Annotated:
        return ""
    bare, *metadata = get_args(annotation)
    limits: dict[str, Any] = {}
    for item in metadata:
        for name in ("gt", "ge", "lt", "le"):
            if getattr(item, name, None) is not None:
                limits[name] = getattr(item, name)
    low = limits.get("gt", limits.get("ge"))
    high = limits.get("lt", limits.get("le"))
    if low is None and high is None:
        return ""
    if low is not None and high is not None:
        left, right = "(" if "gt" in limits else "[", ")" if "lt" in limits else "]"
        text = f"{low}" if low == high else f"in {left}{low}, {high}{right}"
    elif low is not None:
        text = f"{'>' if 'gt' in limits else '>='} {low}"
    else:
        text = f"{'<' if 'lt' in limits else '<='} {high}"
    return f"{text} or null" if _optional(bare) else text


def _optional(annotation: Any) -> bool:
    return type(None) in get_args(annotation) and (
        get_origin(annotation) is Union or "|" in str(annotation)
    )


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return `tree` as dotted keys; lists and empty mappings are leaves."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{key}.")
        else:
            flat[key] = value
    return flat
