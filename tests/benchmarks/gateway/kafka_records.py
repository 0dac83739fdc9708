"""Kafka's record batches to Arrow columns and back, beside kafka-python, which makes an object of each record. CRCs are included."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from unittest.mock import patch

import google_crc32c
from kafka.record import default_records
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from penstock.gateway.kafka.records.batches import MAGIC, batches_of, check_batch
from penstock.gateway.kafka.records.columns import messages_of
from penstock.gateway.kafka.records.decoding import decode
from penstock.gateway.kafka.records.encoding import encode
from penstock.log.limits import MIB
from tests.benchmarks.figures import Figure, Options

_NOW_MS = 1_700_000_000_000
_HEADERS = [("source", b"benchmark"), ("trace-id", b"0123456789abcdef")]
_KEYS = 997
_LIMIT_BYTES = 256 * MIB


def measure(options: Options) -> Iterator[Figure]:
    with patch.object(default_records, "calc_crc32c", lambda data: google_crc32c.value(bytes(data))):  # its own is 50 times as slow
        yield from _measure(options)


def _measure(options: Options) -> Iterator[Figure]:
    draw = random.Random(1)
    few, many = options.scaled(1_000, 10), options.scaled(10_000, 100)
    for count, headers in ((few, []), (many, []), (many, _HEADERS)):
        kind = f"{count:,} a batch, {len(headers)} headers"
        batch = _built(draw, count, headers)
        yield from _decoding(kind, [batch], count, options, target=None if headers else 450)
        rows = decode(batches_of(batch), limit_bytes=_LIMIT_BYTES)
        records = [(one.timestamp, one.key, one.value, one.headers) for one in DefaultRecordBatch(batch)]
        yield from _in_turns(
            f"encode, {kind}",
            lambda rows=rows: encode(rows, base_offset=0, leader_epoch=1),  # type: ignore[misc]
            lambda records=records: _written(records),  # type: ignore[misc]
            count,
            options,
            target=None if headers else 350,
        )
        yield from _in_turns(f"as messages, {kind}", lambda rows=rows: messages_of(rows), None, count, options)  # type: ignore[misc]
    for size in (1, 15):
        batches = [_built(draw, size, []) for _ in range(few)]
        yield from _decoding(f"{few:,} batches of {size} gathered", batches, few * size, options)


def _decoding(kind: str, given: list[bytes], count: int, options: Options, *, target: int | None = None) -> Iterator[Figure]:
    def ours() -> None:
        batches = [batch for data in given for batch in batches_of(data)]
        for batch in batches:
            check_batch(batch)
        decode(batches, limit_bytes=_LIMIT_BYTES)

    def theirs() -> None:
        for data in given:
            batch = DefaultRecordBatch(data)
            batch.validate_crc()
            for one in batch:
                _ = one.key, one.value

    yield from _in_turns(f"decode, {kind}", ours, theirs, count, options, target=target)


def _in_turns(
    name: str,
    ours: Callable[[], object],
    theirs: Callable[[], object] | None,
    count: int,
    options: Options,
    *,
    target: int | None = None,
) -> Iterator[Figure]:
    our_ns, their_ns = [], []
    for _ in range(options.repeats):
        our_ns.append(_ns(ours, count, options))
        if theirs is not None:
            their_ns.append(_ns(theirs, count, options))
    note = f"kafka-python {min(their_ns):,.0f}" if their_ns else ""
    yield Figure(name=f"{name}: processor time a record", unit="ns", values=our_ns, target=target, note=note)


def _ns(work: Callable[[], object], count: int, options: Options) -> float:
    turns = options.scaled(max(1, 20_000 // count), 1)
    work()
    start_s = time.process_time()
    for _ in range(turns):
        work()
    return (time.process_time() - start_s) / turns / count * 1e9


def _built(draw: random.Random, count: int, headers: list[tuple[str, bytes]]) -> bytes:
    values = (draw.randbytes(draw.randint(60, 140)) for _ in range(count))
    return _written(
        [(_NOW_MS + number // 10, b"key-%d" % draw.randrange(_KEYS), value, headers) for number, value in enumerate(values)]
    )


def _written(records: list[tuple[int, bytes, bytes, list[tuple[str, bytes]]]]) -> bytes:
    builder = DefaultRecordBatchBuilder(MAGIC, 0, 0, -1, -1, -1, _LIMIT_BYTES)
    for offset, (timestamp, key, value, headers) in enumerate(records):
        builder.append(offset, timestamp, key, value, headers)
    return bytes(builder.build())
