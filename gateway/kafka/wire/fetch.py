"""Answers of Fetch by hand, as they carry the records: buffers one behind the other, of which those of records are not copied. Pure.

Versions 4 to 12; from version 12 on lengths are compact and fields may be tagged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from struct import Struct
from typing import Final, TypeAlias

from .apis import APIS, ApiKey
from .errors import ErrorCode
from .writing import array_head, text

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Bytes of an answer, one dimension of single bytes. They must not change before they are sent."""
_API: Final = APIS[ApiKey.FETCH]
_THROTTLE: Final = Struct(">i")
_SESSION: Final = Struct(">hi")
_PART: Final = Struct(">ihqq")
_LOG_START: Final = Struct(">q")
_REPLICA: Final = Struct(">i")
_WITH_LOG_START, WITH_SESSION, _WITH_REPLICA = 5, 7, 11


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPartition:
    """The answer for one partition."""

    topic: str
    partition: int
    code: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: Sequence[Buffer] = ()
    """Record batches, one behind the other; a buffer may hold several. Empty: none."""

    @property
    def records_bytes(self) -> int:
        return sum(len(one) for one in self.records)


def encode_fetch_answer(
    version: int, parts: Sequence[FetchedPartition], *, code: ErrorCode = ErrorCode.NONE, session_id: int = 0, throttle_ms: int = 0
) -> list[Buffer]:
    """The body of the answer. Partitions of a topic that follow one another become one topic. ``code`` and ``session_id`` are told from version 7
    on. There is no list of aborted transactions, and no other replica is preferred.
    """
    compact = _API.is_flexible(version)
    tags = b"\0" if compact else b""
    topics = [(topic, list(of_topic)) for topic, of_topic in groupby(parts, key=lambda part: part.topic)]
    buffers: list[Buffer] = []
    out = bytearray(_THROTTLE.pack(throttle_ms))
    if version >= WITH_SESSION:
        out += _SESSION.pack(code, session_id)
    out += array_head(len(topics), compact=compact)
    for topic, of_topic in topics:
        out += text(topic, compact=compact)
        out += array_head(len(of_topic), compact=compact)
        for part in of_topic:
            out += _PART.pack(part.partition, part.code, part.high_watermark, part.last_stable_offset)
            if version >= _WITH_LOG_START:
                out += _LOG_START.pack(part.log_start_offset)
            out += array_head(None, compact=compact)
            if version >= _WITH_REPLICA:
                out += _REPLICA.pack(-1)
            out += array_head(part.records_bytes, compact=compact)
            if part.records:
                buffers.append(out)
                buffers.extend(part.records)
                out = bytearray()
            out += tags
        out += tags
    out += tags
    buffers.append(out)
    return buffers
