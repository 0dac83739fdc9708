"""HTTP/2's frames (RFC 9113, sections 4 and 6)."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a client sends first."""
FRAME_HEAD: Final = Struct(">HBBBI")
"""The upper 16 bits of the length, the lower 8, the kind, the flags, the stream."""
HEAD_BYTES: Final = 9
FRAME_BYTES_MAX: Final = 16_384
"""The largest payload, which every peer takes."""
WINDOW_MAX: Final = 2**31 - 1
WINDOW_FIRST: Final = 65_535
"""The windows of a connection, and of its streams, before anything was said of them."""

DATA: Final = 0
HEADERS: Final = 1
PRIORITY: Final = 2
RST_STREAM: Final = 3
SETTINGS: Final = 4
PUSH_PROMISE: Final = 5
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITIZED: Final = 0x20

ENABLE_PUSH: Final = 2
STREAMS_MAX: Final = 3
INITIAL_WINDOW: Final = 4
FRAME_MAX: Final = 5
HEADER_LIST_MAX: Final = 6


class StreamCode(IntEnum):
    """Why a stream or a connection ends."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class ConnectionFault(Exception):
    """The client broke the protocol in a way that ends its connection."""

    def __init__(self, code: StreamCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class NotHttp2(ConnectionFault):
    """What came at the port is no HTTP/2."""

    def __init__(self, other: str | None) -> None:
        told = "the client does not begin as HTTP/2 does"
        super().__init__(StreamCode.PROTOCOL_ERROR, told if other is None else f"{told}: what came looks like {other}")


class StreamFault(Exception):
    """The same for one stream."""

    def __init__(self, code: StreamCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    size = len(payload)
    return FRAME_HEAD.pack(size >> 8, size & 0xFF, kind, flags, stream_id) + payload


def settings(values: dict[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(key.to_bytes(2, "big") + value.to_bytes(4, "big") for key, value in values.items()))


def window_update(stream_id: int, more_bytes: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream_id, more_bytes.to_bytes(4, "big"))


def reset(stream_id: int, code: StreamCode) -> bytes:
    return frame(RST_STREAM, 0, stream_id, code.to_bytes(4, "big"))


def goaway(last_id: int, code: StreamCode, message: str = "") -> bytes:
    return frame(GOAWAY, 0, 0, last_id.to_bytes(4, "big") + code.to_bytes(4, "big") + message.encode())


def unpadded(flags: int, payload: bytes) -> bytes:
    """Raises `ConnectionFault`."""
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise ConnectionFault(StreamCode.PROTOCOL_ERROR, "a frame is padded beyond its end")
    return payload[1 : len(payload) - payload[0]]
