"""The compressions of Kafka's batches, by pyarrow's codecs."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

import pyarrow as pa

from .errors import RecordsError


class Compression(IntEnum):
    """The compressions by their numbers in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def codec(self) -> str:
        return self.name.lower()


_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = struct.Struct(">8sii")
"""Snappy's blocks of Java's clients: the name, a version, the oldest version that reads it."""
_BLOCK: Final = struct.Struct(">i")
_SNAPPY_BYTES_MAX: Final = 2**32
_STEP_BYTES: Final = 64 * 1024


def decompressed(data: bytes | memoryview, compression: int, limit_bytes: int, batch: int = 0) -> bytes | memoryview:
    """The records of a batch. Memory is taken as they come, and never for much more than ``limit_bytes``.

    Raises `RecordsError`: UNSUPPORTED_COMPRESSION_TYPE, MESSAGE_TOO_LARGE above the limit, INVALID_RECORD for what is not compressed so.
    """
    if compression == Compression.NONE and len(data) <= limit_bytes:
        return data  # the usual case of many small batches
    try:
        kind = Compression(compression)
    except ValueError:
        raise RecordsError("UNSUPPORTED_COMPRESSION_TYPE", f"there is no compression {compression}", batch) from None
    try:
        if kind is Compression.SNAPPY:
            return _unsnapped(data, limit_bytes)
        if kind is Compression.NONE:
            raise _TooLargeError
        return _inflated(data, kind, limit_bytes)
    except _TooLargeError:
        raise RecordsError("MESSAGE_TOO_LARGE", f"its records have more than {limit_bytes} bytes", batch) from None
    except (pa.ArrowException, OSError, ValueError, struct.error) as error:
        raise RecordsError("INVALID_RECORD", f"its records are not compressed by {kind.codec}", batch) from error


def compressed(data: bytes, compression: Compression) -> bytes:
    """``data`` as every Kafka client reads it. Snappy is framed as Java's clients do."""
    if compression is Compression.NONE:
        return data
    made: bytes = pa.Codec(compression.codec).compress(data, asbytes=True)
    if compression is Compression.SNAPPY:
        return b"".join((_XERIAL_HEADER.pack(_XERIAL, 1, 1), _BLOCK.pack(len(made)), made))
    return made


class _TooLargeError(Exception):
    pass


def _inflated(data: bytes | memoryview, kind: Compression, limit_bytes: int) -> bytes:
    parts: list[bytes] = []
    room = limit_bytes + 1
    step = max(_STEP_BYTES, 4 * len(data))
    with pa.CompressedInputStream(pa.BufferReader(data), kind.codec) as stream:
        while room and (part := stream.read(min(step, room))):
            parts.append(part)
            room -= len(part)
    if not room:
        raise _TooLargeError
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _unsnapped(data: bytes | memoryview, limit_bytes: int) -> bytes:
    codec = pa.Codec(Compression.SNAPPY.codec)
    if bytes(data[: len(_XERIAL)]) != _XERIAL:
        return _block(codec, data, limit_bytes)
    _XERIAL_HEADER.unpack_from(data)
    parts: list[bytes] = []
    at = _XERIAL_HEADER.size
    while at < len(data):
        (size,) = _BLOCK.unpack_from(data, at)
        at += _BLOCK.size
        if not 0 < size <= len(data) - at:
            raise ValueError("a block is cut off")
        parts.append(_block(codec, data[at : at + size], limit_bytes))
        limit_bytes -= len(parts[-1])
        at += size
    return b"".join(parts)


def _block(codec: pa.Codec, data: bytes | memoryview, limit_bytes: int) -> bytes:
    size = 0
    for at in range(min(len(data), 5)):
        size |= (data[at] & 127) << 7 * at
        if data[at] < 128:
            break
    else:
        raise ValueError("no size stands before the block")
    if size >= _SNAPPY_BYTES_MAX:
        raise ValueError("the block's size is beyond 32 bits")
    if size > limit_bytes:
        raise _TooLargeError
    # With a larger size than Snappy's own the rest would be old memory.
    made: bytes = codec.decompress(data, decompressed_size=size, asbytes=True)
    return made
