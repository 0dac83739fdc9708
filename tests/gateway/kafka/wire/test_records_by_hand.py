"""Produce and Fetch by hand say the same as kafka-python's definitions, in every version."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchResponse
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from penstock.gateway.kafka.wire.apis import APIS, ApiKey
from penstock.gateway.kafka.wire.errors import ErrorCode, KafkaRefusal
from penstock.gateway.kafka.wire.fetch import Buffer, FetchedPartition, encode_fetch_answer
from penstock.gateway.kafka.wire.produce import PARTITIONS_MAX, ProducedPartition, encode_produce_answer, parse_produce
from penstock.gateway.kafka.wire.writing import array_head

PRODUCE, FETCH = APIS[ApiKey.PRODUCE], APIS[ApiKey.FETCH]
PRODUCE_VERSIONS = range(PRODUCE.lowest, PRODUCE.highest + 1)
FETCH_VERSIONS = range(FETCH.lowest, FETCH.highest + 1)
NAMES = st.text(max_size=20)
INT16, INT32, INT64 = (st.integers(-(2**bits), 2**bits - 1) for bits in (15, 31, 63))
RECORDS = st.none() | st.binary(max_size=300)
ASKED = st.lists(st.tuples(NAMES, st.lists(st.tuples(INT32, RECORDS), max_size=3)), max_size=3)


def produce_request(version: int, topics: list[tuple[str, list[tuple[int, bytes | None]]]], **stated: Any) -> bytes:
    encoded: bytes = ProduceRequest(
        version=version,
        **{"transactional_id": None, "acks": -1, "timeout_ms": 30_000, **stated},
        topic_data=[
            ProduceRequest.TopicProduceData(
                name=name,
                partition_data=[
                    ProduceRequest.TopicProduceData.PartitionProduceData(index=index, records=records) for index, records in parts
                ],
            )
            for name, parts in topics
        ],
    ).encode()
    return encoded


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@given(topics=ASKED, transactional_id=st.none() | NAMES, acks=INT16, timeout_ms=INT32)
def test_a_produce_request_is_read_as_it_was_made(
    version: int, topics: list[tuple[str, list[tuple[int, bytes | None]]]], transactional_id: str | None, acks: int, timeout_ms: int
) -> None:
    data = produce_request(version, topics, transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms)
    request = parse_produce(version, memoryview(data))
    assert (request.transactional_id, request.acks, request.timeout_ms) == (transactional_id, acks, timeout_ms)
    found = [(one.topic, one.partition, None if one.records is None else bytes(one.records)) for one in request.parts]
    assert found == [(name, index, records) for name, parts in topics for index, records in parts]
    assert all(one.records.obj is data for one in request.parts if one.records), "nothing is copied"


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@given(data=st.data())
def test_a_mutilated_produce_request_is_refused_or_read_within_its_bytes(version: int, data: st.DataObject) -> None:
    good = bytearray(produce_request(version, data.draw(ASKED)))
    for at in data.draw(st.lists(st.integers(0, len(good) - 1), max_size=4)):
        good[at] = data.draw(st.integers(0, 255))
    bad = bytes(good[: data.draw(st.integers(0, len(good)))])
    with suppress(KafkaRefusal):
        request = parse_produce(version, memoryview(bad))
        assert sum(len(one.records or b"") for one in request.parts) <= len(bad)


@given(data=st.binary(max_size=200), version=st.sampled_from(PRODUCE_VERSIONS))
def test_any_bytes_are_a_produce_request_or_are_refused(data: bytes, version: int) -> None:
    with suppress(KafkaRefusal):
        parse_produce(version, memoryview(data))


@pytest.mark.parametrize("version", [3, 9])
def test_forged_counts_are_refused_before_anything_is_made(version: int) -> None:
    compact = PRODUCE.is_flexible(version)
    head = produce_request(version, [])
    head = head[: -2 if compact else -4]
    for topics in (2**31 - 1, 1_000):
        with pytest.raises(KafkaRefusal, match="elements"):
            parse_produce(version, memoryview(head + array_head(topics, compact=compact)))
    many = produce_request(version, [("orders", [(0, None)] * (PARTITIONS_MAX + 1))])
    with pytest.raises(KafkaRefusal, match="partitions"):
        parse_produce(version, memoryview(many))


def test_unknown_tagged_fields_of_a_produce_request_are_left_out() -> None:
    plain = produce_request(9, [("orders", [(3, b"batch")])])
    assert plain.endswith(b"batch\0\0\0")
    tagged = plain[:-3] + b"\1\7\2ab" + b"\0" + b"\2\0\1x\5\0"
    (part,) = parse_produce(9, memoryview(tagged)).parts
    assert (part.topic, part.partition, bytes(part.records or b"")) == ("orders", 3, b"batch")


CODES = st.sampled_from(ErrorCode)
PRODUCED = st.lists(
    st.builds(
        ProducedPartition,
        topic=NAMES,
        partition=INT32,
        code=CODES,
        base_offset=INT64,
        log_append_ms=INT64,
        log_start_offset=INT64,
        record_errors=st.lists(st.tuples(INT32, st.none() | NAMES), max_size=2),
        message=st.none() | NAMES,
    ),
    max_size=4,
)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@given(parts=PRODUCED, throttle_ms=INT32)
def test_a_produce_answer_is_read_as_it_was_made(version: int, parts: list[ProducedPartition], throttle_ms: int) -> None:
    data = encode_produce_answer(version, parts, throttle_ms=throttle_ms)
    answer = ProduceResponse.decode(data, version=version)
    assert answer.throttle_time_ms == throttle_ms
    found = [(topic.name, one) for topic in answer.responses for one in topic.partition_responses]
    assert len(found) == len(parts)
    for part, (topic, one) in zip(parts, found, strict=True):
        assert (topic, one.index, one.error_code, one.base_offset) == (part.topic, part.partition, part.code, part.base_offset)
        assert one.log_append_time_ms == part.log_append_ms
        assert one.log_start_offset == (part.log_start_offset if version >= 5 else -1)
        assert one.error_message == (part.message if version >= 8 else None)
        told = [(error.batch_index, error.batch_index_error_message) for error in one.record_errors]
        assert told == (list(part.record_errors) if version >= 8 else [])
    assert answer.encode() == data


FETCHED = st.lists(
    st.builds(
        FetchedPartition,
        topic=NAMES,
        partition=INT32,
        code=CODES,
        high_watermark=INT64,
        last_stable_offset=INT64,
        log_start_offset=INT64,
        records=st.lists(st.binary(min_size=1, max_size=200), max_size=3),
    ),
    max_size=4,
)


def joined(buffers: list[Buffer]) -> bytes:
    return b"".join(buffers)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@given(parts=FETCHED, code=CODES, session_id=INT32, throttle_ms=INT32)
def test_a_fetch_answer_is_read_as_it_was_made(
    version: int, parts: list[FetchedPartition], code: ErrorCode, session_id: int, throttle_ms: int
) -> None:
    buffers = encode_fetch_answer(version, parts, code=code, session_id=session_id, throttle_ms=throttle_ms)
    answer = FetchResponse.decode(joined(buffers), version=version)
    assert answer.throttle_time_ms == throttle_ms
    assert (answer.error_code, answer.session_id) == ((code, session_id) if version >= 7 else (0, 0))
    found = [(topic.topic, one) for topic in answer.responses for one in topic.partitions]
    assert len(found) == len(parts)
    for part, (topic, one) in zip(parts, found, strict=True):
        assert (topic, one.partition_index, one.error_code) == (part.topic, part.partition, part.code)
        assert (one.high_watermark, one.last_stable_offset) == (part.high_watermark, part.last_stable_offset)
        assert one.log_start_offset == (part.log_start_offset if version >= 5 else -1)
        assert one.preferred_read_replica == -1
        assert one.aborted_transactions is None
        assert one.records == joined(list(part.records))
    assert answer.encode() == joined(buffers)
    assert [one for part in parts for one in part.records if not any(one is buffer for buffer in buffers)] == [], (
        "nothing is copied"
    )
