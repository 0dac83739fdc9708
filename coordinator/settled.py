"""Which offsets of a queue are settled: all below a floor, and a set of those above it.

A set is a whole number whose bit ``i`` stands for offset ``floor + i``, so that adding a range, and moving the floor, are a few
operations on machine words, whatever the holes look like. Stored, it takes the smallest of four forms.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..log.errors import DataDamaged
from .varints import Reader, append_varint

_RANGES, _BITMAP, _PACKED_RANGES, _PACKED_BITMAP = range(4)
_SPAN_MAX = 1 << 24
"""No set reaches further above its floor: what says so is damaged, and must not cost its reader all memory."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A set of offsets that holds all below ``floor``."""

    floor: int = 0
    """The lowest offset that is not in the set."""
    above: int = 0
    """Bit ``i``: whether ``floor + i`` is in it; so bit 0 is never set."""

    def __contains__(self, offset: int) -> bool:
        return offset < self.floor or bool(self.above >> (offset - self.floor) & 1)

    @property
    def limit(self) -> int:
        """The offset behind the highest one in the set."""
        return self.floor + self.above.bit_length()

    @property
    def count_above(self) -> int:
        """How many offsets above the floor are in it."""
        return self.above.bit_count()

    def with_range(self, first: int, limit: int) -> Settled:
        """The set with the offsets from ``first`` up to and without ``limit``."""
        first = max(first, self.floor)
        if limit <= first:
            return self
        above = self.above | ((1 << (limit - first)) - 1) << (first - self.floor)
        ones = (~above & (above + 1)).bit_length() - 1
        return Settled(self.floor + ones, above >> ones)

    def with_ranges(self, ranges: Iterable[tuple[int, int]]) -> Settled:
        """The set with all offsets of these ranges (first, limit)."""
        settled = self
        for first, limit in ranges:
            settled = settled.with_range(first, limit)
        return settled

    def ranges(self) -> list[tuple[int, int]]:
        """The ranges (first, limit) above the floor, ascending, as long as they can be."""
        edges = _edges(self.above) + self.floor
        return [(int(first), int(limit)) for first, limit in edges]

    def gaps(self, limit: int) -> list[tuple[int, int]]:
        """The ranges below ``limit`` that are not in the set, ascending."""
        found, start = [], self.floor
        for first, end in self.ranges():
            if first >= limit:
                break
            found.append((start, first))
            start = end
        return [*found, (start, limit)] if start < limit else found

    def encode(self) -> bytes:
        """A few bytes for a few holes; never more than a bit an offset, and some."""
        data = bytearray()
        append_varint(data, self.floor)
        if not self.above:
            return bytes(data)
        bitmap = self.above.to_bytes((self.above.bit_length() + 7) // 8, "little")
        forms = {_BITMAP: bitmap, _PACKED_BITMAP: zlib.compress(bitmap, 6)}
        edges = _edges(self.above)
        if len(edges) < len(bitmap):  # else two bytes and more a range are no gain
            ranges, end = bytearray(), 0
            for first, limit in edges.tolist():
                append_varint(ranges, first - end)
                append_varint(ranges, limit - first)
                end = limit
            forms |= {_RANGES: bytes(ranges), _PACKED_RANGES: zlib.compress(ranges, 6)}
        form = min(forms, key=lambda form: (len(forms[form]), form))
        return bytes(data) + bytes([form]) + forms[form]


def decode_settled(data: bytes) -> Settled:
    """What `Settled.encode` gave. Raises `DataDamaged`."""
    reader = Reader(data)
    floor = reader.varint()
    if reader.done:
        return Settled(floor)
    form, payload = reader.byte(), reader.rest()
    if form in (_PACKED_RANGES, _PACKED_BITMAP):
        payload = _unpacked(payload)
    if form in (_BITMAP, _PACKED_BITMAP):
        if payload[:1] and payload[0] & 1:
            raise DataDamaged("a set of offsets contradicts itself: its floor is in it", observed=floor)
        return Settled(floor, int.from_bytes(payload, "little"))
    if form not in (_RANGES, _PACKED_RANGES):
        raise DataDamaged("a set of offsets has a form nobody knows", observed=form)
    above, end, ranges = 0, 0, Reader(payload)
    while not ranges.done:
        gap = ranges.varint()
        first = end + gap
        end = first + ranges.varint()
        if not gap:  # runs do not touch, and the floor is in none
            raise DataDamaged("a set of offsets contradicts itself: a run has no gap before it", observed=first)
        if end > _SPAN_MAX:
            raise DataDamaged("a set of offsets reaches too far", expected=f"{_SPAN_MAX} above its floor", observed=end)
        above |= ((1 << (end - first)) - 1) << first
    return Settled(floor, above)


def _unpacked(payload: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(payload, _SPAN_MAX // 8)
    except zlib.error as error:
        raise DataDamaged("a set of offsets cannot be unpacked", observed=str(error)) from error
    if not unpacker.eof:
        raise DataDamaged("a set of offsets is cut off, or reaches too far", expected=f"at most {_SPAN_MAX // 8} bytes")
    return data


def _edges(bits: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """(first, limit) of every run of ones."""
    if not bits:
        return np.empty((0, 2), np.int64)
    size = bits.bit_length() // 8 + 1  # the last bit of it is a zero
    ones = np.unpackbits(np.frombuffer(bits.to_bytes(size, "little"), np.uint8), bitorder="little")
    changes = np.flatnonzero(np.diff(ones, prepend=np.uint8(0), append=np.uint8(0)))
    return changes.reshape(-1, 2).astype(np.int64)
