"""One LIST that spares requests for what has not moved, and never hides what has."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from penstock import aio
from penstock.coordinator.operators.lake_view import LakeOverview, LakeView
from penstock.coordinator.operators.listed_ends import ListedEnds
from penstock.log import Message, ProducerOptions, TopicSettings
from penstock.log.paths import TopicPaths
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores import CountingStore, MemoryStore, Put
from penstock.log.stores.protocol import ObjectInfo
from penstock.log.table.delta.delta_log import DeltaLog
from penstock.log.table.publisher import Publisher
from penstock.log.table.retention import removal
from penstock.log.topic.records import read_record

TOPICS = tuple(f"topic-{number}" for number in range(10))
NOW = ProducerOptions(linger=timedelta(0))
PATHS = TopicPaths.of("topic-3")


def listed(*keys: str) -> ListedEnds:
    return ListedEnds(ObjectInfo(key, 1, 0) for key in keys)


@pytest.mark.parametrize(
    ("keys", "stands"),
    [
        (["log/00000000000000000007.parquet", "table/_delta_log/00000000000000000002.json"], True),
        # All entries are trimmed, and all versions cleaned up, up to checkpoints of the very end.
        (["log/checkpoints/00000000000000000007", "table/_delta_log/00000000000000000002.checkpoint.parquet"], True),
        (["log/00000000000000000008.parquet", "table/_delta_log/00000000000000000002.json"], False),
        # Entry 8 was written and trimmed again: the floor's checkpoint shows it.
        (
            [
                "log/00000000000000000007.parquet",
                "log/checkpoints/00000000000000000064",
                "table/_delta_log/00000000000000000002.json",
            ],
            False,
        ),
        (["log/00000000000000000007.parquet", "table/_delta_log/00000000000000000003.json"], False),
        (["log/00000000000000000007.parquet", "table/_delta_log/00000000000000000001.json"], False),
        (["log/00000000000000000007.parquet", "table-4/_delta_log/00000000000000000002.json"], False),
        (["log/00000000000000000007.parquet"], False),
        ([], False),
        (
            [
                "topic.json",
                "log/floor",
                "log/00000000000000000007.parquet",
                "log/strange",
                "table/queue=0/x.parquet",
                "table/_delta_log/_last_checkpoint",
                "table/_delta_log/00000000000000000002.json",
                "staged/handed/00000000000000000099/x",
            ],
            True,
        ),
    ],
)
def test_what_a_list_shows_of_a_topic_that_was_read(keys: list[str], *, stands: bool) -> None:
    ends = listed(*(f"topics/orders/{key}" for key in keys), "topics/orders2/log/00000000000000000009.parquet", "topics/x")
    assert ends.of("orders").stands(entry=7, table="table", version=2) is stands


def test_a_topic_without_a_table_stands_while_there_is_none() -> None:
    ends = listed("topics/dlq.billing/log/00000000000000000007.parquet")
    assert ends.of("%DLQ%billing").stands(entry=7, table="table", version=-1)


class Watched:
    """A lake of ten topics that one group reads, and a view of it that lists."""

    def __init__(self, lake: aio.Lake, seeing: aio.Lake, store: CountingStore) -> None:
        self.lake = lake
        self.store = store
        self._view = LakeView(seeing, seeing.coordination.cells, waiting=no_timers, precise=timedelta(minutes=1), lists=True)

    async def look(self) -> tuple[LakeOverview, int]:
        """What is seen, and the GETs that it took."""
        before = self.store.statistics()
        seen = await self._view.look(failed=lambda kind, name, error: pytest.fail(f"{kind} {name}: {error}"))
        return seen, (self.store.statistics() - before).get.requests

    async def offsets(self, topic: str = "topic-3") -> tuple[int, int]:
        return (await self.look())[0].topics[topic].offsets[0]

    async def send(self, topic: str = "topic-3") -> None:
        producer = await self.lake.producer(topic, options=NOW)
        await producer.send(Message(b"x"))
        await producer.close()

    async def publish(self) -> None:
        found = await read_record(self.lake.store, PATHS)
        assert found is not None
        await Publisher(self.lake.store, PATHS, found[0], self.lake.runtime).publish_once()


async def no_timers(topic: str) -> int:
    return 0


def play(script: Callable[[Watched], Awaitable[None]]) -> None:
    async def main() -> None:
        memory, runtime = MemoryStore(), Runtime(threads=False)
        counted = CountingStore(memory)
        async with (
            aio.connect(store=memory, runtime=runtime, maintenance=False) as lake,
            aio.connect(store=counted, runtime=runtime, maintenance=False) as seeing,
        ):
            await lake.create_group("billing")
            watched = Watched(lake, seeing, counted)
            for topic in TOPICS:
                await lake.create_topic(topic, TopicSettings(queues=1))
                await watched.send(topic)
                await lake.reset_offsets("billing", topic, "earliest")
            await watched.look()
            await script(watched)

    asyncio.run(main())


def test_where_nothing_moved_nothing_is_asked_and_what_moved_is_seen() -> None:
    async def script(watched: Watched) -> None:
        _, gets = await watched.look()
        assert gets == 0
        await watched.send()
        seen, gets = await watched.look()
        assert seen.topics["topic-3"].offsets[0] == (0, 2)
        assert 0 < gets < 8  # of one topic
        assert (await watched.look())[1] == 0

    play(script)


def test_what_retention_dropped_is_seen() -> None:
    async def script(watched: Watched) -> None:
        await watched.publish()
        assert await watched.offsets() == (0, 1)
        store, runtime = watched.lake.store, watched.lake.runtime
        delta = DeltaLog(store, PATHS, "table", runtime)
        snapshot = await delta.refresh()
        assert await delta.commit(removal(snapshot.files, await store.clock_ms()), on=snapshot, started_s=delta.now_s)
        assert await watched.offsets() == (1, 1)

    play(script)


def test_a_topic_that_was_deleted_and_made_again_is_seen_anew() -> None:
    async def script(watched: Watched) -> None:
        await watched.lake.delete_topic("topic-3")
        seen, _ = await watched.look()
        assert "topic-3" not in seen.topics
        await watched.lake.create_topic("topic-3", TopicSettings(queues=2))
        await watched.send()
        seen, _ = await watched.look()
        assert sum(end for _, end in seen.topics["topic-3"].offsets.values()) == 1
        assert len(seen.topics["topic-3"].offsets) == 2

    play(script)


def test_a_lake_with_very_many_objects_is_asked_topic_by_topic() -> None:
    async def script(watched: Watched) -> None:
        for number in range(600):
            await watched.lake.store.put(f"topics/topic-0/table/queue=0/{number}.parquet", b"x", mode=Put.CREATE)
        assert (await watched.look())[1] >= 2 * len(TOPICS)
        before = watched.store.statistics()
        assert (await watched.look())[1] >= 2 * len(TOPICS)
        assert (watched.store.statistics() - before).list.requests == 4  # cells and names only: the LIST that was too long rests
        await watched.send()
        assert await watched.offsets() == (0, 2)

    play(script)
