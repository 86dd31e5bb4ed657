"""Requests in both directions over one channel: while one side waits, it serves the other."""

import builtins
import threading
from collections.abc import Callable
from typing import Any

from gmts.rewards.guest.channel import Channel, ChannelError
from gmts.rewards.guest.literals import LiteralError
from gmts.rewards.guest.wire import Wire

Handler = Callable[..., Any]


class BrokenPeerError(Exception):
    """The other side is gone or does not keep to the protocol."""


class Peer:
    """One side of the conversation."""

    def __init__(self, channel: Channel, wire: Wire, handlers: dict[str, Handler]) -> None:
        """Converse over `channel`; `handlers` serve the other side's requests by name."""
        self._channel = channel
        self._wire = wire
        self._handlers = handlers
        self._lock = threading.RLock()
        self.stopped = False
        self.broken: str | None = None
        """Why the conversation ended; nothing that happens afterwards counts."""

    def request(self, op: str, *values: Any) -> Any:
        """Ask the other side and return its answer.

        Raises:
            BrokenPeerError: If there is no answer.
            BaseException: What the other side raised.
        """
        with self._lock:
            if self.broken is not None:
                raise BrokenPeerError(self.broken)
            try:
                self._channel.send(self._wire.dump(op, list(values)))
                while True:
                    message = self._channel.receive()
                    values_in = self._wire.load(message)
                    if message["op"] == "return":
                        return values_in[0]
                    if message["op"] == "raise":
                        break
                    self._serve(message["op"], values_in)
            except (ChannelError, LiteralError, LookupError, TypeError) as error:
                self.broken = str(error) or repr(error)
                raise BrokenPeerError(self.broken) from error
        raise self._rebuild(values_in)

    def serve_forever(self) -> None:
        """Serve requests until the other side goes away, or a handler sets `stopped`."""
        while not self.stopped:
            try:
                message = self._channel.receive()
                values = self._wire.load(message)
            except (ChannelError, LiteralError):
                return
            self._serve(message["op"], values)

    def _serve(self, op: str, values: list[Any]) -> None:
        try:
            answer = self._wire.dump("return", [self._handlers[op](*values)])
        except BrokenPeerError:
            raise
        except BaseException as error:  # noqa: BLE001 (whatever it is, the other side gets to see it)
            answer = self._wire.dump("raise", describe_error(error))
        self._channel.send(answer)

    def _rebuild(self, values: list[Any]) -> BaseException:
        """The exception that the other side described."""
        try:
            return self._handlers["rebuild_error"](*values)  # type: ignore[no-any-return]
        except (TypeError, ValueError) as error:
            self.broken = f"an exception that cannot be rebuilt: {error}"
            return BrokenPeerError(self.broken)


def describe_error(error: BaseException) -> list[Any]:
    """Return what travels of an exception: its class, arguments, text, and itself."""
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 (its class may define anything)
        text = ""
    kind = type(error)
    if getattr(builtins, kind.__name__, None) is kind:
        return [kind, list(error.args), text, None]
    return [kind, list(error.args), text, error]


def rebuild_builtin_error(kind: type, args: list[Any], text: str) -> BaseException:
    """Return an exception of a builtin class.

    Raises:
        TypeError: If `kind` is no exception class.
    """
    if not (isinstance(kind, type) and issubclass(kind, BaseException)):
        raise TypeError(f"{kind!r} is no exception class")
    try:
        return kind(*args)
    except TypeError:
        return Exception(text)
