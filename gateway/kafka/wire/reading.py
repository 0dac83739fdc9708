"""Reads the protocol's values out of bytes from outside. Nothing is read or allocated beyond the bytes that are left."""

from __future__ import annotations

from struct import Struct
from typing import Final

from .errors import ErrorCode, KafkaRefusal

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_VARINT_BYTES_MAX: Final = 5


def malformed(what: str) -> KafkaRefusal:
    return KafkaRefusal(ErrorCode.INVALID_REQUEST, f"the request is malformed: {what}")


class WireReader:
    """A position in a request. All methods raise `KafkaRefusal` where it ends too early."""

    __slots__ = ("_data", "_end", "pos")

    def __init__(self, data: memoryview, pos: int = 0) -> None:
        self._data = data
        self._end = len(data)
        self.pos = pos

    @property
    def left(self) -> int:
        """The number of bytes that are left."""
        return self._end - self.pos

    def skip(self, size: int) -> int:
        """The position before ``size`` bytes."""
        start = self.pos
        if size < 0 or size > self._end - start:
            raise malformed(f"it lacks {size - (self._end - start)} bytes at byte {start}")
        self.pos = start + size
        return start

    def byte(self) -> int:
        return self._data[self.skip(1)]

    def int16(self) -> int:
        value: int = _INT16.unpack_from(self._data, self.skip(2))[0]
        return value

    def int32(self) -> int:
        value: int = _INT32.unpack_from(self._data, self.skip(4))[0]
        return value

    def uvarint(self) -> int:
        """A number of at most 32 bits."""
        value = 0
        for shift in range(0, 7 * _VARINT_BYTES_MAX, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise malformed(f"a varint before byte {self.pos} has no end")

    def view(self, size: int) -> memoryview:
        """The next bytes, not copied."""
        start = self.skip(size)
        return self._data[start : start + size]

    def text(self, *, compact: bool, nullable: bool) -> str | None:
        size = self.uvarint() - 1 if compact else self.int16()
        data = self._sized(size, nullable=nullable)
        if data is None:
            return None
        try:
            return str(data, "utf-8")
        except UnicodeDecodeError:
            raise malformed(f"the text before byte {self.pos} is not UTF-8") from None

    def blob(self, *, compact: bool, nullable: bool) -> memoryview | None:
        """Bytes, not copied."""
        return self._sized(self.uvarint() - 1 if compact else self.int32(), nullable=nullable)

    def count(self, *, compact: bool, nullable: bool, item_bytes: int = 1) -> int | None:
        """The number of elements, each of at least ``item_bytes``; None: null."""
        count = self.uvarint() - 1 if compact else self.int32()
        if count == -1 and nullable:
            return None
        if not 0 <= count * item_bytes <= self.left:
            raise malformed(f"{count} elements before byte {self.pos} have {self.left} bytes")
        return count

    def skip_tags(self) -> None:
        """Leave out tagged fields, as who does not know them does."""
        for _ in range(self.uvarint()):
            self.uvarint()
            self.skip(self.uvarint())

    def end(self) -> None:
        """Raise `KafkaRefusal` where more follows."""
        if self.left:
            raise malformed(f"{self.left} bytes follow its end")

    def _sized(self, size: int, *, nullable: bool) -> memoryview | None:
        if size == -1 and nullable:
            return None
        return self.view(size)
