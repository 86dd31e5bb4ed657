"""Values in the grammar of Hydra's overrides."""

import re
from collections.abc import Mapping
from typing import Any


def hydra_value(value: Any) -> str:
    """Return `value` in Hydra's grammar, text always quoted."""
    if value is None:
        return "null"
    if isinstance(value, str):
        # Backslashes are taken literally, except before a quote.
        return "'" + re.sub(r"(\\*)('|\Z)", _escape_quote, value) + "'"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{hydra_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(hydra_value, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _escape_quote(match: re.Match[str]) -> str:
    quote = r"\'" if match[2] else ""
    return match[1] * 2 + quote
