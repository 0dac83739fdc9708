"""The protocol's values as bytes, for answers that are made by hand."""

from __future__ import annotations

from struct import Struct
from typing import Final

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_TEXT_BYTES_MAX: Final = 32_767
_NULL_TEXT: Final = _INT16.pack(-1)
_NULL_ARRAY: Final = _INT32.pack(-1)


def uvarint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def text(value: str | None, *, compact: bool) -> bytes:
    """A string, cut where the protocol takes no longer one; None: null."""
    if value is None:
        return b"\0" if compact else _NULL_TEXT
    data = value.encode()
    if len(data) > _TEXT_BYTES_MAX:
        data = data[:_TEXT_BYTES_MAX].decode(errors="ignore").encode()
    return (uvarint(len(data) + 1) if compact else _INT16.pack(len(data))) + data


def array_head(count: int | None, *, compact: bool) -> bytes:
    """The number of an array's elements, or of the bytes of a value; None: null."""
    if count is None:
        return b"\0" if compact else _NULL_ARRAY
    return uvarint(count + 1) if compact else _INT32.pack(count)
