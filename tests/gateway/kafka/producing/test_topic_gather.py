"""What several clients produce at once becomes one entry, and a refused batch takes along only those behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from penstock import aio
from penstock.aio import Lake, TopicSettings
from penstock.gateway.kafka.producing.topic_gather import PendingBatch, TopicGather
from penstock.gateway.kafka.records.batches import KafkaBatch, batch_of
from penstock.gateway.kafka.records.decoding import RECORDS_SCHEMA
from penstock.gateway.kafka.records.encoding import encode
from penstock.gateway.kafka.tail.batch_cache import BatchCache, TopicPartition
from penstock.gateway.kafka.wire.errors import ErrorCode, KafkaRefusal
from penstock.log import MessageType
from penstock.log.limits import TopicLimits
from penstock.log.metrics import MemoryMetrics
from penstock.log.stores import MemoryStore

BODY_BYTES_MAX = 100
SETTINGS = TopicSettings(message_type=MessageType.MIXED, queues=2, limits=TopicLimits(max_body_bytes=BODY_BYTES_MAX))


@asynccontextmanager
async def gathering() -> AsyncIterator[tuple[Lake, TopicGather, BatchCache]]:
    async with aio.connect(store=MemoryStore(), maintenance=False) as lake:
        await lake.create_topic("orders", SETTINGS)
        cache = BatchCache()
        yield lake, TopicGather(await lake.topic("orders"), lake, cache, MemoryMetrics()), cache


def pending(
    *values: bytes, queue: int = 0, producer: int = -1, first: int = -1, epoch: int = 0, principal: str = ""
) -> PendingBatch:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    rows = pa.RecordBatch.from_pylist(
        [{"offset_delta": at, "timestamp": now, "value": value} for at, value in enumerate(values)], RECORDS_SCHEMA
    )
    (plain,) = encode(rows, base_offset=0, leader_epoch=-1)
    header = plain.header._replace(producer_id=producer, producer_epoch=epoch if first >= 0 else -1, base_sequence=first)
    return PendingBatch(queue, batch_of(header, bytes(plain.payload)), principal)


async def outcomes(gather: TopicGather, *added: PendingBatch) -> list[int | ErrorCode | None]:
    for one in added:
        gather.add(one)
    found = await asyncio.gather(*(one.base_offset for one in added), return_exceptions=True)
    return [one.code if isinstance(one, KafkaRefusal) else one for one in found]  # type: ignore[misc]


async def test_batches_of_one_turn_are_one_entry_with_dense_offsets_in_their_order() -> None:
    async with gathering() as (lake, gather, cache):
        tail = (await lake.topic("orders")).tail
        before = tail.state.entry
        added = [pending(b"a", b"b"), pending(b"c", queue=1), pending(b"d"), pending(b"e", queue=1)]
        assert await outcomes(gather, *added) == [0, 0, 2, 1]
        assert tail.state.entry == before + 1
        incarnation = (await lake.topic("orders")).record.incarnation
        assert [one.limit_offset for one in cache.from_offset(TopicPartition(incarnation, 0), 1)] == [2, 3]


async def test_a_batch_with_a_record_that_the_topic_does_not_take_is_refused_by_itself() -> None:
    async with gathering() as (_, gather, __):
        large = pending(b"fine", bytes(BODY_BYTES_MAX + 1))
        assert await outcomes(gather, pending(b"a"), large, pending(b"b")) == [0, ErrorCode.MESSAGE_TOO_LARGE, 1]


async def test_what_is_behind_a_refused_batch_of_its_producer_does_not_overtake_it() -> None:
    async with gathering() as (_, gather, __):
        refused = pending(bytes(BODY_BYTES_MAX + 1), producer=7, first=0)
        behind = pending(b"behind", producer=7, first=1)
        elsewhere = pending(b"elsewhere", queue=1, producer=7, first=0)
        found = await outcomes(gather, refused, behind, elsewhere, pending(b"other", producer=8, first=0))
        assert found == [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0, 0]


async def test_what_came_during_the_append_of_a_refused_batch_does_not_overtake_it_either() -> None:
    async with gathering() as (_, gather, __):
        refused, behind = pending(bytes(BODY_BYTES_MAX + 1), producer=7, first=0), pending(b"behind", producer=7, first=1)
        gather.add(refused)
        await asyncio.sleep(0)  # its append begins
        assert not refused.base_offset.done()
        assert await outcomes(gather, behind, pending(b"other")) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0]
        assert refused.base_offset.done()


async def test_batches_that_cannot_be_read_are_refused_and_the_others_written() -> None:
    async with gathering() as (_, gather, __):
        sound = pending(b"a")
        header, data = sound.batch
        damaged = PendingBatch(0, KafkaBatch(header._replace(record_count=5), data))
        assert await outcomes(gather, sound, damaged, pending(b"b")) == [0, ErrorCode.INVALID_RECORD, 1]


async def test_whoever_waits_hears_of_a_topic_that_was_deleted() -> None:
    async with gathering() as (lake, gather, _):
        await lake.delete_topic("orders")
        lost = pending(b"a")
        gather.add(lost)
        with pytest.raises(Exception, match="orders"):
            await lost.base_offset


async def test_a_batch_that_comes_again_is_answered_with_the_offset_that_it_has() -> None:
    async with gathering() as (_, gather, __):
        first, behind = pending(b"a", b"b", producer=7, first=0), pending(b"c", producer=7, first=2)
        again = pending(b"a", b"b", producer=7, first=0)
        assert await outcomes(gather, first, behind, pending(b"other"), again) == [0, 2, 3, 0]
        assert await outcomes(gather, pending(b"c", producer=7, first=2), pending(b"d", producer=7, first=3)) == [2, 4]


async def test_a_batch_that_says_to_be_another_is_not_fetched_in_its_place() -> None:
    async with gathering() as (lake, gather, cache):
        topic = await lake.topic("orders")
        elsewhere = TopicGather(topic, lake, BatchCache(), MemoryMetrics())
        assert await outcomes(gather, pending(b"first", queue=1)) == [0]
        assert await outcomes(elsewhere, pending(b"a", producer=7, first=0)) == [0]
        assert await outcomes(gather, pending(b"forged", producer=7, first=0)) == [0]
        assert list(cache.from_offset(TopicPartition(topic.record.incarnation, 0), 0)) == [], "the log has another"


async def test_a_producers_id_counts_among_those_of_its_principal() -> None:
    async with gathering() as (_, gather, __):
        assert await outcomes(gather, pending(b"a", producer=7, first=0, principal="shop")) == [0]
        poisoned = [
            pending(b"x", producer=7, first=1, principal="other"),
            pending(b"y", producer=7, first=0, epoch=9, principal="other"),
        ]
        assert await outcomes(gather, *poisoned) == [1, 2], "it may send, but for itself"
        assert await outcomes(gather, pending(b"b", producer=7, first=1, principal="shop")) == [3], "neither a duplicate nor fenced"


async def test_a_refused_batch_holds_up_its_principals_producer_alone() -> None:
    async with gathering() as (_, gather, __):
        refused = pending(bytes(BODY_BYTES_MAX + 1), producer=7, first=0, principal="other")
        found = await outcomes(gather, refused, pending(b"a", producer=7, first=0, principal="shop"))
        assert found == [ErrorCode.MESSAGE_TOO_LARGE, 0]


async def test_a_retry_at_another_gateway_counts_once() -> None:
    store = MemoryStore()
    async with aio.connect(store=store, maintenance=False) as here, aio.connect(store=store, maintenance=False) as there:
        await here.create_topic("orders", SETTINGS)
        gathers = [TopicGather(await lake.topic("orders"), lake, BatchCache(), MemoryMetrics()) for lake in (here, there)]
        assert await outcomes(gathers[0], pending(b"a", producer=7, first=0), pending(b"b", producer=7, first=1)) == [0, 1]
        retried = await outcomes(gathers[1], pending(b"b", producer=7, first=1), pending(b"c", producer=7, first=2))
        assert retried[0] in (1, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
        assert retried[1] == 2
        assert await outcomes(gathers[0], pending(b"e", producer=7, first=9)) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]


async def test_more_than_one_append_takes_waits_for_the_next() -> None:
    async with gathering() as (lake, gather, _):
        tail = (await lake.topic("orders")).tail
        before = tail.state.entry
        many = [pending(*[b"x"] * 9_000) for _ in range(5)]
        assert await outcomes(gather, *many) == [0, 9_000, 18_000, 27_000, 36_000]
        assert tail.state.entry == before + 3


async def test_a_drain_without_patience_writes_what_is_on_its_way_and_refuses_what_waits() -> None:
    async with gathering() as (_, gather, __):
        on_its_way, waiting = pending(b"a"), pending(b"b")
        gather.add(on_its_way)
        await asyncio.sleep(0)
        gather.add(waiting)
        await gather.drain(0)
        assert await on_its_way.base_offset == 0
        with pytest.raises(KafkaRefusal):
            await waiting.base_offset
