"""Records of Kafka's clients through gateways, beside native producers and consumers of the same topics."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError, MessageSizeTooLargeError, UnknownTopicOrPartitionError

from penstock import Message
from penstock.aio import TopicSettings
from penstock.gateway.kafka.wire.apis import ApiKey
from penstock.log import MessageType, StoreUnavailable
from penstock.log.limits import TopicLimits
from penstock.log.paths import TopicPaths
from penstock.log.stores import MemoryStore
from penstock.log.stores.faults import Fault, FaultKind, FaultStore
from tests.gateway.kafka.records.oracle import Record, built
from tests.gateway.kafka.serving import consumer, producer, served, taken
from tests.gateway.kafka.stage import Client
from tests.gateway.kafka.wire.test_records_by_hand import produce_request

LOG_APPEND_TIME, BORN_MS = 1, 1_700_000_000_000
MIXED = TopicSettings(message_type=MessageType.MIXED, queues=4)


@pytest.mark.parametrize("compression", [None, "gzip"])
async def test_records_come_back_as_they_were_sent(compression: str | None) -> None:
    headers = [("trace", b"\x00\xff"), ("trace", None), ("naïve", b"")]
    given = ((b"paid", b"user-7", 1_700_000_000_001), (None, b"\xff\x00", 1_700_000_000_002), (b"", None, 3))
    async with served() as gateway, producer(gateway, compression_type=compression) as sending:
        await gateway.lake.create_topic("server.public.orders", MIXED)
        for offset, (value, key, at_ms) in enumerate(given):
            sent = await sending.send_and_wait(
                "server.public.orders", value, key=key, headers=headers, partition=2, timestamp_ms=at_ms
            )
            assert sent.offset == offset
        async with consumer(gateway, topic="server.public.orders", partitions=(2,)) as consuming:
            records = await taken(consuming, 3)
    assert [(one.value, one.key, one.timestamp) for one in records] == list(given)
    assert {one.headers for one in records} == {tuple(headers)}


async def test_rows_that_no_client_of_a_gateway_sent_are_read_from_the_log() -> None:
    store = MemoryStore()
    async with served(store) as first, producer(first) as sending:
        await first.lake.create_topic("orders", MIXED)
        for number in range(5):
            await sending.send_and_wait("orders", b"%d" % number, key=b"k", headers=[("h", b"1")], partition=1)
        native = await first.lake.producer("orders")
        await native.send(Message(b"5", message_group="g", tag="t", keys=["a"], properties={"p": "q"}), queue=1)
    async with served(store) as second, consumer(second, topic="orders", partitions=(1,)) as consuming:
        records = await taken(consuming, 6)
        assert [(one.offset, one.value) for one in records] == [(number, b"%d" % number) for number in range(6)]
        assert records[0].headers == (("h", b"1"),)
        assert records[5].key == b"g"
        assert dict(records[5].headers) == {"p": b"q", "penstock.tag": b"t", "penstock.keys": b"a"}
        consuming.seek(TopicPartition("orders", 1), 3)
        assert [one.offset for one in await taken(consuming, 3)] == [3, 4, 5]


async def test_native_consumers_get_what_kafkas_clients_sent_with_the_key_as_message_group() -> None:
    async with served() as gateway, producer(gateway) as sending:
        await gateway.lake.create_topic("orders", MIXED)
        for number in range(3):
            await sending.send_and_wait("orders", b"%d" % number, key=b"user-7", headers=[("h", b"1")])
        async with gateway.lake.simple_consumer("orders", group="audit", delivery_order="ORDERLY") as consuming:
            messages = await consuming.receive(3, await_duration=timedelta(seconds=20))
    assert [(one.body, one.message_group) for one in messages] == [(b"%d" % number, "user-7") for number in range(3)]
    assert messages[0].headers == (("h", b"1"),)


async def test_a_waiting_fetch_is_answered_by_a_native_send() -> None:
    async with served() as gateway:
        await gateway.lake.create_topic("orders", MIXED)
        async with consumer(gateway, topic="orders", partitions=(0, 1, 2, 3)) as consuming:
            waiting = asyncio.ensure_future(taken(consuming, 1))
            await asyncio.sleep(0)
            native = await gateway.lake.producer("orders")
            await native.send(Message(b"paid"), queue=3)
            assert [(one.partition, one.value) for one in await waiting] == [(3, b"paid")]


async def test_topics_of_types_normal_and_fifo_take_what_they_take_of_others() -> None:
    async with served() as gateway, producer(gateway) as sending:
        await gateway.lake.create_topic("normal", TopicSettings(queues=1))
        await gateway.lake.create_topic("fifo", TopicSettings(message_type=MessageType.FIFO, queues=1))
        await sending.send_and_wait("normal", b"1", key=b"k")
        await sending.send_and_wait("fifo", b"1", key=b"k")
        with pytest.raises(KafkaError):
            await sending.send_and_wait("fifo", b"2")
        await sending.send_and_wait("fifo", b"3", key=b"k")
        for topic, values in (("normal", [b"1"]), ("fifo", [b"1", b"3"])):
            async with consumer(gateway, topic=topic) as consuming:
                assert [(one.key, one.value) for one in await taken(consuming, len(values))] == [(b"k", one) for one in values]


async def test_a_batch_that_is_refused_harms_no_other_of_the_same_append() -> None:
    small = TopicSettings(message_type=MessageType.MIXED, queues=1, limits=TopicLimits(max_body_bytes=100))
    async with served() as gateway, producer(gateway, linger_ms=0) as one, producer(gateway) as other:
        await gateway.lake.create_topic("orders", small)
        outcomes = await asyncio.gather(
            *(one.send_and_wait("orders", bytes(10)) for _ in range(5)),
            other.send_and_wait("orders", bytes(101)),
            *(one.send_and_wait("orders", bytes(10)) for _ in range(5)),
            return_exceptions=True,
        )
        assert [type(outcome) for outcome in outcomes if isinstance(outcome, Exception)] == [MessageSizeTooLargeError]
        async with consumer(gateway, topic="orders") as consuming:
            assert {len(record.value) for record in await taken(consuming, 10)} == {10}


async def test_offsets_are_found_by_time_and_by_the_ends() -> None:
    async with served() as gateway, producer(gateway) as sending:
        await gateway.lake.create_topic("orders", MIXED)
        times_ms = [int((datetime.now(UTC) - timedelta(minutes=minutes)).timestamp() * 1000) for minutes in (3, 2, 1)]
        for at_ms in times_ms:
            await sending.send_and_wait("orders", b"", partition=0, timestamp_ms=at_ms)
        place = TopicPartition("orders", 0)
        async with consumer(gateway, topic="orders") as consuming:
            assert await consuming.beginning_offsets([place]) == {place: 0}
            assert await consuming.end_offsets([place]) == {place: 3}
            for number, at_ms in enumerate(times_ms):
                for asked_ms in (at_ms - 1, at_ms):
                    found = (await consuming.offsets_for_times({place: asked_ms}))[place]
                    assert (found.offset, found.timestamp) == (number, at_ms)
            assert (await consuming.offsets_for_times({place: times_ms[-1] + 1}))[place] is None


async def test_clients_are_shown_when_a_record_was_stored_where_the_topic_says_so() -> None:
    """The producer hears it, the batch as it came has it, and rows that are read from the log have the same."""
    store, place = MemoryStore(), TopicPartition("orders", 0)
    settings = replace(MIXED, configs=(("message.timestamp.type", "LogAppendTime"),))
    async with served(store) as gateway, producer(gateway) as sending:
        await gateway.lake.create_topic("orders", settings)
        sent = [await sending.send_and_wait("orders", b"%d" % at, partition=0, timestamp_ms=at) for at in (5, 6)]
        times_ms = [one.timestamp for one in sent]
        assert all(one.timestamp_type == LOG_APPEND_TIME and one.timestamp > BORN_MS for one in sent)
        async with consumer(gateway, topic="orders") as consuming:
            came = await taken(consuming, 2)
            found = await consuming.offsets_for_times({place: times_ms[0]})
            assert (found[place].offset, found[place].timestamp) == (0, times_ms[0])
            assert await consuming.offsets_for_times({place: times_ms[1] + 1}) == {place: None}
        assert [(one.timestamp, one.timestamp_type) for one in came] == [(at, LOG_APPEND_TIME) for at in times_ms]
    async with served(store) as other, consumer(other, topic="orders") as consuming:
        came = await taken(consuming, 2)
        assert [(one.value, one.timestamp, one.timestamp_type) for one in came] == [
            (b"%d" % at, stored_ms, LOG_APPEND_TIME) for at, stored_ms in zip((5, 6), times_ms, strict=True)
        ]


async def test_an_offset_behind_the_end_is_out_of_range() -> None:
    async with served() as gateway, producer(gateway) as sending:
        await gateway.lake.create_topic("orders", MIXED)
        await sending.send_and_wait("orders", b"", partition=0)
        async with consumer(gateway, topic="orders") as consuming:
            await taken(consuming, 1)
            consuming.seek(TopicPartition("orders", 0), 17)
            assert [one.offset for one in await taken(consuming, 1)] == [0]  # reset to the earliest


async def test_unknown_topics_are_made_where_that_is_asked_for() -> None:
    async with served() as closed, served(create_topics=True) as opened:
        async with producer(closed, request_timeout_ms=500) as sending:
            with pytest.raises(UnknownTopicOrPartitionError):
                await sending.send_and_wait("orders", b"")
        async with producer(opened, request_timeout_ms=5_000) as sending:
            await sending.send_and_wait("orders", b"")
        assert set(await opened.lake.topics()) == {"orders"}
        record = (await opened.lake.topics())["orders"]
        assert (record.settings.message_type, record.settings.queues) == (MessageType.MIXED, 4)
        assert not await closed.lake.topics()


async def test_two_gateways_of_a_lake_serve_the_same_topics_and_one_may_go() -> None:
    store = MemoryStore()
    async with served(store) as staying:
        await staying.lake.create_topic("orders", MIXED)
        async with served(store) as going, producer(going, staying) as sending:
            await sending.send_and_wait("orders", b"1", partition=0)
            await going.stop()
            await sending.send_and_wait("orders", b"2", partition=0)
        async with consumer(staying, topic="orders") as consuming:
            assert [one.value for one in await taken(consuming, 2)] == [b"1", b"2"]


async def test_a_topic_made_anew_begins_at_0_and_shows_nothing_of_its_former_life() -> None:
    async with served() as gateway, producer(gateway) as sending:
        for value in (b"former", b"later"):
            await gateway.lake.create_topic("orders", MIXED)
            await sending.client.force_metadata_update()
            sent = await sending.send_and_wait("orders", value, partition=0)
            assert sent.offset == 0
            async with consumer(gateway, topic="orders") as consuming:
                assert [one.value for one in await taken(consuming, 1)] == [value]
            await gateway.lake.delete_topic("orders")


async def test_a_topic_whose_deletion_failed_takes_and_gives_records_on() -> None:
    is_down, settings = False, TopicPaths.of("orders").settings
    faults = FaultStore(MemoryStore(), lambda _, verb, key: Fault(FaultKind.FAIL_BEFORE) if is_down and key == settings else None)
    async with served(faults) as gateway, producer(gateway) as sending:
        await gateway.lake.create_topic("orders", MIXED)
        await sending.send_and_wait("orders", b"1", partition=0)
        is_down = True
        with pytest.raises(StoreUnavailable):
            await gateway.lake.delete_topic("orders")
        is_down = False
        gateway._produce.forget_idle()  # as the sweeper does after some seconds
        await sending.send_and_wait("orders", b"2", partition=0)
        async with consumer(gateway, topic="orders") as consuming:
            assert [one.value for one in await taken(consuming, 2)] == [b"1", b"2"]


async def test_a_producer_without_acks_hears_of_a_failure_by_the_end_of_its_connection() -> None:
    async with served() as gateway:
        client = Client(*await asyncio.open_connection("127.0.0.1", gateway.port))
        await gateway.lake.create_topic("orders", MIXED)
        version, records = 8, bytes(built([Record()]).data)
        client.send(ApiKey.PRODUCE, version, produce_request(version, [("orders", [(0, records)])], acks=0))
        client.send(ApiKey.PRODUCE, version, produce_request(version, [("nowhere", [(0, records)])], acks=0))
        assert await client.is_closed()
        await client.close()
        async with consumer(gateway, topic="orders") as consuming:
            assert [one.value for one in await taken(consuming, 1)] == [Record().value]
