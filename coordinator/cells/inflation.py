"""Inflation of stored bytes within a bound, as damaged ones must not cost their reader all memory."""

from __future__ import annotations

import zlib


def inflated(data: bytes, *, bytes_max: int) -> bytes | None:
    """The content of a zlib stream. None: it is cut off, longer than ``bytes_max``, or followed by more. Raises `zlib.error`."""
    inflater = zlib.decompressobj()
    content = inflater.decompress(data, bytes_max)
    return content if inflater.eof and not inflater.unused_data else None
