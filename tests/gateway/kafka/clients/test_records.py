"""What Kafka's own unmodified clients send comes back to each of them as it was sent."""

from __future__ import annotations

import re
from typing import Any

import pytest

import penstock
from penstock.gateway.kafka.wire.errors import ErrorCode
from tests.gateway.kafka.clients.families import FAMILIES, Family
from tests.gateway.kafka.clients.playing import BORN_MS, Players, Record, in_turns, record, together, told, value_of
from tests.gateway.programs import Program, ProgramError

pytestmark = [pytest.mark.processes, pytest.mark.slow]

RECORDS = [
    record(b"paid", b"order 1"),
    record(None, b"without a key"),
    record(b"paid", None),
    record(b"", b""),
    record(bytes(range(256)), bytes(range(256)) * 20, time_ms=BORN_MS + 1),
    record("schlüssel".encode(), "größe".encode(), ("trace", b"\x00\xff"), ("empty", b""), ("größe", b"1"), time_ms=BORN_MS + 5),
    record(b"k" * 300, b"long key", time_ms=BORN_MS + 3),
]
REPEATED_HEADERS = record(b"twice", b"", ("a", b"1"), ("b", b""), ("a", b"2"))
NULL_HEADER = record(b"null", b"", ("a", None))

READING = [one for one in FAMILIES.values() if one.has_assignments]
IDEMPOTENT = [one for one in READING if one.is_idempotent]


def records_of(family: Family) -> list[Record]:
    """What the family can send and tell."""
    return [*RECORDS, *[REPEATED_HEADERS] * family.orders_headers, *[NULL_HEADER] * family.has_null_headers]


def read(program: Program, topic: str, count: int, *, partition: int = 0, at: Any = "earliest") -> list[Record]:
    came: list[Record] = program.call("read", topic=topic, partition=partition, at=at, count=count)
    return came


@pytest.mark.parametrize("family", in_turns(READING))
def test_records_come_back_as_they_were_sent(players: Players, family: Family, name: str) -> None:
    program, sent = players[family], records_of(family)
    program.call("create", topic=name, partitions=2)
    places = program.call("produce", topic=name, records=sent)
    assert places == [{"partition": 0, "offset": offset} for offset in range(len(sent))]
    came = read(program, name, len(sent))
    assert told(came, family) == told(sent, family)
    assert [(one["partition"], one["offset"]) for one in came] == [(0, offset) for offset in range(len(sent))]


@pytest.mark.parametrize("family", in_turns(READING))
def test_every_compression_of_a_client_is_taken(players: Players, family: Family, name: str) -> None:
    program, rows = players[family], [record(b"k", b"compressible " * 50 + b"%d" % number) for number in range(20)]
    program.call("create", topic=name)
    for codec in family.codecs:
        program.call("produce", topic=name, records=rows, compression=codec)
    assert told(read(program, name, len(rows) * len(family.codecs))) == told(rows * len(family.codecs))


@pytest.mark.parametrize("family", in_turns(READING))
def test_each_family_reads_what_the_others_wrote(players: Players, family: Family, name: str) -> None:
    writers = together()
    players[family].call("create", topic=name, partitions=len(writers))
    written = [
        players[writer].start(
            "produce",
            topic=name,
            records=[{**one, "partition": partition} for one in RECORDS],
            compression=writer.codecs[partition % len(writer.codecs)],
        )
        for partition, writer in enumerate(writers)
    ]
    for partition, (writer, outcome) in enumerate(zip(writers, written, strict=True)):
        outcome.result(60)
        came = read(players[family], name, len(RECORDS), partition=partition)
        assert told(came, writer, family) == told(RECORDS, writer, family), writer.name


@pytest.mark.parametrize("family", in_turns(READING))
def test_a_place_is_found_by_time(players: Players, family: Family, name: str) -> None:
    program, times_ms = players[family], [BORN_MS, BORN_MS + 1000, BORN_MS + 3000]
    program.call("create", topic=name)
    program.call("produce", topic=name, records=[record(None, b"%d" % at, time_ms=at) for at in times_ms], one_by_one=True)
    expected = {BORN_MS - 1: 0, BORN_MS: 0, BORN_MS + 1: 1, BORN_MS + 1001: 2, BORN_MS + 3000: 2}
    assert {at: program.call("offset", topic=name, at={"time_ms": at}) for at in expected} == expected
    if family.name not in {"sarama", "kafka-go"}:  # which give whatever they are answered
        assert program.call("offset", topic=name, at={"time_ms": BORN_MS + 3001}) is None
    assert [program.call("offset", topic=name, at=at) for at in ("earliest", "latest")] == [0, 3]
    assert [one["offset"] for one in read(program, name, 2, at={"time_ms": BORN_MS + 1})] == [1, 2]
    assert [one["offset"] for one in read(program, name, 1, at=2)] == [2]


@pytest.mark.parametrize("family", in_turns(IDEMPOTENT))
def test_an_idempotent_producer_writes_each_record_once(players: Players, family: Family, name: str) -> None:
    program = players[family]
    program.call("create", topic=name, partitions=2)
    rows = [{**record(b"k", b"%d" % number), "partition": number % 2} for number in range(100)]
    places = program.call("produce", topic=name, records=rows, idempotent=True, batch_bytes=1000)
    assert [one["offset"] for one in places] == [number // 2 for number in range(100)]
    for partition in range(2):
        came = read(program, name, 50, partition=partition)
        assert [int(value_of(one)) for one in came] == list(range(partition, 100, 2))


@pytest.mark.parametrize("family", in_turns(one for one in FAMILIES.values() if one.has_transactions))
def test_a_transactional_producer_is_refused(players: Players, family: Family, name: str) -> None:
    program = players[family]
    program.call("create", topic=name)
    with pytest.raises(ProgramError) as refused:
        program.call("produce", topic=name, records=[record(b"k", b"v")], transactional_id=name, timeout_s=4)
    assert "Timeout" not in refused.value.type
    text = str(refused.value).replace("_", " ")
    assert re.search(family.without_transactions, text, re.IGNORECASE), text
    assert program.call("offset", topic=name, at="latest") == 0


@pytest.mark.parametrize("family", in_turns())
def test_an_unknown_topic_is_refused(players: Players, lake: penstock.Lake, family: Family, name: str) -> None:
    with pytest.raises(ProgramError) as refused:
        players[family].call("produce", topic=name, records=[record(b"k", b"v")], create_topics=True, timeout_s=2)
    # Some only ask again until their time is over.
    assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or "Timeout" in refused.value.type
    assert name not in lake.topics()


@pytest.mark.parametrize("family", in_turns())
def test_an_unknown_topic_is_made_where_the_gateway_may(makers: Players, family: Family, name: str) -> None:
    program, sent = makers[family], [record(b"k", b"v")]
    assert program.call("produce", topic=name, records=sent, create_topics=True) == [{"partition": 0, "offset": 0}]
    if family.has_assignments:
        assert told(read(program, name, 1)) == told(sent)
    assert [program.call("offset", topic=name, partition=one, at="latest") for one in range(4)] == [1, 0, 0, 0]
