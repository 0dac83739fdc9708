"""What tests of dead letters share: messages of a topic, and what lies in the dead-letter queue."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

from penstock.consumers.dead_letters.writer import DeadLetter
from penstock.log import LogLake, Message, MessageView, ProducerOptions, Runtime, TopicSettings
from penstock.log.stores import MemoryStore
from penstock.log.table.delta.delta_log import DeltaLog
from penstock.log.table.publisher import Publisher
from tests.log.topics import HandClock

AT_ONCE = ProducerOptions(linger=timedelta(0))
DLQ = "%DLQ%billing"


class Scene:
    """A store, and processes with lakes on it. `play` a script on it."""

    def __init__(self, **orders: Any) -> None:
        self.clock = HandClock()
        self.store = MemoryStore(clock=self.clock)
        self._processes = 0
        self.lake = self.process()
        self._settings = TopicSettings(**{"message_type": "FIFO", "queues": 2, **orders})

    def process(self) -> LogLake:
        """Another one, which knows nothing of the others."""
        self._processes += 1
        runtime = Runtime(clock=self.clock, random=random.Random(self._processes), threads=False)
        return LogLake(self.store, runtime=runtime)

    def play(self, script: Callable[[], Awaitable[None]]) -> None:
        async def main() -> None:
            await self.lake.create_topic("orders", self._settings)
            await script()

        asyncio.run(main())

    async def sent(self, count: int, topic: str = "orders", *, lake: LogLake | None = None, **fields: Any) -> list[MessageView]:
        """Send so many messages and return them as stored, in the order of sending."""
        lake = lake or self.lake
        producer = await lake.producer(topic, options=AT_ONCE)
        fifo = (await lake.topic(topic)).settings.message_type == "FIFO"
        ids = []
        for n in range(count):
            given = {"message_group": f"g{n % 3}" if fifo else None, "tag": "paid", "keys": [f"k{n}"], "properties": {"n": str(n)}}
            receipt = producer.send(Message(b"%d" % n, **{**given, **fields}))
            ids.append((await receipt).message_id)
        await producer.close()
        stored = {one.message_id: one for one in await self.read(topic)}
        return [stored[id_] for id_ in ids]

    async def read(self, topic: str = DLQ) -> list[MessageView]:
        """All that a topic holds, by queue and offset."""
        lake = self.process()
        reader = await lake.reader(topic)
        found = [message async for message in reader.messages()]
        return sorted(found, key=lambda one: (one.queue, one.offset))

    async def publish(self) -> None:
        """Move all that every topic holds into its table."""
        lake = self.process()
        for name in await lake.topics():
            topic = await lake.topic(name)
            delta = DeltaLog(lake.store, topic.paths, topic.record.table, topic.runtime)
            publisher = Publisher(lake.store, topic.paths, topic.record, topic.runtime, delta=delta)
            while not (await publisher.publish_once()).caught_up:
                pass

    async def pass_days(self, days: int) -> None:
        """Let time pass, and somebody send to every topic each day: the store time moves by a day at most with every entry."""
        day = Message(b"a day")
        daily = [
            (await self.lake.producer(topic, options=AT_ONCE), day._replace(message_group="d") if fifo else day)
            for topic, record in (await self.lake.topics()).items()
            for fifo in [record.settings.message_type == "FIFO"]
        ]
        for _ in range(days):
            self.clock.advance(hours=24)
            for producer, message in daily:
                await producer.send(message)


def letters(messages: Sequence[MessageView], *, first: int = 0, attempts: int = 17, reason: str = "boom") -> list[DeadLetter]:
    """Dead letters of these messages, with sequences from ``first`` on."""
    return [DeadLetter(first + place, message, attempts, reason) for place, message in enumerate(messages)]


def ids(messages: Sequence[MessageView]) -> list[str]:
    return [one.message_id for one in messages]
