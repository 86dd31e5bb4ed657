"""The tests' end of the conversation: makes stand-ins, and shows the solution as little as it can.

What the tests hand to the solution is there to be used: functions can be called, instances of the
tests' own classes have their public attributes. Nothing leads from there to the tests' source,
frames or globals.
"""

import builtins
import io
import re
import sys
import types
from collections.abc import Iterator
from typing import Any
from unittest import mock

from gmts.rewards.guest.channel import Channel
from gmts.rewards.guest.mirrors import (
    Mirror,
    MirrorFunction,
    MirrorMeta,
    is_stand_in_error,
    make_class,
    make_error,
    remote_coroutine,
    remote_generator,
)
from gmts.rewards.guest.peer import Peer, rebuild_builtin_error
from gmts.rewards.guest.specials import FUNCTION_KINDS, class_specials, perform
from gmts.rewards.guest.wire import Wire

_CLASS_NAME = re.compile(r"[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*|[A-Z]+")
TEST_MODULES = frozenset({"test_solution", "tests"})
"""Names under which the tests run (gmts.rewards.guest.testbed)."""


class TestsSide:
    """Loads a solution in its process and brings its names here."""

    __test__ = False

    def __init__(self, descriptor: int) -> None:
        """Converse over the socket `descriptor`."""
        self._wire = Wire(0, self._export, self._adopt)
        self.peer = Peer(
            Channel(descriptor),
            self._wire,
            {
                "print": _print,
                "input": lambda prompt: builtins.input(prompt),
                "callback": self._callback,
                "test_special": self._special,
                "test_get": self._get,
                "test_set": self._set,
                "rebuild_error": _rebuild_error,
            },
        )
        self._function_class = make_class_of(self.peer, "function", MirrorFunction, [])
        self._classes: dict[str, type] = {}

    def load(self, source: str) -> None:
        """Run the solution.

        Raises:
            BaseException: What it raises.
        """
        self.peer.request("load", source)

    def names(self, names: list[str], *, names_classes: bool) -> dict[str, Any]:
        """Return those of `names` that the solution defines.

        A class whose name is written as one gets its operators too, where the tests mean classes by
        such names (`names_classes`).
        """
        values = self.peer.request("names", names)
        if not isinstance(values, dict):
            return {}
        for name, value in values.items():
            if names_classes and isinstance(value, MirrorMeta) and _CLASS_NAME.fullmatch(str(name)):
                value._named = True
        return {name: value for name, value in values.items() if name in names}

    def module(self, star_names: list[str]) -> types.ModuleType:
        """Return a module `solution` that fetches its names; `import *` gives `star_names`."""
        side = self

        class SolutionModule(types.ModuleType):
            def __getattr__(self, name: str) -> Any:
                if name.startswith("__"):
                    raise AttributeError(name)
                found = side.names([name], names_classes=True)
                if name not in found:
                    raise AttributeError(f"the solution defines no {name!r}")
                return found[name]

        module = SolutionModule("solution")
        module.__dict__["__all__"] = star_names
        return module

    def _adopt(self, key: int, description: list[Any]) -> Any:
        tag = description[0]
        if tag == "class":
            bases = [self._wire.decode(node) for node in description[2]]
            return make_class(self.peer, description[1:], bases)
        if tag == "function":
            return object.__new__(self._function_class)
        if tag in _LAZY:
            source: Mirror = object.__new__(make_class_of(self.peer, tag, Mirror, []))
            self._wire.alias(key, source)
            return _LAZY[tag](source)
        _, class_node, name, specials = description
        cls = self._wire.decode(class_node)
        if cls is None:
            cls = self._classes.get(name)
            if cls is None:
                cls = self._classes[name] = make_class_of(self.peer, name, Mirror, specials)
        if not isinstance(cls, MirrorMeta):
            raise TypeError(f"{cls!r} is no class of the solution")
        return object.__new__(cls)  # type: ignore[arg-type]

    def _export(self, value: Any) -> list[Any]:
        """Describe one of the tests' objects to the solution."""
        kind = type(value)
        if kind in FUNCTION_KINDS or isinstance(value, type):
            return ["function"]
        if _has_attributes(value) or isinstance(value, Iterator):
            return ["object", class_specials(kind)]
        raise TypeError(f"a {kind.__module__}.{kind.__name__} cannot be handed to the solution")

    def _callback(self, key: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        function = self._wire.object_of(key)
        if not (type(function) in FUNCTION_KINDS or isinstance(function, type)):
            raise TypeError("no function of the tests")
        return function(*args, **kwargs)

    def _special(self, key: int, name: str, args: tuple[Any, ...]) -> Any:
        value = self._wire.object_of(key)
        if not (_has_attributes(value) or isinstance(value, Iterator)):
            raise TypeError("no object of the tests")
        return perform(value, name, args)

    def _get(self, key: int, name: str) -> Any:
        return getattr(self._usable(key, name), name)

    def _set(self, key: int, name: str, value: Any) -> None:
        setattr(self._usable(key, name), name, value)

    def _usable(self, key: int, name: str) -> Any:
        value = self._wire.object_of(key)
        if not isinstance(name, str) or name.startswith("_") or not _has_attributes(value):
            raise AttributeError(name)
        return value


def make_class_of(peer: Peer, name: str, base: type, specials: list[str]) -> type:
    """Return a stand-in class for objects whose class does not travel."""
    cls = make_class(peer, [name, [], specials, [], [False, False]], [])
    if base is Mirror:
        return cls
    return MirrorMeta(name, (base,), {"__slots__": (), "_peer": peer, "_specials": frozenset()})


def _has_attributes(value: Any) -> bool:
    """Whether the solution may use the public attributes: nothing there leads to the tests."""
    kind = type(value)
    return kind.__module__ in TEST_MODULES or isinstance(
        value, io.StringIO | io.BytesIO | mock.NonCallableMock
    )


def _print(text: Any) -> None:
    if isinstance(text, str):
        sys.stdout.write(text)


def _rebuild_error(kind: Any, args: Any, text: Any, remote: Any) -> BaseException:
    if isinstance(remote, Mirror) and is_stand_in_error(kind):
        return make_error(kind, list(args), str(text), remote)
    return rebuild_builtin_error(kind, list(args), str(text))


_LAZY = {"generator": remote_generator, "coroutine": remote_coroutine}
