"""A group described from outside: what retention dropped, topics that were made again, and what a look at it may spare."""

from __future__ import annotations

from datetime import timedelta

from penstock import aio
from penstock.log import Message, ProducerOptions, TopicSettings
from penstock.log.paths import TopicPaths
from penstock.log.stores import MemoryStore
from penstock.log.table.delta.delta_log import DeltaLog
from penstock.log.table.publisher import Publisher
from penstock.log.table.retention import removal
from penstock.log.topic.records import read_record

PATHS = TopicPaths.of("orders")


async def fill(lake: aio.Lake, messages: int) -> None:
    await lake.create_topic("orders", TopicSettings(queues=1))
    producer = await lake.producer("orders", options=ProducerOptions(linger=timedelta(0)))
    for _ in range(messages):
        await producer.send(Message(b"x"))
    await producer.close()


async def publish(lake: aio.Lake) -> None:
    found = await read_record(lake.store, PATHS)
    assert found is not None
    await Publisher(lake.store, PATHS, found[0], lake.runtime).publish_once()


async def drop_all(lake: aio.Lake) -> None:
    """What retention does with a table whose rows are all too old."""
    delta = DeltaLog(lake.store, PATHS, "table", lake.runtime)
    snapshot = await delta.refresh()
    assert await delta.commit(removal(snapshot.files, await lake.store.clock_ms()), on=snapshot, started_s=delta.now_s)


async def test_what_retention_dropped_counts_at_once_unless_the_caller_can_wait() -> None:
    async with aio.connect(store=MemoryStore(), maintenance=False) as lake:
        await fill(lake, 3)
        await publish(lake)
        await lake.create_group("billing")
        await lake.reset_offsets("billing", "orders", "earliest")
        assert (await lake.describe_group("billing")).lag == 3
        await drop_all(lake)
        assert (await lake.describe_group("billing", table_age=timedelta(minutes=1))).lag == 3
        assert (await lake.describe_group("billing")).lag == 0


async def test_a_topic_that_was_made_again_is_described_as_it_is_now() -> None:
    store = MemoryStore()
    async with aio.connect(store=store, maintenance=False) as seeing, aio.connect(store=store, maintenance=False) as lake:
        await fill(lake, 3)
        await publish(lake)
        await lake.create_group("billing")
        await lake.reset_offsets("billing", "orders", "earliest")
        age = timedelta(minutes=1)
        (one,) = (await seeing.describe_group("billing", table_age=age)).queues
        assert (one.next_offset, one.lag) == (3, 3)
        await lake.delete_topic("orders")
        (one,) = (await seeing.describe_group("billing", table_age=age)).queues
        assert (one.next_offset, one.lag) == (None, 0)
        await fill(lake, 1)
        (one,) = (await seeing.describe_group("billing", table_age=age)).queues
        assert (one.next_offset, one.lag, one.committed_offset) == (1, 1, 0)
