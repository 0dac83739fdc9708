"""Kafka's numbers of variable length, many at once: seven bits a byte, the lowest first, the sign in the lowest bit (zigzag)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes: TypeAlias = npt.NDArray[np.uint8]
Numbers: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

INT_BYTES_MAX: Final = 5
LONG_BYTES_MAX: Final = 10
MALFORMED: Final = -(2**63)
"""What is read where no number of that many bytes stands. Java's clients would not read on there."""

_LAST_BYTE_MAX: Final = {INT_BYTES_MAX: 2**4 - 1, LONG_BYTES_MAX: 2**1 - 1}
"""What is left of 32 and 64 bits for the last byte."""
_SIGN_SHIFT: Final = 63
_WITHOUT_SIGN: Final = 2**63 - 1
_SEVEN: Final = np.uint8(7)
_SEVEN_BITS: Final = np.uint8(127)
_OF_ONE_BYTE: Final = np.array([(byte >> 1) ^ -(byte & 1) for byte in range(256)], np.int64)


def read_varints(data: Bytes, places: Numbers, bytes_max: int = INT_BYTES_MAX) -> tuple[Numbers, Numbers]:
    """The numbers that stand at ``places``, and where each ends, ``bytes_max`` behind its place at most."""
    part = data[places]
    numbers = _OF_ONE_BYTE[part]
    ends = places + 1
    longer = (part > 127).nonzero()[0]
    if len(longer):
        numbers[longer], ends[longer] = _read_on(data, part[longer], ends[longer], bytes_max)
    return numbers, ends


def _read_on(data: Bytes, part: Bytes, ends: Numbers, bytes_max: int) -> tuple[Numbers, Numbers]:
    """Numbers of two bytes and more, of which ``part`` is the first."""
    value = (part & 127).astype(np.int64)
    going_on = np.arange(len(part))
    for at in range(1, bytes_max):
        part = data[ends[going_on]]
        value[going_on] |= (part & 127).astype(np.int64) << 7 * at
        ends[going_on] += 1
        going_on = going_on[part > (127 if at < bytes_max - 1 else _LAST_BYTE_MAX[bytes_max])]
        if not len(going_on):
            break
    numbers = ((value >> 1) & _WITHOUT_SIGN) ^ -(value & 1)
    numbers[going_on] = MALFORMED
    return numbers, ends


def read_varint(data: bytes, place: int) -> tuple[int, int]:
    """One number of 32 bits, as `read_varints` reads it. Raises `IndexError` beyond the data."""
    value = 0
    for at in range(INT_BYTES_MAX):
        part = data[place]
        place += 1
        value |= (part & 127) << 7 * at
        if part <= (127 if at < INT_BYTES_MAX - 1 else _LAST_BYTE_MAX[INT_BYTES_MAX]):
            return (value >> 1) ^ -(value & 1), place
    return MALFORMED, place


class Varints:
    """Numbers as they are written: ``parts`` has the first byte of all, the second of all, and so on, ``sizes`` how many count."""

    __slots__ = ("parts", "sizes")

    def __init__(self, numbers: Numbers) -> None:
        left = ((numbers << 1) ^ (numbers >> _SIGN_SHIFT)).view(np.uint64)
        self.parts: list[Bytes] = []
        self.sizes: Numbers = np.ones(len(numbers), np.int64)
        while True:
            part = left.astype(np.uint8) & _SEVEN_BITS
            left = left >> np.uint64(7)
            going_on = left > 0
            if not np.count_nonzero(going_on):
                self.parts.append(part)
                return
            self.parts.append(part | going_on.view(np.uint8) << _SEVEN)
            self.sizes += going_on


def written(columns: Sequence[Varints]) -> pa.BinaryArray:
    """The numbers of each row, one behind the other."""
    count = len(columns[0].sizes)
    parts = [part for column in columns for part in column.parts]
    table = np.empty((count, len(parts)), np.uint8)
    for at, part in enumerate(parts):
        table[:, at] = part
    ends = np.zeros(count + 1, np.int32)
    np.cumsum(sum(column.sizes for column in columns), out=ends[1:])
    data = table.reshape(-1)
    if len(data) > int(ends[-1]):
        data = table[np.stack([column.sizes > at for column in columns for at in range(len(column.parts))], axis=1)]
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(data)])
