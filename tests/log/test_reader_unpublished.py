"""Readers of a log that nobody publishes: they begin at the checkpoint before what they want, however much the log has before it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

from penstock.log import LogLake, Message, ProducerOptions, TopicSettings
from penstock.log.limits import CHECKPOINT_ENTRIES
from penstock.log.stores import MemoryStore
from penstock.log.stores.counting import CountingStore
from tests.simulation.kernel import Kernel

QUEUES = 2
ENTRIES = 4 * CHECKPOINT_ENTRIES
AT_ONCE = ProducerOptions(linger=timedelta(0))


class _Unpublished:
    """A topic with ``ENTRIES`` messages, each in an entry of its own, by turns in two queues; and a process that has read nothing of it yet."""

    def __init__(self) -> None:
        self.kernel = Kernel("unpublished", shuffle=False)
        self.process = self.kernel.process("reader")
        self.store = MemoryStore(clock=self.process.clock)
        self.asked = CountingStore(self.store)

    def run(self, script: Callable[[LogLake], Awaitable[None]]) -> None:
        async def work() -> None:
            async with LogLake(self.store, runtime=self.process.runtime) as lake:
                await lake.create_topic("orders", TopicSettings(queues=QUEUES))
                producer = await lake.producer("orders", options=AT_ONCE)
                for number in range(ENTRIES):
                    await producer.send(Message(b"%d" % number), queue=number % QUEUES)
            async with LogLake(self.asked, runtime=self.process.runtime) as lake:
                await lake.topic("orders")
                await script(lake)

        self.kernel.run(work())

    async def read(self, lake: LogLake, *, queue: int | None, start: int, end: int) -> tuple[list[int], int]:
        """What was read, and how many objects it took."""
        before = self.asked.statistics()
        reader = await lake.reader("orders")
        rows = await reader.to_arrow(queue=queue, start=start, end=end)
        return [int(body) for body in rows["body"].to_pylist()], (self.asked.statistics() - before).get.requests


def test_a_reader_begins_at_the_checkpoint_before_what_it_wants() -> None:
    """Of several queues before what it wants first."""
    unpublished = _Unpublished()

    async def script(lake: LogLake) -> None:
        last = ENTRIES // QUEUES
        for start in (last - 1, last - 40, last - 90, 3, 1):
            found, objects = await unpublished.read(lake, queue=1, start=start, end=start + 1)
            assert found == [QUEUES * start + 1]
            assert objects <= QUEUES * (last - start) + CHECKPOINT_ENTRIES + 10
        for start in (0, 70, last - 2):
            found, _ = await unpublished.read(lake, queue=None, start=start, end=start + 2)
            assert sorted(found) == list(range(QUEUES * start, QUEUES * (start + 2)))

    unpublished.run(script)
