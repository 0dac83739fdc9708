"""Produce by hand, as its requests carry the records. Pure.

kafka-python's decoder would copy these. Versions 3 to 12; from version 9 on lengths are compact and fields may be tagged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from struct import Struct
from typing import Final

from .apis import APIS, ApiKey
from .errors import ErrorCode
from .reading import WireReader, malformed
from .writing import array_head, text

_API: Final = APIS[ApiKey.PRODUCE]
PARTITIONS_MAX: Final = 16_384
"""The most partitions of a request. Each becomes an object."""
_PARTITION_BYTES_MIN: Final = 5
_PART: Final = Struct(">ihqq")
_LOG_START: Final = Struct(">q")
_INT32: Final = Struct(">i")
_WITH_LOG_START, _WITH_RECORD_ERRORS = 5, 8


@dataclass(frozen=True, slots=True)
class ProducedRecords:
    """The records of one partition."""

    topic: str
    partition: int
    records: memoryview | None
    """Record batches as sent, not copied: who keeps the view keeps its whole frame. None: null, which is no batch."""


@dataclass(frozen=True, slots=True)
class ProduceRequest:
    """A request to append."""

    transactional_id: str | None
    acks: int
    """0, 1 or -1; others are for the handler to refuse with `INVALID_REQUIRED_ACKS`. 0: the client reads no answer."""
    timeout_ms: int
    parts: Sequence[ProducedRecords]
    """Ordered as in the request. A client may name a partition twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducedPartition:
    """The answer for one partition."""

    topic: str
    partition: int
    code: ErrorCode = ErrorCode.NONE
    base_offset: int = -1
    """The offset of the first record; -1: unknown."""
    log_append_ms: int = -1
    """The time of appending where it replaces the records' own; else -1."""
    log_start_offset: int = -1
    """The earliest kept offset; -1: not told."""
    record_errors: Sequence[tuple[int, str | None]] = ()
    """The records that made the batch refused, by their index in the batch. Told from version 8 on, like ``message``."""
    message: str | None = None


def parse_produce(version: int, body: memoryview) -> ProduceRequest:
    """The request. Raises `KafkaRefusal` with `INVALID_REQUEST`."""
    compact = _API.is_flexible(version)
    reader = WireReader(body)
    transactional_id = reader.text(compact=compact, nullable=True)
    acks, timeout_ms = reader.int16(), reader.int32()
    parts: list[ProducedRecords] = []
    for _ in range(reader.count(compact=compact, nullable=False) or 0):
        topic = reader.text(compact=compact, nullable=False) or ""
        count = reader.count(compact=compact, nullable=False, item_bytes=_PARTITION_BYTES_MIN) or 0
        if len(parts) + count > PARTITIONS_MAX:
            raise malformed(f"it has more than {PARTITIONS_MAX} partitions")
        for _ in range(count):
            parts.append(ProducedRecords(topic, reader.int32(), reader.blob(compact=compact, nullable=True)))
            if compact:
                reader.skip_tags()
        if compact:
            reader.skip_tags()
    if compact:
        reader.skip_tags()
    reader.end()
    return ProduceRequest(transactional_id, acks, timeout_ms, parts)


def encode_produce_answer(version: int, parts: Sequence[ProducedPartition], *, throttle_ms: int = 0) -> bytes:
    """The body of the answer. Partitions of a topic that follow one another become one topic."""
    compact = _API.is_flexible(version)
    tags = b"\0" if compact else b""
    topics = [(topic, list(of_topic)) for topic, of_topic in groupby(parts, key=lambda part: part.topic)]
    out = bytearray(array_head(len(topics), compact=compact))
    for topic, of_topic in topics:
        out += text(topic, compact=compact)
        out += array_head(len(of_topic), compact=compact)
        for part in of_topic:
            out += _PART.pack(part.partition, part.code, part.base_offset, part.log_append_ms)
            if version >= _WITH_LOG_START:
                out += _LOG_START.pack(part.log_start_offset)
            if version >= _WITH_RECORD_ERRORS:
                out += array_head(len(part.record_errors), compact=compact)
                for index, message in part.record_errors:
                    out += _INT32.pack(index)
                    out += text(message, compact=compact)
                    out += tags
                out += text(part.message, compact=compact)
            out += tags
        out += tags
    out += _INT32.pack(throttle_ms)
    out += tags
    return bytes(out)
