"""Messages over a socket: four bytes of length, then JSON."""

import json
import os
from typing import Any

MAX_BYTES = 64 << 20
"""A longer message is refused unread: the other side is not trusted."""


class ChannelError(Exception):
    """The other side is gone, or sends what is no message."""


class Channel:
    """One end of a socket; the two sides take turns."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, message: dict[str, Any]) -> None:
        """Send one message.

        Raises:
            ChannelError: If the other side is gone or the message is too long.
        """
        body = json.dumps(message, separators=(",", ":")).encode("ascii")
        if len(body) > MAX_BYTES:
            raise ChannelError(f"a message of {len(body)} bytes; at most {MAX_BYTES} are sent")
        rest = memoryview(len(body).to_bytes(4, "big") + body)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            raise ChannelError("the other side is gone") from error

    def receive(self) -> dict[str, Any]:
        """Return the next message.

        Raises:
            ChannelError: If the other side is gone or sends what is no message.
        """
        length = int.from_bytes(self._read(4), "big")
        if length > MAX_BYTES:
            raise ChannelError(f"a message of {length} bytes; at most {MAX_BYTES} are read")
        try:
            message = json.loads(self._read(length))
        except (ValueError, RecursionError) as error:
            raise ChannelError("a message that is no JSON") from error
        if not isinstance(message, dict):
            raise ChannelError("a message that is no object")
        return message

    def _read(self, length: int) -> bytes:
        parts = bytearray()
        while len(parts) < length:
            try:
                part = os.read(self._descriptor, min(length - len(parts), 1 << 20))
            except OSError as error:
                raise ChannelError("the other side is gone") from error
            if not part:
                raise ChannelError("the other side is gone")
            parts += part
        return bytes(parts)
