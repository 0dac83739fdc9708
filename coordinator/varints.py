"""Whole numbers in as few bytes as they need, seven bits a byte: what cells are written with."""

from __future__ import annotations

from ..log.errors import DataDamaged


def append_varint(data: bytearray, number: int) -> None:
    """Append a number from zero up."""
    if number < 0:
        raise ValueError(f"a varint cannot be negative: {number}")
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)


def append_bytes(data: bytearray, value: bytes) -> None:
    """Append a value of any length, its length first."""
    append_varint(data, len(value))
    data += value


class VarintReader:
    """Reads on through what was appended. Every method raises `DataDamaged` where the data ends too soon."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def done(self) -> bool:
        """Whether all was read."""
        return self._at >= len(self._data)

    def byte(self) -> int:
        return self.take(1)[0]

    def varint(self) -> int:
        number = shift = 0
        while True:
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    def sized(self) -> bytes:
        return self.take(self.varint())

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._at)

    def take(self, count: int) -> bytes:
        """So many bytes as they stand."""
        found = self._data[self._at : self._at + count]
        if len(found) < count:
            raise DataDamaged("the data ends too soon", expected=f"{count} more bytes", observed=f"{len(found)}")
        self._at += count
        return found
