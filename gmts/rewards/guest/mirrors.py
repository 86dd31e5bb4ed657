"""The tests' side of a solution's objects: stand-ins that ask, but compare here.

No code of the solution runs in this process. An object is equal to nothing but itself, or, where
its class defines equality, to an object of the same class with the same attributes; both are found
out here, from values, so an object that claims to equal everything equals nothing.
"""

from collections.abc import Callable, Generator
from typing import Any

from gmts.rewards.guest.peer import Peer
from gmts.rewards.guest.specials import ALWAYS, OF_NAMED_CLASSES

_NAMES = (
    "count index find rfind rindex startswith endswith issubset issuperset isdisjoint "
    "__contains__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__"
)
_VALUE_METHODS = frozenset(_NAMES.split())
"""Methods of text and containers that are handed expected values: not those of an object that
stands where the tests look for text or a container."""


class MirrorMeta(type):
    """The class of stand-in classes: attributes and calls go to the solution's class."""

    _peer: Peer
    _specials: frozenset[str]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make an instance, on the other side."""
        return cls._peer.request("call", cls, args, kwargs)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_mirror") or name in ("_peer", "_named"):
            raise AttributeError(name)
        return cls._peer.request("get", cls, name)

    def __setattr__(cls, name: str, value: Any) -> None:
        if name.startswith("__") or name == "_named":
            super().__setattr__(name, value)
        else:
            cls._peer.request("set", cls, name, value)

    def __iter__(cls) -> Any:
        return iter(cls._meta("__iter__"))

    def __len__(cls) -> int:
        return _checked("__len__", cls._meta("__len__"))  # type: ignore[no-any-return]

    def __getitem__(cls, key: Any) -> Any:
        """A member of an enumeration; a generic class's parameters change nothing here."""
        return cls._meta("__getitem__", key) if "__getitem__" in cls._specials else cls

    def __bool__(cls) -> bool:
        return True

    def _meta(cls, name: str, *args: Any) -> Any:
        if name not in cls._specials:
            raise TypeError(f"type {cls.__name__!r} has no {name}")
        return cls._peer.request("special", cls, name, args)


class Mirror:
    """A stand-in of one object of the solution."""

    __slots__ = ("__weakref__",)
    _peer: Peer
    _named = False
    _literal = False
    _own_equality = False

    def __getattr__(self, name: str) -> Any:
        value = self._peer.request("get", self, name)
        if not self._named and name in _VALUE_METHODS and callable(value):
            raise AttributeError(f"{type(self).__name__!r} object stands for no text or container")
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        self._peer.request("set", self, name, value)

    def __delattr__(self, name: str) -> None:
        self._peer.request("delete", self, name)

    def __eq__(self, other: object) -> Any:
        if self is other:
            return True
        if isinstance(other, Mirror):
            return _equal_objects(self, other, set())
        return _plain(self) == other if self._literal else NotImplemented

    def __hash__(self) -> int:
        if self._literal or self._own_equality:
            return _checked("__hash__", self._peer.request("special", self, "__hash__", ()))  # type: ignore[no-any-return]
        return object.__hash__(self)

    def __dir__(self) -> list[str]:
        return []


class MirrorFunction(Mirror):
    """A function, method or other callable that is no class."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it, on the other side."""
        return self._peer.request("call", self, args, kwargs)

    @property
    def __doc__(self) -> Any:  # type: ignore[override]
        return self._peer.request("get", self, "__doc__")


def _equal_objects(one: Mirror, other: Mirror, open_pairs: set[tuple[int, int]]) -> bool:
    """Whether two objects are of one class that defines equality, and alike in every attribute."""
    if type(one) is not type(other) or not (one._own_equality or one._literal):
        return False
    pair = (id(one), id(other))
    if pair in open_pairs:
        return True
    open_pairs.add(pair)
    plain, attributes = _state(one)
    other_plain, other_attributes = _state(other)
    if not attributes and not one._literal:
        return False
    return plain == other_plain and _alike(attributes, other_attributes, open_pairs)


def _alike(one: Any, other: Any, open_pairs: set[tuple[int, int]]) -> bool:
    if isinstance(one, Mirror) and isinstance(other, Mirror):
        return one is other or _equal_objects(one, other, open_pairs)
    if type(one) is not type(other):
        return bool(one == other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(
            _alike(one[key], other[key], open_pairs) for key in one
        )
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(
            _alike(a, b, open_pairs) for a, b in zip(one, other, strict=True)
        )
    return bool(one == other)


def _state(mirror: Mirror) -> tuple[Any, dict[str, Any]]:
    plain, attributes = mirror._peer.request("state", mirror)
    return plain, attributes


def _plain(mirror: Mirror) -> Any:
    plain = _state(mirror)[0]
    return None if isinstance(plain, Mirror) else plain


_RESULTS: dict[str, type | tuple[type, ...]] = {
    "__len__": int,
    "__hash__": int,
    "__bool__": bool,
    "__str__": str,
    "__repr__": str,
    "__format__": str,
    "__int__": int,
    "__index__": int,
    "__float__": float,
    "__complex__": complex,
    "__bytes__": bytes,
}


def _checked(name: str, result: Any) -> Any:
    """The interpreter demands exact types of some special methods; so do we."""
    wanted = _RESULTS.get(name)
    if wanted is not None and not isinstance(result, wanted):
        raise TypeError(f"{name} returned {type(result).__name__}")
    return result


def _special(name: str) -> Callable[..., Any]:
    def method(self: Mirror, *args: Any) -> Any:
        return _checked(name, self._peer.request("special", self, name, args))

    method.__name__ = name
    return method


def _named_special(name: str) -> Callable[..., Any]:
    call = _special(name)

    def method(self: Mirror, *args: Any) -> Any:
        if self._named:
            return call(self, *args)
        if name == "__contains__":
            return any(item is args[0] or item == args[0] for item in iter(self))
        return NotImplemented

    return method


def make_class(peer: Peer, description: list[Any], bases: list[Any]) -> type:
    """Return the stand-in of a class of the solution.

    Args:
        peer: Whom to ask.
        description: [name, base nodes, special methods, those of its metaclass, [literal,
            own equality]], as the solution's side describes it.
        bases: The stand-ins of its bases, or builtin exception classes.
    """
    name, _, specials, meta_specials, (literal, own_equality) = description
    members: dict[str, Any] = {"__module__": "solution"}
    if any(isinstance(base, type) and issubclass(base, BaseException) for base in bases):
        return type(str(name), tuple(bases), {**members, "_peer": peer, **_ERROR_MEMBERS})
    for special in specials:
        if special == "__hash__" or special not in ALWAYS | OF_NAMED_CLASSES:
            continue
        maker = _special if special in ALWAYS else _named_special
        members[special] = maker(special)
    members["__slots__"] = ()
    members["_literal"], members["_own_equality"] = bool(literal), bool(own_equality)
    members["_peer"], members["_specials"] = peer, frozenset(meta_specials)
    mirrors = tuple(base for base in bases if isinstance(base, MirrorMeta)) or (Mirror,)
    if own_equality and "__hash__" not in specials and not literal:
        members["__hash__"] = None
        members["__eq__"] = Mirror.__eq__
    return MirrorMeta(str(name), mirrors, members)


def make_error(kind: type, args: list[Any], text: str, remote: Mirror) -> BaseException:
    """Return an exception of a stand-in class, whose text and attributes are the solution's."""
    error: BaseException = kind.__new__(kind, *args)
    error.args = tuple(args)
    error.__dict__.update(_text=text, _remote=remote)
    return error


def is_stand_in_error(kind: Any) -> bool:
    """Whether `kind` is a stand-in of one of the solution's exception classes."""
    return isinstance(kind, type) and issubclass(kind, BaseException) and hasattr(kind, "_peer")


def _error_text(self: BaseException) -> str:
    return str(self.__dict__.get("_text", BaseException.__str__(self)))


def _error_attribute(self: BaseException, name: str) -> Any:
    if "_remote" not in self.__dict__:
        raise AttributeError(name)
    remote = self.__dict__["_remote"]
    return remote._peer.request("get", remote, name)


_ERROR_MEMBERS = {"__str__": _error_text, "__getattr__": _error_attribute}


def remote_generator(source: Mirror) -> Generator[Any, Any, Any]:
    """A real generator that asks the solution's for each item."""
    send = source._peer.request("get", source, "send")
    sent = None
    while True:
        try:
            item = send(sent)
        except StopIteration as stop:
            return stop.value
        sent = yield item


async def remote_coroutine(source: Mirror) -> Any:
    """A real coroutine that has the solution's run to its end when it is awaited."""
    return source._peer.request("special", source, "await", ())
