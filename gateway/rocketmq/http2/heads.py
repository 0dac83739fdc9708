"""The headers of calls and answers (gRPC over HTTP/2, and RFC 9113, section 8)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final
from urllib.parse import quote

from hpack import Encoder, NeverIndexedHeaderTuple

from .frames import StreamCode, StreamFault

_GRPC: Final = b"application/grpc"
_PSEUDO: Final = frozenset({b":method", b":scheme", b":path", b":authority"})
_HOP_BY_HOP: Final = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"})
_ILLEGAL: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_UPPER: Final = re.compile(rb"[A-Z]")
_TIMEOUT: Final = re.compile(rb"([0-9]{1,8})([HMSmun])")
_UNIT_S: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_MESSAGE_CHARS_MAX: Final = 1_024
_UNQUOTED: Final = " !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"
"""The printable characters but for the percent sign."""


class GrpcStatus(IntEnum):
    """gRPC's own status codes, as far as a server here says them."""

    OK = 0
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class CallFailed(Exception):
    """A call ends with one of gRPC's own codes instead of an answer."""

    def __init__(self, code: GrpcStatus, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class CallGone(Exception):
    """The client ended the call, or its time is over."""


@dataclass(frozen=True, slots=True)
class CallHead:
    """The headers of a call."""

    path: str
    metadata: list[tuple[str, str]]
    """All headers but HTTP's own, in order."""
    timeout_s: float | None
    size_bytes: int | None
    """The stated size of all that the client sends."""
    is_grpc: bool


def call_head(pairs: Sequence[tuple[bytes, bytes]]) -> CallHead:
    """Raises `StreamFault` for headers that HTTP/2 forbids."""
    if _UPPER.search(b"".join([name for name, _ in pairs])) or _ILLEGAL.search(b"".join([part for pair in pairs for part in pair])):
        raise _malformed("a header has a forbidden character")
    pseudo: dict[bytes, bytes] = {}
    metadata: list[tuple[str, str]] = []
    timeout_s, size_bytes, kind = None, None, b""
    for name, value in pairs:
        if name[:1] == b":":
            if metadata or name not in _PSEUDO or name in pseudo:
                raise _malformed("a header of HTTP/2's own is unknown, repeated or late")
            pseudo[name] = value
            continue
        if name == b"grpc-timeout":
            timeout_s = _timeout_s(value)
        elif name == b"content-type":
            kind = value
        elif name == b"content-length":
            size_bytes = _size_bytes(value, size_bytes)
        elif name in _HOP_BY_HOP or not name or (name == b"te" and value != b"trailers"):
            raise _malformed("a header has no place in HTTP/2")
        metadata.append((name.decode("latin-1"), value.decode("utf-8", "replace")))
    path = pseudo.get(b":path")
    if not path or b":method" not in pseudo or b":scheme" not in pseudo:
        raise _malformed("the method, the scheme or the path is missing")
    is_grpc = pseudo[b":method"] == b"POST" and kind.startswith(_GRPC)
    return CallHead(path.decode("utf-8", "replace"), metadata, timeout_s, size_bytes, is_grpc)


def check_trailers(pairs: Iterable[tuple[bytes, bytes]]) -> None:
    """Raises `StreamFault`."""
    if any(name[:1] == b":" or _UPPER.search(name) for name, _ in pairs):
        raise _malformed("trailers have a header of HTTP/2's own")


def _timeout_s(value: bytes) -> float:
    """Raises `StreamFault`."""
    found = _TIMEOUT.fullmatch(value)
    if found is None:
        raise _malformed("the timeout is none")
    return int(found[1]) * _UNIT_S[found[2]]


def _size_bytes(value: bytes, before: int | None) -> int:
    """Raises `StreamFault`."""
    if not value.isdigit() or len(value) > 18 or before not in (None, int(value)):
        raise _malformed("the stated size is none")
    return int(value)


def _malformed(message: str) -> StreamFault:
    return StreamFault(StreamCode.PROTOCOL_ERROR, message)


def _block(*pairs: tuple[str, str]) -> bytes:
    """A header block that changes no table, and is the same for every connection."""
    return Encoder().encode([NeverIndexedHeaderTuple(name, value) for name, value in pairs], huffman=False)


_CONTENT: Final = ("content-type", _GRPC.decode())
ANSWER: Final = _block((":status", "200"), _CONTENT)
"""The head of an answer."""
_OK: Final = _block(("grpc-status", "0"))


def trailers(code: GrpcStatus, message: str = "", *, alone: bool = False) -> bytes:
    """The end of an answer; ``alone``: no head of it was sent."""
    if code is GrpcStatus.OK and not alone:
        return _OK
    said = (("grpc-message", quote(message[:_MESSAGE_CHARS_MAX], safe=_UNQUOTED, errors="replace")),) if message else ()
    before = ((":status", "200"), _CONTENT) if alone else ()
    return _block(*before, ("grpc-status", str(int(code))), *said)


NOT_GRPC: Final = _block((":status", "415"), ("content-type", "text/plain"))
NOT_GRPC_TEXT: Final = b"gRPC is spoken here, and nothing else\n"
"""The answer to what is no call, once it has come whole."""
