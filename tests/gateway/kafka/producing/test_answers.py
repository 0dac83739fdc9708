"""What a producer is told of a batch that is not in the log, or not yet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import ProduceResponse

from penstock.gateway.kafka.gateway import KafkaGateway
from penstock.gateway.kafka.producing.forming import RECORDS_TOLD_MAX
from penstock.gateway.kafka.records.batches import batch_of
from penstock.gateway.kafka.wire.apis import APIS, ApiKey
from penstock.gateway.kafka.wire.errors import ErrorCode
from penstock.log import MessageType, TopicSettings
from penstock.log.stores import MemoryStore
from penstock.log.stores.protocol import ObjectStore
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from tests.gateway.kafka.records.oracle import NOW_MS, Record, built
from tests.gateway.kafka.serving import consumer, served, taken
from tests.gateway.kafka.stage import Client
from tests.gateway.kafka.wire.test_records_by_hand import produce_request

VERSION = APIS[ApiKey.PRODUCE].highest
MIXED = TopicSettings(message_type=MessageType.MIXED, queues=1)
T = TypeVar("T")


class HeldStore(StoreWrapper):
    """Holds writes while it is closed."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.opened = asyncio.Event()
        self.opened.set()

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        if call.is_write:
            await self.opened.wait()
        return await run()


@asynccontextmanager
async def client(gateway: KafkaGateway) -> AsyncIterator[Client]:
    made = Client(*await asyncio.open_connection("127.0.0.1", gateway.port))
    try:
        yield made
    finally:
        await made.close()


async def told(client: Client, records: Sequence[Record], **stated: Any) -> Any:
    """The answer for a batch."""
    request = produce_request(VERSION, [("orders", [(0, bytes(built(records).data))])], **stated)
    client.send(ApiKey.PRODUCE, VERSION, request)
    _, answer = await client.answer()
    return ProduceResponse.decode(answer[1:], version=VERSION).responses[0].partition_responses[0]


async def test_an_append_that_takes_longer_than_the_request_allows_is_told_so_and_written_nevertheless() -> None:
    store = HeldStore(MemoryStore())
    async with served(store) as gateway, client(gateway) as asking:
        await gateway.lake.create_topic("orders", MIXED)
        assert (await told(asking, [Record(value=b"1")], timeout_ms=5_000)).error_code == ErrorCode.NONE
        store.opened.clear()
        late = await told(asking, [Record(value=b"2")], timeout_ms=1)
        assert late.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert "the append is under way" in late.error_message
        store.opened.set()
        assert (await told(asking, [Record(value=b"3")], timeout_ms=0)).base_offset == 2
        async with consumer(gateway, topic="orders") as consuming:
            assert [one.value for one in await taken(consuming, 3)] == [b"1", b"2", b"3"]


@pytest.mark.parametrize("time_ms", [-1, -NOW_MS, 253_402_300_800_000])
async def test_a_time_that_nobody_can_show_is_refused_as_such_and_its_record_named(time_ms: int) -> None:
    async with served() as gateway, client(gateway) as asking:
        await gateway.lake.create_topic("orders", MIXED)
        refused = await told(asking, [Record(), Record(timestamp=time_ms), Record()])
        assert refused.error_code == ErrorCode.INVALID_TIMESTAMP
        assert [(one.batch_index, one.batch_index_error_message) for one in refused.record_errors] == [(1, refused.error_message)]
        assert "1970" in refused.error_message


async def test_the_records_without_a_key_are_named_where_each_is_to_have_one() -> None:
    async with served() as gateway, client(gateway) as asking:
        await gateway.lake.create_topic("orders", TopicSettings(message_type=MessageType.FIFO, queues=1))
        refused = await told(asking, [Record(), Record(key=None), Record(), Record(key=None)])
        assert refused.error_code == ErrorCode.INVALID_RECORD
        assert [one.batch_index for one in refused.record_errors] == [1, 3]
        assert (await told(asking, [Record(), Record()])).base_offset == 0


async def test_no_more_records_are_named_than_an_answer_has_room_for() -> None:
    async with served() as gateway, client(gateway) as asking:
        await gateway.lake.create_topic("orders", TopicSettings(message_type=MessageType.FIFO, queues=1))
        refused = await told(asking, [Record(key=None)] * (RECORDS_TOLD_MAX + 1))
        assert [one.batch_index for one in refused.record_errors] == list(range(RECORDS_TOLD_MAX))
        assert f"{RECORDS_TOLD_MAX + 1} of {RECORDS_TOLD_MAX + 1} are not so" in refused.error_message


@pytest.mark.parametrize("forged", [{"producer_epoch": -1}, {"base_sequence": -1}, {"producer_id": -5}, {"attributes": 1 << 5}])
async def test_a_batch_that_is_numbered_by_halves_is_refused_by_itself(forged: dict[str, int]) -> None:
    async with served() as gateway, client(gateway) as asking:
        await gateway.lake.create_topic("orders", TopicSettings(message_type=MessageType.MIXED, queues=2))
        sound = built([Record()])
        header = sound.header._replace(producer_id=7, producer_epoch=0, base_sequence=0)
        bad = batch_of(header._replace(**forged), bytes(sound.payload))
        asking.send(ApiKey.PRODUCE, VERSION, produce_request(VERSION, [("orders", [(0, bytes(sound.data)), (1, bytes(bad.data))])]))
        _, answer = await asking.answer()
        parts = ProduceResponse.decode(answer[1:], version=VERSION).responses[0].partition_responses
        assert [part.error_code for part in parts] == [ErrorCode.NONE, ErrorCode.INVALID_RECORD]


async def test_a_record_from_the_future_is_refused_so_that_others_are_found_by_their_time() -> None:
    async with served() as gateway, client(gateway) as asking:
        await gateway.lake.create_topic("orders", MIXED)
        now_ms, hour_ms = gateway.lake.runtime.clock.wall_ms(), 3_600_000
        assert (await told(asking, [Record(timestamp=now_ms + hour_ms - 60_000)])).base_offset == 0
        refused = await told(asking, [Record(timestamp=now_ms), Record(timestamp=now_ms + hour_ms + 60_000)])
        assert refused.error_code == ErrorCode.INVALID_TIMESTAMP
        assert [one.batch_index for one in refused.record_errors] == [1]


async def test_a_topic_takes_the_times_that_it_says_and_any_where_its_own_are_shown() -> None:
    hour_ms = 3_600_000
    bounded = replace(MIXED, configs=(("message.timestamp.before.max.ms", str(hour_ms)),))
    for settings, code in (
        (bounded, ErrorCode.INVALID_TIMESTAMP),
        (replace(bounded, configs=(*bounded.configs, ("message.timestamp.type", "LogAppendTime"))), ErrorCode.NONE),
    ):
        async with served() as gateway, client(gateway) as asking:
            await gateway.lake.create_topic("orders", settings)
            now_ms = gateway.lake.runtime.clock.wall_ms()
            answer = await told(asking, [Record(timestamp=now_ms), Record(timestamp=now_ms - 2 * hour_ms)])
            assert answer.error_code == code
            assert [one.batch_index for one in answer.record_errors] == ([1] if code else [])
            assert (await told(asking, [Record(timestamp=now_ms - hour_ms // 2)])).error_code == ErrorCode.NONE


async def test_a_producer_in_a_transaction_is_told_that_there_are_none() -> None:
    async with served() as gateway, client(gateway) as asking:
        await gateway.lake.create_topic("orders", MIXED)
        refused = await told(asking, [Record()], transactional_id="billing")
        assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert "no transactions" in refused.error_message


@pytest.mark.parametrize("topics", [None, ["orders"]])
async def test_a_gateway_goes_by_the_configs_that_another_one_set(
    topics: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its next look at the topic on: when a client asks for metadata, after some seconds, which pass at once here."""
    monkeypatch.setattr("penstock.gateway.kafka.topics.metadata._NAMES_S", -1.0)
    store = MemoryStore()
    async with served(store) as one, served(store) as other, client(other) as asking:
        await one.lake.create_topic("orders", MIXED)
        assert (await told(asking, [Record(key=None)])).error_code == ErrorCode.NONE
        await one.lake.alter_topic("orders", configs=(("cleanup.policy", "compact"),))
        named = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        asking.send(ApiKey.METADATA, 4, MetadataRequest(version=4, topics=named, allow_auto_topic_creation=False).encode())
        await asking.answer()
        assert (await told(asking, [Record(key=None)])).error_code == ErrorCode.INVALID_RECORD
