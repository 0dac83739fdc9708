"""The messages in a stream's bytes: each has a flag and its length before it."""

from __future__ import annotations

from typing import Final

from .heads import CallFailed, GrpcStatus

PREFIX_BYTES: Final = 5


def with_prefix(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4, "big") + message


class MessageInbox:
    """The bytes of a stream that were not read."""

    __slots__ = ("_bytes", "_most_bytes")

    def __init__(self, most_bytes: int) -> None:
        self._bytes = bytearray()
        self._most_bytes = most_bytes

    def __len__(self) -> int:
        return len(self._bytes)

    def feed(self, data: bytes) -> None:
        self._bytes += data

    def next(self) -> bytes | None:
        """The next message, packed if the client packed it; None: it is not whole. Raises `CallFailed` for one that is too large."""
        found = self._bytes
        if len(found) < PREFIX_BYTES:
            return None
        size = int.from_bytes(found[1:PREFIX_BYTES], "big")
        if found[0] > 1:
            raise CallFailed(GrpcStatus.INTERNAL, "the flag before a message is neither 0 nor 1")
        if size > self._most_bytes:
            raise CallFailed(GrpcStatus.RESOURCE_EXHAUSTED, f"a message of {size} bytes is larger than {self._most_bytes}")
        end = PREFIX_BYTES + size
        if len(found) < end:
            return None
        with memoryview(found) as view:
            message = bytes(view[PREFIX_BYTES:end])
        del found[:end]
        return message
