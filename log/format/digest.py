"""The digest of stored bytes; it needs no Arrow."""

from __future__ import annotations

import xxhash


def digest(data: bytes | memoryview) -> str:
    """A hash of 128 bits, as 32 hexadecimal digits."""
    return xxhash.xxh3_128_hexdigest(data)
