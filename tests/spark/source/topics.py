"""A topic in a folder, as tests of the source need it: sent to, published, expired, deleted and made again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import penstock
from penstock.log import LogLake, MessageView, open_store
from penstock.log.table.delta.delta_log import DeltaLog
from penstock.log.table.publisher import Publisher
from penstock.log.table.retention import empty_table
from penstock.log.topic.topics import Topic

T = TypeVar("T")


class TopicFolder:
    """The topic ``orders`` of a lake in a folder."""

    def __init__(self, folder: Path, *, queues: int = 4) -> None:
        self.url = str(folder)
        self.name = "orders"
        self.lake = penstock.connect(folder)
        self._queues = queues
        self.sent = 0
        self.create()

    def create(self) -> None:
        self.lake.create_topic(self.name, message_type="FIFO", queues=self._queues)

    def send(self, count: int, *, groups: int = 11) -> None:
        """Messages whose bodies count on, of many message groups; every second one has the tag ``paid``."""
        with self.lake.producer(self.name) as producer:
            for number in range(self.sent, self.sent + count):
                producer.send(
                    penstock.Message(
                        b"%d" % number,
                        message_group=f"user-{number % groups}",
                        tag="paid" if number % 2 else None,
                        keys=[f"order-{number}", "all"],
                        properties={"number": str(number)},
                    )
                )
        self.sent += count

    def publish(self) -> None:
        """Bring all that was sent into the table."""

        async def publish(topic: Topic) -> None:
            await Publisher(topic.store, topic.paths, topic.record, topic.runtime).publish_once()

        self._run(publish)

    def expire(self) -> None:
        """Take all that is in the table out of it, in the commit that retention makes."""

        async def expire(topic: Topic) -> None:
            delta = DeltaLog(topic.store, topic.paths, topic.record.table, topic.runtime)
            assert await empty_table(topic.store, delta, topic.runtime) > 0

        self._run(expire)

    def recreate(self) -> None:
        """Delete the topic and make another of its name."""
        self.lake.delete_topic(self.name)
        self.create()

    def messages(self) -> list[MessageView]:
        """All that are kept, by queue and offset."""
        return sorted(self.lake.reader(self.name).messages(), key=lambda message: (message.queue, message.offset))

    def offsets(self) -> dict[int, tuple[int, int]]:
        """By queue, the earliest offset that is kept and the next one."""
        return self.lake.reader(self.name).offsets()

    def _run(self, work: Callable[[Topic], Awaitable[T]]) -> T:
        async def run() -> T:
            async with LogLake(open_store(self.url)) as lake:
                return await work(await lake.topic(self.name))

        return asyncio.run(run())


@contextlib.contextmanager
def topic_folder(folder: Path, *, queues: int = 4) -> Iterator[TopicFolder]:
    topic = TopicFolder(folder, queues=queues)
    with topic.lake:
        yield topic
