"""Sets of a queue's offsets.

A set is a whole number with a bit for every offset from a base on, stored in the smallest of four forms.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct

from ...log.limits import NUMBER_MAX
from ..cells.inflation import inflated
from ..cells.varints import VarintReader, append_varint, append_varints

OffsetRange: TypeAlias = tuple[int, int]
"""(first, limit): the offsets from ``first`` up to ``limit`` (exclusive)."""

_RANGES, _BITMAP, _PACKED_RANGES, _PACKED_BITMAP = range(4)
_SPAN_MAX = 1 << 24
"""The longest span above the base: damaged data must not cost all memory."""
_RANGES_MAX = 1 << 18
"""The most ranges: five times those of a half-settled largest window."""
_FEW = 64
"""The most offsets in a list, and bytes in a bitmap, for which Python is quicker than numpy, and compression saves nothing worth its time."""
_PACKED_MIN_BYTES = 300


class OffsetSet(Struct, frozen=True, gc=False):
    """A set of offsets."""

    base: int = 0
    """The lowest offset, or 0."""
    bits: int = 0
    """Bit ``i`` is set if ``base + i`` is in the set."""

    @staticmethod
    def of(ranges: Iterable[OffsetRange]) -> OffsetSet:
        found = OffsetSet()
        for first, limit in ranges:
            found = found.with_range(first, limit)
        return found

    @staticmethod
    def of_offsets(offsets: Sequence[int]) -> OffsetSet:
        if not offsets:
            return OffsetSet()
        if len(offsets) <= _FEW:
            base, bits = min(offsets), 0
            for offset in offsets:
                bits |= 1 << (offset - base)
            return OffsetSet(base, bits)
        array = np.asarray(offsets, np.int64)
        base = int(array.min())
        ones = np.zeros(int(array.max()) - base + 1, np.uint8)
        ones[array - base] = 1
        return OffsetSet(base, int.from_bytes(np.packbits(ones, bitorder="little").tobytes(), "little"))

    def __contains__(self, offset: int) -> bool:
        return offset >= self.base and bool(self.bits >> (offset - self.base) & 1)

    def __len__(self) -> int:
        return self.bits.bit_count()

    def __bool__(self) -> bool:
        return self.bits != 0

    @property
    def limit(self) -> int:
        """The offset after the highest one, or 0."""
        return self.base + self.bits.bit_length()

    def with_range(self, first: int, limit: int) -> OffsetSet:
        return self.union(_of_range(first, limit))

    def union(self, other: OffsetSet) -> OffsetSet:
        if not self or not other:
            return self or other
        base = min(self.base, other.base)
        return OffsetSet(base, self.bits << (self.base - base) | other.bits << (other.base - base))

    def without(self, other: OffsetSet) -> OffsetSet:
        if not self or not other:
            return self
        shift = other.base - self.base
        return _rebased(self.base, self.bits & ~(other.bits << shift if shift >= 0 else other.bits >> -shift))

    def meets(self, other: OffsetSet) -> bool:
        return self.without(other) != self

    def without_range(self, first: int, limit: int) -> OffsetSet:
        return self.without(_of_range(first, limit))

    def ranges(self) -> list[OffsetRange]:
        """Ascending, and as long as possible."""
        if not self.bits & (self.bits + 1):  # a single one, or none
            return [(self.base, self.limit)] if self.bits else []
        return _ranges(self.bits, self.base)

    def encode(self) -> bytes:
        """About a bit an offset at most."""
        return _encoded(self.base, self.bits)

    @staticmethod
    def decode(reader: VarintReader) -> OffsetSet:
        """Raises `DataDamaged`."""
        base = reader.varint()
        return _rebased(base, _decode_bits(reader, base))


class SettledOffsets(Struct, frozen=True, gc=False):
    """All offsets below a floor, and some above it."""

    floor: int = 0
    """The lowest offset not in the set."""
    above: int = 0
    """Bit ``i`` is set if ``floor + i`` is in the set, so bit 0 never is."""

    def __contains__(self, offset: int) -> bool:
        return offset < self.floor or bool(self.above >> (offset - self.floor) & 1)

    @property
    def limit(self) -> int:
        return self.floor + self.above.bit_length()

    @property
    def count_above(self) -> int:
        return self.above.bit_count()

    def with_range(self, first: int, limit: int) -> SettledOffsets:
        first = max(first, self.floor)
        if limit <= first:
            return self
        return self._with(((1 << (limit - first)) - 1) << (first - self.floor))

    def with_all(self, offsets: OffsetSet) -> SettledOffsets:
        shift = offsets.base - self.floor
        return self._with(offsets.bits << shift if shift >= 0 else offsets.bits >> -shift)

    def meets(self, offsets: OffsetSet) -> bool:
        return bool(offsets) and (offsets.base < self.floor or bool(offsets.bits << (offsets.base - self.floor) & self.above))

    def ranges(self) -> list[OffsetRange]:
        """Above the floor, ascending and as long as possible."""
        return _ranges(self.above, self.floor)

    def gaps(self, limit: int) -> list[OffsetRange]:
        """The offsets below ``limit`` not in the set, ascending."""
        found, start = [], self.floor
        for first, end in self.ranges():
            if first >= limit:
                break
            found.append((start, first))
            start = end
        return [*found, (start, limit)] if start < limit else found

    def encode(self) -> bytes:
        return _encoded(self.floor, self.above)

    @staticmethod
    def decode(reader: VarintReader) -> SettledOffsets:
        """Raises `DataDamaged`."""
        floor = reader.varint()
        above = _decode_bits(reader, floor)
        if above & 1:
            raise reader.damaged("a set of settled offsets contradicts itself: its floor is in it", observed=floor)
        return SettledOffsets(floor, above)

    def _with(self, bits: int) -> SettledOffsets:
        above = self.above | bits
        ones = (~above & (above + 1)).bit_length() - 1
        return SettledOffsets(self.floor + ones, above >> ones)


def _of_range(first: int, limit: int) -> OffsetSet:
    return OffsetSet(first, (1 << (limit - first)) - 1) if limit > first else OffsetSet()


def _rebased(base: int, bits: int) -> OffsetSet:
    if not bits:
        return OffsetSet()
    zeros = (bits & -bits).bit_length() - 1
    return OffsetSet(base + zeros, bits >> zeros)


def _encoded(base: int, bits: int) -> bytes:
    data, encoded = bytearray(), _encode_bits(bits)
    append_varints(data, (base, len(encoded)))
    data += encoded
    return bytes(data)


def _encode_bits(bits: int) -> bytes:
    if not bits:
        return b""
    if not bits & (bits + 1):
        count = bits.bit_length()
        if count <= 8:
            return bytes((_BITMAP, bits))
        single = bytearray((_RANGES, 0))  # one range from the base on, as most sets of many are
        append_varint(single, count)
        return bytes(single)
    bitmap = bits.to_bytes((bits.bit_length() + 7) // 8, "little")
    form, data = _BITMAP, bitmap
    if len(bitmap) > _FEW and len(edges := _edges(bits)) < len(bitmap) // 2:  # a range takes two bytes or more
        ranges, end = bytearray(), 0
        for first, limit in edges.tolist():
            append_varint(ranges, first - end)
            append_varint(ranges, limit - first)
            end = limit
        if len(ranges) < len(bitmap):
            form, data = _RANGES, bytes(ranges)
    if len(data) >= _PACKED_MIN_BYTES:
        packed = {_PACKED_BITMAP: zlib.compress(bitmap, 6)}
        if form == _RANGES:
            packed[_PACKED_RANGES] = zlib.compress(data, 6)
        best = min(packed, key=lambda one: len(packed[one]))
        if len(packed[best]) < len(data):
            form, data = best, packed[best]
    return bytes((form,)) + data


def _decode_bits(reader: VarintReader, base: int) -> int:
    data = reader.sized()
    if not data:
        return 0
    form, payload = data[0], data[1:]
    if form in (_PACKED_RANGES, _PACKED_BITMAP):
        payload = _unpacked(payload, reader)
    if form in (_BITMAP, _PACKED_BITMAP):
        bits = int.from_bytes(payload, "little")
    elif form in (_RANGES, _PACKED_RANGES):
        bits = _decode_ranges(VarintReader(payload, where=reader.where))
    else:
        raise reader.damaged("a set of offsets has a form nobody knows", observed=form)
    if bits.bit_length() > min(_SPAN_MAX, NUMBER_MAX - base):
        raise reader.damaged("a set of offsets reaches too far", expected=f"{_SPAN_MAX} above its base", observed=bits.bit_length())
    if bits.bit_length() > 2 * _RANGES_MAX and (ranges := (bits & ~(bits << 1)).bit_count()) > _RANGES_MAX:
        raise reader.damaged("a set of offsets has too many holes", expected=f"at most {_RANGES_MAX} ranges", observed=ranges)
    return bits


def _decode_ranges(reader: VarintReader) -> int:
    edges, end = [], 0
    while not reader.done:
        first = end + reader.varint()
        end = first + reader.varint()
        if end > _SPAN_MAX:
            raise reader.damaged("a set of offsets reaches too far", expected=f"{_SPAN_MAX} above its base", observed=end)
        edges.append((first, end))
    steps = np.zeros(end + 1, np.int32)
    firsts, ends = np.asarray(edges, np.int64).reshape(-1, 2).T
    np.add.at(steps, firsts, 1)
    np.add.at(steps, ends, -1)
    return int.from_bytes(np.packbits(np.cumsum(steps, dtype=np.int32) > 0, bitorder="little").tobytes(), "little")


def _unpacked(payload: bytes, reader: VarintReader) -> bytes:
    try:
        data = inflated(payload, bytes_max=_SPAN_MAX // 8)
    except zlib.error as error:
        raise reader.damaged("a set of offsets cannot be unpacked", observed=str(error)) from error
    if data is None:
        raise reader.damaged(
            "a set of offsets is cut off, or reaches too far, or goes on behind its end", expected=f"at most {_SPAN_MAX // 8} bytes"
        )
    return data


def _edges(bits: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    if not bits:
        return np.empty((0, 2), np.int64)
    size = bits.bit_length() // 8 + 1  # the last bit of it is a zero
    ones = np.unpackbits(np.frombuffer(bits.to_bytes(size, "little"), np.uint8), bitorder="little")
    changes = np.flatnonzero(np.diff(ones, prepend=np.uint8(0), append=np.uint8(0)))
    return changes.reshape(-1, 2).astype(np.int64)


def _ranges(bits: int, base: int) -> list[OffsetRange]:
    if bits.bit_length() > 8 * _FEW:
        return [(int(first), int(limit)) for first, limit in _edges(bits) + base]
    found = []
    while bits:
        zeros = (bits & -bits).bit_length() - 1
        bits >>= zeros
        ones = (~bits & (bits + 1)).bit_length() - 1
        found.append((base + zeros, base + zeros + ones))
        bits >>= ones
        base += zeros + ones
    return found
