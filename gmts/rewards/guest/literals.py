"""Immutable values of known types as tagged lists, and back.

A plain JSON scalar stands for itself; everything else is [tag, ...]. Only the exact types listed
here are taken by value: an instance of a subclass could lie about itself, so it stays where it is.
"""

import base64
import builtins
import math
import sys
from collections.abc import Callable
from typing import Any

Node = Any
"""A JSON value."""
Recurse = Callable[[Any], Any]

_LONGEST_PLAIN_INT_BITS = 8192  # beyond some 4,300 digits Python refuses to print an int in decimal

_FUNCTIONS = (
    "abs all any ascii bin callable chr divmod format hash hex id isinstance issubclass iter len "
    "max min next oct ord pow repr round sorted sum"
)
_NAMED_BUILTINS = frozenset(
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and not name.startswith("_")
) | frozenset(_FUNCTIONS.split())
"""Builtin types and harmless builtin functions travel by name."""


class LiteralError(Exception):
    """What arrived stands for no value."""


def encode_scalar(value: Any) -> Node | None:
    """Return the node of a number, text or name; None if `value` is none of these."""
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        return value if value.bit_length() < _LONGEST_PLAIN_INT_BITS else ["i", hex(value)]
    if kind is float:
        return value if math.isfinite(value) else ["f", repr(value)]
    return None


def encode_immutable(value: Any, encode: Recurse) -> Node | None:
    """Return the node of a composite or rarer immutable value; None if it is of no known type."""
    kind = type(value)
    writer = _WRITERS.get(kind)
    if writer is not None:
        return writer(value, encode)
    if kind is type(len) or isinstance(value, type):
        name = getattr(value, "__name__", None)
        if name in _NAMED_BUILTINS and getattr(builtins, str(name)) is value:
            return ["bi", name]
        return None
    name = (kind.__module__, kind.__qualname__)
    rare = _RARE.get(name)
    if rare is not None and getattr(sys.modules.get(name[0]), name[1], None) is kind:
        return [rare[0], [encode(part) for part in rare[1](value)]]
    return _encode_numpy(value, encode) if kind.__module__ == "numpy" else None


def decode(node: Node, decode_part: Recurse) -> Any:
    """Return the value of a node that encode_scalar or encode_immutable made.

    Raises:
        LiteralError: If the node stands for no value.
    """
    if not isinstance(node, list):
        return node
    try:
        return _READERS[node[0]](node[1:], decode_part)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise LiteralError(f"no value: {str(node)[:80]}") from error


def _list_of(part: Recurse, nodes: Node) -> list[Any]:
    if not isinstance(nodes, list):
        raise LiteralError("no list of values")
    return [part(node) for node in nodes]


def _encode_numpy(value: Any, encode: Recurse) -> Node | None:
    numpy = sys.modules["numpy"]
    if type(value) is numpy.ndarray:
        if value.dtype.kind not in "biufcUSO":
            return None
        flat = [encode(item) for item in value.ravel().tolist()]
        return ["nd", value.dtype.str, list(value.shape), flat]
    if isinstance(value, numpy.generic) and value.dtype.kind in "biufcUS":
        return ["ns", value.dtype.str, encode(value.item())]
    return None


def _decode_array(parts: Node, part: Recurse) -> Any:
    import numpy  # noqa: PLC0415 (loaded only when an array arrives)

    dtype, shape, items = parts
    flat = numpy.empty(len(items), dtype=numpy.dtype(dtype))
    flat[:] = _list_of(part, items)
    return flat.reshape(shape)


def _decode_numpy_scalar(parts: Node, part: Recurse) -> Any:
    import numpy  # noqa: PLC0415 (as above)

    return numpy.dtype(parts[0]).type(part(parts[1]))


def _decode_builtin(parts: Node, part: Recurse) -> Any:
    if parts[0] not in _NAMED_BUILTINS:
        raise LiteralError(f"no builtin that travels: {parts[0]}")
    return getattr(builtins, parts[0])


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


_WRITERS: dict[type, Callable[[Any, Recurse], Node]] = {
    complex: lambda value, _: ["c", repr(value.real), repr(value.imag)],
    bytes: lambda value, _: ["b", _b64(value)],
    tuple: lambda value, encode: ["t", [encode(item) for item in value]],
    frozenset: lambda value, encode: ["fs", [encode(item) for item in value]],
    range: lambda value, _: ["r", value.start, value.stop, value.step],
    slice: lambda value, encode: ["sl", [encode(x) for x in (value.start, value.stop, value.step)]],
    type(Ellipsis): lambda value, _: ["..."],
    type(NotImplemented): lambda value, _: ["ni"],
    type({}.keys()): lambda value, encode: ["dk", [encode(item) for item in value]],
    type({}.values()): lambda value, encode: ["dv", [encode(item) for item in value]],
    type({}.items()): lambda value, encode: ["di", [encode(item) for item in value]],
}

_RARE: dict[tuple[str, str], tuple[str, Callable[[Any], Any]]] = {
    ("decimal", "Decimal"): ("decimal", lambda value: (str(value),)),
    ("fractions", "Fraction"): ("fraction", lambda value: (value.numerator, value.denominator)),
    ("datetime", "date"): ("date", lambda value: (value.isoformat(),)),
    ("datetime", "time"): ("time", lambda value: (value.isoformat(),)),
    ("datetime", "datetime"): ("datetime", lambda value: (value.isoformat(),)),
    ("datetime", "timedelta"): (
        "timedelta",
        lambda value: (value.days, value.seconds, value.microseconds),
    ),
    ("uuid", "UUID"): ("uuid", lambda value: (value.hex,)),
}


def _rare_reader(module: str, *names: str) -> Callable[[Node, Recurse], Any]:
    """Reads one of _RARE by calling module.names... with what was written."""

    def read(parts: Node, part: Recurse) -> Any:
        maker = __import__(module)
        for name in names:
            maker = getattr(maker, name)
        return maker(*_list_of(part, parts[0]))  # type: ignore[operator]

    return read


_READERS: dict[str, Callable[[Node, Recurse], Any]] = {
    "i": lambda parts, part: int(parts[0], 16),
    "f": lambda parts, part: float(parts[0]),
    "c": lambda parts, part: complex(float(parts[0]), float(parts[1])),
    "b": lambda parts, part: base64.b64decode(parts[0], validate=True),
    "t": lambda parts, part: tuple(_list_of(part, parts[0])),
    "fs": lambda parts, part: frozenset(_list_of(part, parts[0])),
    "r": lambda parts, part: range(*parts),
    "sl": lambda parts, part: slice(*_list_of(part, parts[0])),
    "...": lambda parts, part: ...,
    "ni": lambda parts, part: NotImplemented,
    "dk": lambda parts, part: dict.fromkeys(_list_of(part, parts[0])).keys(),
    "dv": lambda parts, part: dict(enumerate(_list_of(part, parts[0]))).values(),
    "di": lambda parts, part: dict(_list_of(part, parts[0])).items(),
    "bi": _decode_builtin,
    "nd": _decode_array,
    "ns": _decode_numpy_scalar,
    "decimal": _rare_reader("decimal", "Decimal"),
    "fraction": _rare_reader("fractions", "Fraction"),
    "date": _rare_reader("datetime", "date", "fromisoformat"),
    "time": _rare_reader("datetime", "time", "fromisoformat"),
    "datetime": _rare_reader("datetime", "datetime", "fromisoformat"),
    "timedelta": _rare_reader("datetime", "timedelta"),
    "uuid": _rare_reader("uuid", "UUID"),
}
