"""Many messages that fail: how late they run again, what that costs, and that others are fetched meanwhile; S3 profile, virtual time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from penstock import ConsumeResult, MessageView
from penstock.consumers import PushOptions, RetryAfter
from penstock.coordinator.limits import CELL_BYTES_MAX
from penstock.log import Message
from penstock.log.stores.counting import StoreStatistics
from tests.benchmarks.consumers.worlds import DYNAMODB, Worker, WorkersWorld
from tests.benchmarks.contention import percentile
from tests.benchmarks.figures import Figure, Options
from tests.benchmarks.topics import TOPIC, publish
from tests.benchmarks.virtual import Client

_PER_S = 500
"""So many fall due a second."""
_AFTER_S = 120.0
"""The first of them; by then all have failed."""
_SENT_TOGETHER = 5_000
"""In one entry; where nobody publishes the log they are read again from it, and entries are small."""
_UNPUBLISHED_TOGETHER = 20


@dataclass
class Run:
    """What one run showed."""

    late_ms: list[float] = field(default_factory=list)
    cell_bytes: int = 0
    in_memory: int = 0
    """Messages that wait and are in memory, at most."""
    failed_within_s: float = 0.0
    store: StoreStatistics = field(default_factory=StoreStatistics)
    """From the first attempt to the last retry."""
    cell_requests: int = 0
    processor_s: float = 0.0


def measure(options: Options) -> Iterator[Figure]:
    published = [(count, True) for count in (20_000, 50_000, 100_000)]
    for count, is_published in [*published, (20_000, False)] if not options.small else [(2_000, True)]:
        run = _Retries(count, published=is_published).run()
        note = f"one queue, CONCURRENT, {count:,} messages that fail once, {_PER_S} of them due each second; cells in DynamoDB"
        waiting = f"{count:,} waiting"
        if not is_published:
            waiting += ", log not published"
            note += f"; {_UNPUBLISHED_TOGETHER} messages in an entry"
        for share in (0.5, 0.95, 1.0):
            late_ms = percentile(run.late_ms, share) if share < 1 else max(run.late_ms)
            yield Figure(
                name=f"{waiting}: retry after its time, {'most' if share == 1 else f'p{100 * share:g}'}",
                unit="ms",
                values=[late_ms],
                target=1000.0 if share == 0.95 else None,
                note=note,
            )
        yield Figure(name=f"{waiting}: cell, at most", unit="bytes", values=[run.cell_bytes], target=CELL_BYTES_MAX)
        yield Figure(name=f"{waiting}: messages in memory that wait, at most", unit="messages", values=[run.in_memory])
        yield Figure(name=f"{waiting}: all attempted within", unit="s", values=[run.failed_within_s])
        requests = run.store.requests / count
        yield Figure(name=f"{waiting}: requests to the store for each message", unit="requests", values=[requests])
        yield Figure(
            name=f"{waiting}: requests to the cells' table for each message",
            unit="requests",
            values=[run.cell_requests / count],
        )
        yield Figure(
            name=f"{waiting}: processor, of both attempts, for each message",
            unit="ms",
            values=[1000 * run.processor_s / count],
        )


class _Retries:
    def __init__(self, count: int, *, published: bool = True) -> None:
        self._world = WorkersWorld(1, DYNAMODB, queues=1)
        self._count = count
        self._published = published
        self._due_s: dict[int, float] = {}
        self._all_failed, self._all_again = asyncio.Event(), asyncio.Event()
        self._start_s = 0.0
        self._found = Run()

    def run(self) -> Run:
        return self._world.run(self._main())

    async def _main(self) -> Run:
        world, found = self._world, self._found
        client = await world.create_topic()
        await client.process.run(self._send(client))
        if self._published:
            await client.process.run(_publish(client))
        options = PushOptions(threads=64)
        worker = world.worker("worker", self._handle, order="CONCURRENT", options=options)
        began, table_began, processor_s = world.requests(), world.cell_requests.total(), time.process_time()
        self._start_s = start_s = world.now_s
        await worker.start()
        watching = asyncio.ensure_future(self._watch(worker))
        await self._all_failed.wait()
        found.failed_within_s = world.now_s - start_s
        await self._all_again.wait()
        watching.cancel()
        found.processor_s = time.process_time() - processor_s
        found.store, found.cell_requests = world.requests() - began, world.cell_requests.total() - table_began
        await worker.close()
        return found

    async def _send(self, client: Client) -> None:
        producer = await client.lake.producer(TOPIC)
        together = _SENT_TOGETHER if self._published else _UNPUBLISHED_TOGETHER
        for start in range(0, self._count, together):
            numbers = range(start, min(self._count, start + together))
            receipts = [producer.send(Message(b"%d" % number, f"group-{number}")) for number in numbers]
            for receipt in receipts:
                await receipt
        await producer.close()

    async def _handle(self, message: MessageView) -> ConsumeResult | RetryAfter:
        number, now_s = int(message.body), self._world.now_s
        if number in self._due_s:
            self._found.late_ms.append(1000 * (now_s - self._due_s[number]))
            if len(self._found.late_ms) == self._count:
                self._all_again.set()
            return ConsumeResult.SUCCESS
        self._due_s[number] = max(now_s, self._start_s + _AFTER_S + number / _PER_S)
        if len(self._due_s) == self._count:
            self._all_failed.set()
        return RetryAfter(timedelta(seconds=self._due_s[number] - now_s))

    async def _watch(self, worker: Worker) -> None:
        found = self._found
        while True:
            for life in worker.consumer._owner.queues.values():
                found.cell_bytes = max(found.cell_bytes, life.keeper.size_bytes)
                found.in_memory = max(found.in_memory, len(life.schedule.tracked.messages))
            await asyncio.sleep(0.2)


async def _publish(client: Client) -> None:
    await publish(await client.lake.topic(TOPIC, writable=True))
