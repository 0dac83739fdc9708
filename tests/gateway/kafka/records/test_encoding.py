from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.gateway.kafka.records.batches import KafkaBatch, batches_of, check_batch
from penstock.gateway.kafka.records.compression import Compression
from penstock.gateway.kafka.records.decoding import RECORDS_SCHEMA, decode
from penstock.gateway.kafka.records.encoding import encode
from tests.gateway.kafka.records.oracle import NOW_MS, Record, built, read, records, rows_of
from tests.thorough import examples


def columns(given: Sequence[Record]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {
                "offset_delta": delta,
                "timestamp": one.timestamp,
                "key": one.key,
                "value": one.value,
                "headers": [{"key": name, "value": value} for name, value in one.headers] or None,
            }
            for delta, one in enumerate(given)
        ],
        RECORDS_SCHEMA,
    )


def checked(given: Sequence[KafkaBatch], base_offset: int) -> list[KafkaBatch]:
    """The batches, dense from the offset on, and read again from their bytes."""
    found = batches_of(b"".join(batch.data for batch in given))
    for number, batch in enumerate(found):
        check_batch(batch, number)
        assert batch.header == given[number].header
        assert batch.header.base_offset == base_offset
        base_offset = batch.header.last_offset + 1
    return found


@given(
    st.lists(records, max_size=40), st.sampled_from([Compression.NONE, Compression.GZIP, Compression.ZSTD]), st.integers(0, 2**50)
)
@settings(max_examples=examples(200), deadline=None)
def test_kafka_python_reads_what_is_written(given: list[Record], compression: Compression, base_offset: int) -> None:
    made = encode(columns(given), base_offset=base_offset, leader_epoch=4, compression=compression, batch_bytes_max=20_000)
    found = checked(made, base_offset)
    assert read(found) == given
    assert all(batch.header.leader_epoch == 4 and batch.header.producer_id == -1 for batch in found)


@given(st.lists(records, min_size=1, max_size=40))
@settings(max_examples=examples(100), deadline=None)
def test_bytes_are_those_of_kafka_python(given: list[Record]) -> None:
    (made,) = encode(columns(given), base_offset=0, leader_epoch=0)
    assert made.data == built(given).data


@pytest.mark.parametrize("compression", Compression)
def test_all_compressions_come_back(compression: Compression) -> None:
    rows = columns([Record(b"k%d" % number, b"v" * number, (("n", b"%d" % number),)) for number in range(1000)])
    made = encode(rows, base_offset=7, leader_epoch=1, compression=compression)
    assert {batch.header.compression for batch in made} == {compression}
    assert decode(checked(made, 7), limit_bytes=2**22).equals(rows)


def test_batches_end_before_they_are_too_large_and_a_large_record_has_its_own() -> None:
    sizes = [400, 400, 400, 5000, 10, 990, *[1] * 200]
    given = [Record(None, b"v" * size) for size in sizes]
    made = checked(encode(columns(given), base_offset=0, leader_epoch=1, batch_bytes_max=1000), 0)
    assert read(made) == given
    assert [batch.header.record_count for batch in made[:4]] == [2, 1, 1, 1]
    large = [batch for batch in made if len(batch.payload) > 1000]
    assert [batch.header.record_count for batch in large] == [1]
    assert len(made) < 15


def test_slices_are_encoded_as_whole_rows_are() -> None:
    given = [Record(b"%d" % number, None if number % 2 else b"v", (("h", b"x"),) * (number % 3)) for number in range(50)]
    rows = columns(given)
    assert read(encode(rows.slice(7, 30), base_offset=0, leader_epoch=1)) == given[7:37]
    assert read(encode(rows.slice(3, 1), base_offset=0, leader_epoch=1)) == given[3:4]


def test_lists_without_headers_are_no_headers() -> None:
    rows = columns([Record(), Record()])
    empty = pa.array([[], None], RECORDS_SCHEMA.field("headers").type)
    rows = rows.set_column(4, RECORDS_SCHEMA.field("headers"), empty)
    assert read(encode(rows, base_offset=0, leader_epoch=1)) == [Record(), Record()]


def test_nothing_is_no_batch() -> None:
    assert encode(columns([]), base_offset=0, leader_epoch=1) == []


def test_a_batch_has_one_log_append_time() -> None:
    times = [NOW_MS, NOW_MS, NOW_MS + 5, NOW_MS + 5, NOW_MS + 5, NOW_MS + 9]
    given = [Record(timestamp=time) for time in times]
    made = checked(encode(columns(given), base_offset=3, leader_epoch=1, log_append_time=True), 3)
    assert [(batch.header.record_count, batch.header.max_timestamp) for batch in made] == [
        (2, NOW_MS),
        (3, NOW_MS + 5),
        (1, NOW_MS + 9),
    ]
    assert all(batch.header.is_log_append_time for batch in made)
    assert read(made) == given == rows_of(decode(made, limit_bytes=10_000))


def test_times_may_go_back() -> None:
    given = [Record(timestamp=time) for time in (NOW_MS, NOW_MS - 10**9, NOW_MS + 3)]
    (made,) = checked(encode(columns(given), base_offset=0, leader_epoch=1), 0)
    assert (made.header.base_timestamp, made.header.max_timestamp) == (NOW_MS, NOW_MS + 3)
    assert read([made]) == given
