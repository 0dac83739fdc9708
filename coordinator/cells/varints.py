"""Whole numbers as cells store them, seven bits a byte."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from ...log.errors import DataDamaged
from ...log.limits import NUMBER_MAX, TIME_MAX_MS

HASH_MAX = 2**64 - 1
_FIRST_BYTES = [bytes([bits | 0x80]) for bits in range(0x80)]


def append_varint(data: bytearray, number: int) -> None:
    """Append one number. Raises `ValueError` for a negative one."""
    append_varints(data, (number,))


def append_varints(data: bytearray, numbers: Iterable[int]) -> None:
    """Append several numbers by one call: a cell has dozens, most of a byte."""
    append = data.append
    for number in numbers:
        while number > 0x7F:
            append(number & 0x7F | 0x80)
            number >>= 7
        append(number)  # raises for a negative one


@lru_cache(maxsize=1 << 14)
def varint(number: int) -> bytes:
    """One number that is written again and again, as the hashes of message groups are."""
    data = bytearray()
    append_varints(data, (number,))
    return bytes(data)


def offset_varint(offset: int) -> bytes:
    """An offset, which follows others: a hundred and more have all but the first byte in common."""
    return _FIRST_BYTES[offset & 0x7F] + varint(offset >> 7) if offset > 0x7F else varint(offset)


def append_bytes(data: bytearray, value: bytes) -> None:
    """Append a value of any length, preceded by its length."""
    append_varint(data, len(value))
    data += value


class VarintReader:
    """Reads appended values in order, from the object ``where``.

    Every method raises `DataDamaged` for missing bytes, numbers beyond 63 bits or with superfluous bytes, impossible counts, and invalid text.
    """

    def __init__(self, data: bytes, *, where: str | None = None) -> None:
        self._data = data
        self._at = 0
        self.where = where

    @property
    def done(self) -> bool:
        return self._at >= len(self._data)

    @property
    def left(self) -> int:
        """The number of unread bytes."""
        return len(self._data) - self._at

    def byte(self) -> int:
        return self.take(1)[0]

    def varint(self, most: int = NUMBER_MAX) -> int:
        if self._at < len(self._data) and (small := self._data[self._at]) < 0x80 and small <= most:  # as most numbers are
            self._at += 1
            return small
        number = shift = 0
        while True:
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            if number > most or (byte == 0 and shift):
                raise self.damaged(
                    "a number is too large, or longer than it needs to be", expected=f"at most {most}", observed=number
                )
            if byte < 0x80:
                return number
            shift += 7

    def time_ms(self) -> int:
        """Milliseconds since 1970, up to the year 9999."""
        return self.varint(TIME_MAX_MS)

    def count(self, least_bytes: int = 1) -> int:
        """The number of following things, each of ``least_bytes`` or more."""
        return self.varint(self.left // least_bytes)

    def sized(self) -> bytes:
        return self.take(self.varint())

    def text(self) -> str:
        data = self.sized()
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise self.damaged("the data is no text", expected="UTF-8", observed=repr(data[:50])) from error

    def rest(self) -> bytes:
        return self.take(self.left)

    def take(self, count: int) -> bytes:
        found = self._data[self._at : self._at + count]
        if len(found) < count:
            raise self.damaged("the data ends too soon", expected=f"{count} more bytes", observed=f"{len(found)}")
        self._at += count
        return found

    def damaged(self, message: str, *, expected: object = None, observed: object = None) -> DataDamaged:
        return DataDamaged(message, object=self.where, expected=expected, observed=observed)
