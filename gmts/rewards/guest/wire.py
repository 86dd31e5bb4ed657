"""Values between two processes that share their mutable containers.

Immutable values are copied (gmts.rewards.guest.literals). A list, dict, set and the like gets a key
at its first crossing; from then on both sides hold one copy each, and every message brings what has
changed, so that sorting in place, appending to an attribute and `is` work as in one process. Any
other object stays with its owner and is known by its key (`export` describes it, `adopt` makes its
stand-in on the other side). Keys of the two sides differ in parity.
"""

import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from operator import is_
from typing import Any

from gmts.rewards.guest.literals import (
    LiteralError,
    Node,
    decode,
    encode_immutable,
    encode_scalar,
)

Message = dict[str, Any]


class _Shared:
    """A container both sides hold, and its items as of the last message."""

    __slots__ = ("items", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.items: list[Any] | None = None


class Wire:
    """Encodes and decodes the messages of one side."""

    def __init__(
        self,
        parity: int,
        export: Callable[[Any], list[Any]],
        adopt: Callable[[int, list[Any]], Any],
    ) -> None:
        """Start with nothing shared.

        Args:
            parity: 0 on the tests' side, 1 on the solution's.
            export: Describes an object of this side that is not taken by value.
            adopt: Makes the stand-in of an object of the other side from (key, description).
        """
        self._parity = parity
        self._export = export
        self._adopt = adopt
        self._next_key = parity
        self._shared: dict[int, _Shared] = {}
        self._own: dict[int, Any] = {}
        self._adopted: dict[int, Any] = {}
        self._aliases: list[Any] = []  # kept, so that no other object gets their identity
        self._key_of: dict[int, int] = {}
        self._new_shared: list[int] = []
        self._new_objects: list[list[Any]] = []

    def dump(self, op: str, values: list[Any]) -> Message:
        """Return the message of `op` with `values`, and with what has changed since the last."""
        self._new_shared, self._new_objects = [], []
        nodes = [self.encode(value) for value in values]
        updates = [
            [key, self._content(shared)]
            for key, shared in list(self._shared.items())
            if shared.items is not None and _changed(shared)
        ]
        definitions = []
        while self._new_shared:
            key = self._new_shared.pop()
            shared = self._shared[key]
            size = getattr(shared.value, "maxlen", None)  # of a deque, fixed when it is made
            tag = _TAGS[type(shared.value)]
            definitions.append([key, tag, size, self._content(shared)])
        return {
            "op": op,
            "values": nodes,
            "objects": self._new_objects,
            "definitions": definitions,
            "updates": updates,
            # After the updates: what was changed and let go is still the other side's.
            "released": self._release() if self._parity == 0 else [],
        }

    def load(self, message: Message) -> list[Any]:
        """Apply what a message brings and return its values.

        Raises:
            LiteralError: If the message is not as `dump` makes it.
        """
        try:
            for key, *description in message["objects"]:
                self._check_foreign(key)
                self._adopted[key] = self._adopt(key, description)
                self._key_of[id(self._adopted[key])] = key
            for key, tag, size, _ in message["definitions"]:
                self._check_foreign(key)
                self._shared[key] = _Shared(_MAKERS[tag](size))
                self._key_of[id(self._shared[key].value)] = key
            for key, _, _, content in message["definitions"]:
                self._fill(self._shared[key], content)
            for key, content in message["updates"]:
                self._fill(self._shared[key], content)
            values = [self.decode(node) for node in message["values"]]
            for key in message["released"]:
                self._forget(key)
            return values
        except (LookupError, TypeError, ValueError, RecursionError) as error:
            raise LiteralError(f"a malformed message: {error!r}"[:200]) from error

    def encode(self, value: Any) -> Node:
        """Return the node of any value."""
        if value is None:
            return None
        node = encode_scalar(value)
        if node is not None:
            return node
        known = self._key_of.get(id(value))
        if known is not None:
            return ["@", known]
        if type(value) in _TAGS:
            key = self._new_key(value)
            self._shared[key] = _Shared(value)
            self._new_shared.append(key)
            return ["@", key]
        node = encode_immutable(value, self.encode)
        if node is not None:
            return node
        # Described first: describing an object describes its class, which must arrive before it.
        key = self._new_key(value)
        self._own[key] = value
        description = self._export(value)
        self._new_objects.append([key, *description])
        return ["@", key]

    def decode(self, node: Node) -> Any:
        """Return the value of a node."""
        if isinstance(node, list) and node and node[0] == "@":
            return self.object_of(node[1])
        return decode(node, self.decode)

    def object_of(self, key: int) -> Any:
        """Return what a key stands for on this side.

        Raises:
            LiteralError: If the key stands for nothing.
        """
        shared = self._shared.get(key)
        if shared is not None:
            return shared.value
        if key in self._own:
            return self._own[key]
        if key in self._adopted:
            return self._adopted[key]
        raise LiteralError(f"nothing has the key {key}")

    def alias(self, key: int, value: Any) -> None:
        """Let `value` stand for the other side's object `key`, too."""
        self._aliases.append(value)
        self._key_of[id(value)] = key

    def _new_key(self, value: Any) -> int:
        key = self._next_key
        self._next_key += 2
        self._key_of[id(value)] = key
        return key

    def _check_foreign(self, key: int) -> None:
        if not isinstance(key, int) or key % 2 == self._parity:
            raise LiteralError(f"{key} is no key of the other side")
        if key in self._shared or key in self._adopted:
            raise LiteralError(f"the key {key} is taken")

    def _content(self, shared: _Shared) -> Node:
        """Encode a container's items; what is new among them follows in the same message."""
        shared.items = _items(shared.value)
        content = [self.encode(item) for item in shared.items]
        extra = _EXTRAS.get(type(shared.value))
        return [content, self.encode(extra(shared.value)) if extra else None]

    def _fill(self, shared: _Shared, content: Node) -> None:
        items = [self.decode(node) for node in content[0]]
        _FILLERS[type(shared.value)](shared.value, items, self.decode(content[1]))
        shared.items = _items(shared.value)

    def _release(self) -> list[int]:
        """Give up the containers that only this table still holds, outer ones first."""
        released: list[int] = []
        while True:
            # Two references: the table's and the argument of getrefcount.
            lone = [
                key
                for key, shared in self._shared.items()
                if shared.items is not None and sys.getrefcount(shared.value) == 2
            ]
            if not lone:
                return released
            for key in lone:
                self._forget(key)
            released += lone

    def _forget(self, key: int) -> None:
        shared = self._shared.pop(key)
        del self._key_of[id(shared.value)]


def _items(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [part for pair in value.items() for part in pair]
    return list(value)


def _changed(shared: _Shared) -> bool:
    """Whether items were put in, taken out or replaced; compares identities, never values."""
    items = _items(shared.value)
    before = shared.items or []
    return len(items) != len(before) or not all(map(is_, items, before))


def _fill_list(value: Any, items: list[Any], extra: Any) -> None:
    value[:] = items


def _fill_dict(value: Any, items: list[Any], extra: Any) -> None:
    pairs = dict(zip(items[::2], items[1::2], strict=True))
    value.clear()
    for key, item in pairs.items():
        value[key] = item


def _fill_defaultdict(value: Any, items: list[Any], extra: Any) -> None:
    value.default_factory = extra
    _fill_dict(value, items, None)


def _fill_set(value: Any, items: list[Any], extra: Any) -> None:
    value.clear()
    value.update(items)


def _fill_deque(value: Any, items: list[Any], extra: Any) -> None:
    value.clear()
    value.extend(items)


_TAGS: dict[type, str] = {
    list: "list",
    dict: "dict",
    set: "set",
    bytearray: "bytearray",
    deque: "deque",
    defaultdict: "defaultdict",
    OrderedDict: "OrderedDict",
    Counter: "Counter",
}
_MAKERS: dict[str, Callable[[Any], Any]] = {
    tag: lambda size, kind=kind: deque(maxlen=size) if kind is deque else kind()  # type: ignore[misc]
    for kind, tag in _TAGS.items()
}
_EXTRAS: dict[type, Callable[[Any], Any]] = {defaultdict: lambda value: value.default_factory}
_FILLERS: dict[type, Callable[[Any, list[Any], Any], None]] = {
    list: _fill_list,
    dict: _fill_dict,
    set: _fill_set,
    bytearray: _fill_list,
    deque: _fill_deque,
    defaultdict: _fill_defaultdict,
    OrderedDict: _fill_dict,
    Counter: _fill_dict,
}
