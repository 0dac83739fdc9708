"""Record batches as bytes: their headers, and what is known of them without reading their records."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

import google_crc32c

from .errors import RecordsError

MAGIC: Final = 2
"""The format of all batches since Kafka 0.11."""
NO_PRODUCER_ID: Final = -1
LOG_APPEND_TIME: Final = 1 << 3
"""The attribute of batches whose records all have the broker's time, which is the header's ``max_timestamp``."""

_COMPRESSION: Final = 0b111
_TRANSACTIONAL: Final = 1 << 4
_CONTROL: Final = 1 << 5

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = _HEADER.size
_LENGTH: Final = struct.Struct(">qi")
"""What stands before the bytes that ``length`` counts."""
_STAMP: Final = struct.Struct(">qii")
_CRC: Final = struct.Struct(">I")
_MAGIC_AT: Final = 16
"""The format's place, in batches of all formats."""
_CRC_AT: Final = 17
_ATTRIBUTES_AT: Final = 21
"""The first byte that is in the CRC."""


class BatchHeader(NamedTuple):
    """The fields of a batch before its records, in their order. Times are milliseconds since 1970."""

    base_offset: int
    length: int
    """The bytes behind this field."""
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The bytes of the whole batch."""
        return _LENGTH.size + self.length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def compression(self) -> int:
        """The number of a `Compression`, or one that Kafka has not given yet."""
        return self.attributes & _COMPRESSION

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether it says how a transaction ended. Only brokers write such batches."""
        return bool(self.attributes & _CONTROL)


class KafkaBatch(NamedTuple):
    """A batch as it is sent: ``data`` has the header too, and is mostly a view of what came."""

    header: BatchHeader
    data: bytes | memoryview

    @property
    def payload(self) -> bytes | memoryview:
        """The records, compressed as the header says."""
        return self.data[HEADER_BYTES:]


def batches_of(records: bytes | memoryview) -> list[KafkaBatch]:
    """The batches in the field ``records`` of a request or an answer, as views. Reads headers only: `check_batch` checks more.

    Raises `RecordsError`: INVALID_RECORD where a batch does not end where it says, or has another format.
    """
    view = memoryview(records)
    found: list[KafkaBatch] = []
    at = 0
    while at < len(view):
        left = len(view) - at
        if left < HEADER_BYTES:
            raise _refusal(view[at:], len(found))
        header = BatchHeader(*_HEADER.unpack_from(view, at))
        size = _LENGTH.size + header.length
        if header.magic != MAGIC or not HEADER_BYTES <= size <= left:
            raise _refusal(view[at:], len(found))
        found.append(KafkaBatch(header, view[at : at + size]))
        at += size
    return found


def _refusal(left: memoryview, number: int) -> RecordsError:
    """Why no batch of our format begins ``left``."""
    if len(left) <= _MAGIC_AT:
        return RecordsError("INVALID_RECORD", f"{len(left)} bytes are no batch", number)
    magic = left[_MAGIC_AT]
    if magic != MAGIC:
        return RecordsError("INVALID_RECORD", f"its format is {magic}, and only {MAGIC} is taken", number)
    _, length = _LENGTH.unpack_from(left)
    told = f"it says that it has {_LENGTH.size + length} bytes: {HEADER_BYTES} are the least, and {len(left)} are left"
    return RecordsError("INVALID_RECORD", told, number)


def check_batch(batch: KafkaBatch, number: int = 0) -> None:
    """Raise `RecordsError` unless the bytes are those of the CRC, and the records are counted as a producer counts them.

    CORRUPT_MESSAGE makes clients send it again; INVALID_RECORD does not. ``number`` goes into the error.
    """
    header = batch.header
    crc = google_crc32c.value(bytes(batch.data[_ATTRIBUTES_AT:]))
    if crc != header.crc:
        raise RecordsError("CORRUPT_MESSAGE", f"its CRC is {crc:08x}, and it says {header.crc:08x}", number)
    if header.record_count < 1 or header.last_offset_delta != header.record_count - 1:
        told = f"it says that it has {header.record_count} records, the last of them at {header.last_offset_delta}"
        raise RecordsError("INVALID_RECORD", told, number)


def stamped(batch: KafkaBatch, base_offset: int, leader_epoch: int, log_append_ms: int | None = None) -> KafkaBatch:
    """The batch at its place in the log. Neither value is in the CRC; the time of appending, which takes the place of the records', is."""
    if log_append_ms is not None:
        attributes = batch.header.attributes | LOG_APPEND_TIME
        batch = batch_of(batch.header._replace(attributes=attributes, max_timestamp=log_append_ms), bytes(batch.payload))
    header = batch.header._replace(base_offset=base_offset, leader_epoch=leader_epoch)
    stamp = _STAMP.pack(base_offset, header.length, leader_epoch)
    return KafkaBatch(header, b"".join((stamp, batch.data[_STAMP.size :])))


def batch_of(header: BatchHeader, payload: bytes) -> KafkaBatch:
    """A batch with the CRC and the length of what is in it."""
    head = bytearray(_HEADER.pack(*header._replace(length=HEADER_BYTES - _LENGTH.size + len(payload))))
    crc = google_crc32c.extend(google_crc32c.value(bytes(head[_ATTRIBUTES_AT:])), payload)
    _CRC.pack_into(head, _CRC_AT, crc)
    return KafkaBatch(BatchHeader(*_HEADER.unpack(head)), b"".join((head, payload)))
