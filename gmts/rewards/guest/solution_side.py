"""The solution's process: runs the solution and does what the tests ask of its objects.

It never sees the tests: only the arguments that they hand over. Everything here shares the process
with the solution and so proves nothing; what it answers is judged on the tests' side.
"""

import builtins
import os
import sys
import types
from collections.abc import Callable
from typing import Any

from gmts.rewards.guest.channel import Channel
from gmts.rewards.guest.peer import Peer, rebuild_builtin_error
from gmts.rewards.guest.script import run_script
from gmts.rewards.guest.specials import BUILTIN_BASES, FUNCTION_KINDS, class_specials, perform
from gmts.rewards.guest.wire import Wire

_MAX_OUTPUT = 1 << 20


def main(arguments: list[str]) -> None:
    """Serve the tests' side on the socket of this number until it goes away."""
    SolutionSide(int(arguments[0])).serve()


class SolutionSide:
    """Holds the solution's module and serves requests about its objects."""

    def __init__(self, descriptor: int) -> None:
        """Converse over the socket `descriptor`."""
        self._descriptor = descriptor
        self._module = types.ModuleType("solution")
        self._output = Output()
        self._program: str | None = None
        self._wire = Wire(1, self._export, self._adopt)
        handlers: dict[str, Callable[..., Any]] = {
            "script": self._script,
            "load": self._load,
            "names": self._names,
            "get": self._with_output(getattr),
            "set": self._with_output(setattr),
            "delete": self._with_output(delattr),
            "call": self._with_output(lambda function, args, kwargs: function(*args, **kwargs)),
            "special": self._with_output(perform),
            "state": self._state,
            "rebuild_error": lambda kind, args, text, error: rebuild_builtin_error(
                kind, args, text
            ),
        }
        self._peer = Peer(Channel(descriptor), self._wire, handlers)

    def serve(self) -> None:
        """Serve until the other side goes away; the solution may have left threads behind."""
        self._peer.serve_forever()
        if self._program is not None:
            run_script(self._descriptor, self._program)
        os._exit(0)

    def _with_output(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Answer with what the function printed, too: the tests may look at it."""

        def serve(*values: Any) -> Any:
            try:
                result: Any = function(*values)
            except BaseException:
                self._peer_prints()
                raise
            self._peer_prints()
            return result

        return serve

    def _peer_prints(self) -> None:
        text = self._output.take()
        if text:
            self._peer.request("print", text)

    def _script(self, source: str) -> None:
        """Stop serving: a program owns its process, how it ends included."""
        self._program = source
        self._peer.stopped = True

    def _load(self, source: str) -> None:
        sys.modules["solution"] = self._module
        sys.stdout = self._output
        builtins.input = lambda prompt="", /: self._peer.request("input", str(prompt))
        code = compile(source, "solution.py", "exec", dont_inherit=True)
        self._with_output(exec)(code, self._module.__dict__)

    def _names(self, names: list[str]) -> dict[str, Any]:
        """Those of `names` that the solution defines."""
        space = self._module.__dict__
        return {name: space[name] for name in names if name in space}

    def _state(self, value: Any) -> tuple[Any, dict[str, Any]]:
        """What a comparison on the other side goes by: (value of a builtin base, attributes)."""
        kind = type(value)
        literal = next((base for base in BUILTIN_BASES if issubclass(kind, base)), None)
        attributes = dict(getattr(value, "__dict__", {}))
        for cls in kind.__mro__:
            slots = cls.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if hasattr(value, name) and not name.startswith("__"):
                    attributes[name] = getattr(value, name)
        return (BUILTIN_BASES[literal](value) if literal else None), attributes

    def _export(self, value: Any) -> list[Any]:
        """Describe one of the solution's objects to the other side."""
        kind = type(value)
        if isinstance(value, type):
            return self._export_class(value)
        if kind in FUNCTION_KINDS:
            return ["function", getattr(value, "__name__", "function")]
        if kind is types.GeneratorType:
            return ["generator"]
        if kind is types.CoroutineType:
            return ["coroutine"]
        if getattr(builtins, kind.__name__, None) is kind or issubclass(kind, BaseException):
            # zip, object and so on; a class that travels by name or is one of exceptions there.
            return ["object", None, kind.__name__, class_specials(kind)]
        return ["object", self._wire.encode(kind), kind.__name__, []]

    def _export_class(self, cls: type) -> list[Any]:
        bases = [
            self._wire.encode(base)
            for base in cls.__bases__
            if base is not object
            and (base.__module__ != "builtins" or issubclass(base, BaseException))
        ]
        literal = any(issubclass(cls, base) for base in BUILTIN_BASES)
        own_equality = any("__eq__" in base.__dict__ for base in cls.__mro__[:-1])
        return [
            "class",
            cls.__name__,
            bases,
            class_specials(cls),
            class_specials(type(cls)) if type(cls) is not type else [],
            [literal, own_equality],
        ]

    def _adopt(self, key: int, description: list[Any]) -> Any:
        """Stand in for an object of the tests: functions can be called, objects used."""
        if description[0] == "function":
            return lambda *args, **kwargs: self._peer.request("callback", key, args, kwargs)
        return _stand_in(self._peer, key, description[1])


def _stand_in(peer: Peer, key: int, specials: list[str]) -> Any:
    """An object whose attributes and special methods are those of one of the tests' objects."""

    def special(name: str) -> Callable[..., Any]:
        return lambda self, *args: peer.request("test_special", key, name, args)

    members: dict[str, Any] = {name: special(name) for name in specials}
    members["__getattr__"] = lambda self, name: peer.request("test_get", key, name)
    members["__setattr__"] = lambda self, name, value: peer.request("test_set", key, name, value)
    return type("TestObject", (), members)()


class Output:
    """Standard output of the solution; what exceeds the limit is dropped."""

    encoding = "utf-8"
    errors = "strict"

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0

    def write(self, text: str) -> int:
        """Take text; more than a mebibyte between two answers is dropped."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if self._length < _MAX_OUTPUT:
            self._parts.append(text[: _MAX_OUTPUT - self._length])
            self._length += len(self._parts[-1])
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Take several texts."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Nothing is held back."""

    def isatty(self) -> bool:
        """It is no terminal."""
        return False

    def take(self) -> str:
        """Return what was written since the last call."""
        text = "".join(self._parts)
        self._parts.clear()
        self._length = 0
        return text
