"""Record batches as kafka-python writes and reads them, and broken ones that nobody writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.util import encode_varint

from penstock.gateway.kafka.records.batches import MAGIC, BatchHeader, KafkaBatch, batch_of, batches_of
from penstock.gateway.kafka.records.compression import Compression, compressed, decompressed

NOW_MS = 1_700_000_000_000
Headers: TypeAlias = "Sequence[tuple[str, bytes | None]]"


class Record(NamedTuple):
    key: bytes | None = b"k"
    value: bytes | None = b"value"
    headers: Headers = ()
    timestamp: int = NOW_MS


def built(records: Sequence[Record], compression: Compression = Compression.NONE) -> KafkaBatch:
    """A batch by kafka-python, compressed by us as it lacks most libraries."""
    builder = DefaultRecordBatchBuilder(MAGIC, 0, 0, -1, -1, -1, 2**30)
    for offset, one in enumerate(records):
        assert builder.append(offset, one.timestamp, one.key, one.value, list(one.headers))
    (batch,) = batches_of(bytes(builder.build()))
    return recompressed(batch, compression)


def recompressed(batch: KafkaBatch, compression: Compression) -> KafkaBatch:
    if compression is Compression.NONE:
        return batch
    return batch_of(batch.header._replace(attributes=compression), compressed(bytes(batch.payload), compression))


def read(batches: Iterable[KafkaBatch]) -> list[Record]:
    """The records by kafka-python, which is given what it can inflate."""
    return [
        Record(one.key, one.value, tuple(one.headers), one.timestamp)
        for batch in batches
        for one in DefaultRecordBatch(bytes(batch.data))
    ]


def read_strictly(batch: KafkaBatch, limit_bytes: int) -> list[Record]:
    """The records as Java's clients read them, byte by byte. Raises `ValueError` for what they would not."""
    reader = _StrictReader(bytes(decompressed(batch.payload, batch.header.compression, limit_bytes)))
    found = [reader.record(delta, batch.header.base_timestamp) for delta in range(batch.header.record_count)]
    if not found or reader.place != len(reader.data):
        raise ValueError("no records, or bytes behind them")
    return found


class _StrictReader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.place = 0

    def record(self, delta: int, base_timestamp: int) -> Record:
        size = self.number()
        end = self.place + size
        self.take(1)
        timestamp = base_timestamp + self.number(64)
        if self.number() != delta or not 0 <= timestamp <= 253_402_300_799_999:
            raise ValueError("not dense, or not to be shown")
        key, value, count = self.nullable(), self.nullable(), self.number()
        headers = tuple((self.take(self.number()).decode(), self.nullable()) for _ in range(count))
        if count < 0 or self.place != end:
            raise ValueError("not its length")
        return Record(key, value, headers, timestamp)

    def number(self, bits: int = 32) -> int:
        value = 0
        for shift in range(0, bits, 7):
            (part,) = self.take(1)
            value |= (part & 127) << shift
            if part < 128 and value < 2**bits:
                return (value >> 1) ^ -(value & 1)
        raise ValueError("beyond its bits")

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self.data) - self.place:
            raise ValueError("not there")
        self.place += size
        return self.data[self.place - size : self.place]

    def nullable(self) -> bytes | None:
        size = self.number()
        return None if size == -1 else self.take(size)


def rows_of(rows: pa.RecordBatch) -> list[Record]:
    times = rows["timestamp"].view(pa.int64()).to_pylist()
    columns = zip(rows["key"].to_pylist(), rows["value"].to_pylist(), rows["headers"].to_pylist(), times, strict=True)
    return [
        Record(key, value, tuple((one["key"], one["value"]) for one in headers or ()), timestamp)
        for key, value, headers, timestamp in columns
    ]


def varint(number: int) -> bytes:
    made = bytearray()
    encode_varint(number, made.append)
    return bytes(made)


def raw_record(
    *parts: bytes, delta: int = 0, key: int = -1, value: int = -1, headers: int = 0, time: int = 0, longer: int = 0
) -> bytes:
    """A record without bytes for its key and value, whatever lengths are told. ``parts`` are its headers."""
    body = b"\0" + b"".join([*map(varint, (time, delta, key, value, headers)), *parts])
    return varint(len(body) + longer) + body


def raw_batch(payload: bytes, count: int = 1, **header: Any) -> KafkaBatch:
    """A batch of any bytes with the right CRC."""
    whole = BatchHeader(0, 0, 0, MAGIC, 0, 0, count - 1, NOW_MS, NOW_MS, -1, -1, -1, count)
    return batch_of(whole._replace(**header), payload)


header_names = st.text(st.characters(codec="utf-8"), max_size=6)
headers = st.lists(st.tuples(header_names, st.none() | st.binary(max_size=200)), max_size=4)
timestamps = st.integers(NOW_MS - 10**10, NOW_MS + 10**10)
records = st.builds(
    Record, st.none() | st.binary(max_size=90), st.none() | st.binary(max_size=9000), headers.map(tuple), timestamps
)
batches = st.builds(built, st.lists(records, min_size=1, max_size=20), st.sampled_from(Compression))
