"""Which special methods of a solution's objects the tests may use, and how they are performed."""

import asyncio
import functools
import types
from collections import deque
from collections.abc import Callable
from typing import Any

_HARMLESS = (
    "__len__ __iter__ __next__ __reversed__ __getitem__ __setitem__ __delitem__ __call__ __enter__ "
    "__exit__ __hash__ __bool__ __str__ __repr__ __format__ __int__ __float__ __complex__ "
    "__index__ __abs__ __neg__ __pos__ __invert__ __round__ __ceil__ __floor__ __trunc__ "
    "__bytes__"
)
ALWAYS = frozenset(_HARMLESS.split())
"""Special methods that see nothing which an expected value could be read from."""

_OPERATORS = "add sub mul truediv floordiv mod divmod pow matmul and or xor lshift rshift"
OF_NAMED_CLASSES = frozenset(
    ["__contains__", "__lt__", "__le__", "__gt__", "__ge__"]
    + [f"__{prefix}{name}__" for name in _OPERATORS.split() for prefix in ("", "r", "i")]
)
"""Only for classes that the tests name: their operators are what is tested. Elsewhere an object
with `x - expected == 0` or `expected in x` for every x would stand for every number or list."""

FUNCTION_KINDS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodWrapperType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    functools.partial,
    type(functools.lru_cache(lambda: None)),
)

BUILTIN_BASES: dict[type, Callable[[Any], Any]] = {
    int: int.__int__,
    float: float.__float__,
    complex: complex.__pos__,
    str: str.__str__,
    bytes: lambda value: bytes.__add__(value, b""),
    tuple: lambda value: tuple.__getitem__(value, slice(None)),
    list: list.copy,
    dict: lambda value: dict(dict.items(value)),
    set: lambda value: set(set.__iter__(value)),
    frozenset: lambda value: frozenset(frozenset.__iter__(value)),
    deque: lambda value: deque(deque.__iter__(value), value.maxlen),
}
"""How the plain value of an instance of a subclass is read past the methods that it overrides."""


def class_specials(cls: type) -> list[str]:
    """Return the special methods that `cls` has beyond object's."""
    known = ALWAYS | OF_NAMED_CLASSES
    found: dict[str, Any] = {}
    for base in cls.__mro__:
        if base in (object, type):
            continue
        for name in known & base.__dict__.keys():
            found.setdefault(name, base.__dict__[name])
    return sorted(name for name, value in found.items() if value is not None)


def perform(value: Any, name: str, args: tuple[Any, ...]) -> Any:
    """Call a special method as the interpreter does, on the type; `await` runs a coroutine."""
    if name == "await":
        return asyncio.run(value)
    if name not in ALWAYS and name not in OF_NAMED_CLASSES:
        raise TypeError(f"{name} is not performed for the other side")
    return getattr(type(value), name)(value, *args)
