"""What a process remembers of a topic's table, for all who read the topic: what was deleted, damaged or collected does not mislead it."""

from __future__ import annotations

import pytest

from penstock.log import DataDamaged, LogLake, Message, TopicSettings
from penstock.log.paths import TopicPaths
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores import CountingStore, MemoryStore, Put
from penstock.log.table.compactor import Compactor
from penstock.log.table.delta.delta_log import DeltaLog
from penstock.log.table.publisher import Publisher
from penstock.log.topic.records import read_record

PATHS = TopicPaths.of("orders")
RUNTIME = Runtime(threads=False)


async def send(lake: LogLake, *bodies: bytes) -> None:
    producer = await lake.producer("orders")
    for body in bodies:
        producer.send(Message(body))
    await producer.close()


async def publish(lake: LogLake) -> None:
    found = await read_record(lake.store, PATHS)
    assert found is not None
    await Publisher(lake.store, PATHS, found[0], RUNTIME).publish_once()


async def read(lake: LogLake) -> list[bytes]:
    return [one.content async for one in (await lake.reader("orders")).messages()]


async def table_files(store: MemoryStore) -> list[str]:
    return [one.key for one in await store.list(PATHS.table("table") + "queue=")]


async def test_a_table_is_loaded_once_for_all_readers_of_a_topic() -> None:
    store = CountingStore(MemoryStore())
    async with LogLake(store, runtime=RUNTIME) as lake:
        await lake.create_topic("orders", TopicSettings(queues=1))
        await send(lake, b"1")
        await publish(lake)
        await (await lake.reader("orders")).offsets()
        before = store.statistics()
        await (await lake.reader("orders")).offsets()
        cost = store.statistics() - before
        assert (cost.get.requests, cost.list.requests) == (2, 0)  # the next version and the next entry are not there


async def test_a_topic_that_was_made_again_is_not_read_by_its_former_table() -> None:
    store = MemoryStore()
    async with LogLake(store, runtime=RUNTIME) as reading, LogLake(store, runtime=RUNTIME) as lake:
        await lake.create_topic("orders", TopicSettings(queues=1))
        await send(lake, b"old")
        await publish(lake)
        assert await read(reading) == [b"old"]
        assert (await reading.describe_topic("orders")).messages == 1
        await lake.delete_topic("orders")
        await lake.create_topic("orders", TopicSettings(queues=1))
        await send(lake, b"new", b"newer")
        await publish(lake)
        await (await reading.topic("orders")).tail.catch_up()
        assert await read(reading) == [b"new", b"newer"]
        assert (await reading.describe_topic("orders")).messages == 2


async def test_files_that_were_merged_and_collected_are_looked_up_again() -> None:
    store = MemoryStore()
    async with LogLake(store, runtime=RUNTIME) as reading, LogLake(store, runtime=RUNTIME) as lake:
        await lake.create_topic("orders", TopicSettings(queues=1))
        for body in (b"1", b"2", b"3"):
            await send(lake, body)
            await publish(lake)
        reader = await reading.reader("orders")
        ends = await reader.offsets()
        before = await table_files(store)
        await Compactor(store, DeltaLog(store, PATHS, "table", RUNTIME), RUNTIME, fan_in=3).compact_once()
        for key in before:
            await store.delete(key)
        found = [row async for batch in reader.ranges({0: ends[0]}, columns=["body"]) for row in batch["body"].to_pylist()]
        assert found == [b"1", b"2", b"3"]
        assert set(await reader.stored_at({0: 1})) == {0}
        assert not reader.left_out


async def test_a_table_that_was_put_back_is_read_again() -> None:
    """What a process remembers of a version must not outlast a repair, even one that leads to an earlier version."""
    store = MemoryStore()
    async with LogLake(store, runtime=RUNTIME) as reading, LogLake(store, runtime=RUNTIME) as lake:
        await lake.create_topic("orders", TopicSettings(queues=1))
        await send(lake, b"1")
        await publish(lake)
        copied = {one.key: (await store.get(one.key)).data for one in await store.list(PATHS.table("table"))}
        await send(lake, b"2")
        await publish(lake)
        assert await read(reading) == [b"1", b"2"]
        for one in await store.list(PATHS.table("table")):
            await store.delete(one.key)
        with pytest.raises(DataDamaged, match="no such object"):
            await read(reading)
        for key, data in copied.items():
            await store.put(key, data, mode=Put.CREATE)
        assert await read(reading) == [b"1", b"2"]


async def test_a_damaged_file_is_named_and_read_again_once_it_is_mended() -> None:
    store = MemoryStore()
    async with LogLake(store, runtime=RUNTIME) as reading, LogLake(store, runtime=RUNTIME) as lake:
        await lake.create_topic("orders", TopicSettings(queues=1))
        await send(lake, b"1")
        await publish(lake)
        await (await reading.reader("orders")).offsets()
        (file,) = await table_files(store)
        data = (await store.get(file)).data
        await store.put(file, data[: len(data) // 2], mode=Put.REPLACE)
        with pytest.raises(DataDamaged, match=file):
            await read(reading)
        assert (await reading.describe_topic("orders")).sampled == 0
        await store.put(file, data, mode=Put.REPLACE)
        assert (await reading.describe_topic("orders")).sampled == 1


async def test_a_reader_that_remembers_asks_once_for_what_lies_in_the_table() -> None:
    store = CountingStore(MemoryStore())
    async with LogLake(store, runtime=RUNTIME) as lake:
        await lake.create_topic("orders", TopicSettings(queues=1))
        await send(lake, b"1", b"2")
        await publish(lake)
        reader = await lake.reader("orders")
        ends = await reader.offsets()
        reader.remember(1 << 20)
        costs = []
        for _ in range(2):
            before = store.statistics()
            assert [batch.num_rows async for batch in reader.ranges({0: ends[0]})] == [2]
            costs.append((store.statistics() - before).get.requests)
        assert costs == [1, 0]
