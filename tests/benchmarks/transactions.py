"""Transactional sends against plain ones: latency and requests on the S3 profile, and on local files; many at once; memory."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta

import penstock
from penstock.coordinator import Coordination
from penstock.coordinator.tables import CellTable, MemoryTable, ObjectStoreTable
from penstock.coordinator.transactions.sending.transaction import Transaction
from penstock.coordinator.transactions.service import Transactions
from penstock.log import LogLake, Message, MessageType, ProducerOptions, TopicSettings
from penstock.log.stores import MemoryStore
from penstock.log.stores.counting import StoreStatistics
from tests.benchmarks.consumers.worlds import DYNAMODB, ON_S3, LatencyTable, Place
from tests.benchmarks.contention import percentile
from tests.benchmarks.figures import Figure, Options, by_verb
from tests.benchmarks.virtual import Client, World

PLAIN, TRANSACTIONAL, GROUP = "plain", "transactional", "shop"
BODY = b"v" * 100
LINGERS = {"linger 0": timedelta(0), "default linger": ProducerOptions().linger}
_RATIO = 2.5
_PAUSE_S = 2.0
"""Between two sends: so the note that a transaction is done is written by itself, as where there are few."""


@dataclass
class Outcome:
    """Of one seed."""

    plain_ms: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in LINGERS})
    half_ms: list[float] = field(default_factory=list)
    commit_ms: list[float] = field(default_factory=list)
    requests: StoreStatistics = field(default_factory=StoreStatistics)
    """Of the store, of all transactions."""
    cells: Counter[str] = field(default_factory=Counter)
    """Of the table of cells, where that is another."""

    @property
    def whole_ms(self) -> list[float]:
        return [half + commit for half, commit in zip(self.half_ms, self.commit_ms, strict=True)]


class Sender:
    """A process that sends both ways."""

    def __init__(self, world: World, place: Place, cells: MemoryTable, requests: Counter[str]) -> None:
        self.world = world
        self.client: Client = world.client("sender")
        process = self.client.process
        table: CellTable
        if place.put is None or place.get is None:
            table = ObjectStoreTable(self.client.store, runtime=process.runtime)
        else:
            table = LatencyTable(cells, place.put, place.get, process.runtime, requests)
        self.transactions = Transactions(self.client.lake, Coordination(table, process.runtime))

    async def transact(self, bodies: int = 1) -> tuple[float, float]:
        """How long the half send took, and the commit, in ms."""
        begun_s = self.world.now_s
        transaction = Transaction(self.transactions, GROUP, first_check=timedelta(seconds=60))
        await transaction.send(TRANSACTIONAL, *[Message(BODY)] * bodies)
        sent_s = self.world.now_s
        await transaction.commit()
        return 1000 * (sent_s - begun_s), 1000 * (self.world.now_s - sent_s)


def measure(options: Options) -> Iterator[Figure]:
    count = options.scaled(200, 3)
    for place in (ON_S3, DYNAMODB):
        runs = [_one_by_one(place, seed, count) for seed in range(1, options.repeats + 1)]
        yield from _figures(place, runs, count)
    for at_once in (100, 400) if not options.small else (5,):
        yield from _many(at_once, options)
    yield from _local(options)
    yield _memory(options.scaled(400, 10))


def _one_by_one(place: Place, seed: int, count: int) -> Outcome:
    world, outcome, cells = World(seed), Outcome(), MemoryTable()

    async def main() -> None:
        sender = Sender(world, place, cells, outcome.cells)
        await _create(sender)
        client = sender.client

        async def work() -> None:
            producers = {
                name: await client.lake.producer(PLAIN, options=ProducerOptions(linger=linger)) for name, linger in LINGERS.items()
            }
            await sender.transact()  # opens the topic, joins the group
            outcome.cells.clear()
            for _ in range(count):  # in turns
                for name, producer in producers.items():
                    await asyncio.sleep(_PAUSE_S)
                    sent_s = world.now_s
                    await producer.send(Message(BODY))
                    outcome.plain_ms[name].append(1000 * (world.now_s - sent_s))
                await asyncio.sleep(_PAUSE_S)
                before = client.store.statistics()
                half_ms, commit_ms = await sender.transact()
                await asyncio.sleep(_PAUSE_S)
                outcome.requests = _sum(outcome.requests, client.store.statistics() - before)
                outcome.half_ms.append(half_ms)
                outcome.commit_ms.append(commit_ms)
            await client.lake.close()

        await client.process.run(work())

    world.run(main())
    return outcome


def _figures(place: Place, runs: list[Outcome], count: int) -> Iterator[Figure]:
    where = f"cells on {place.name}"
    for share, said in ((0.5, "p50"), (0.99, "p99")):
        for name in LINGERS:
            yield Figure(
                name=f"plain send, {name}, {where}, {said}",
                unit="ms",
                values=[percentile(run.plain_ms[name], share) for run in runs],
            )
        yield Figure(
            name=f"half send, {where}, {said}", unit="ms", values=[percentile(run.half_ms, share) for run in runs], note="durable"
        )
        yield Figure(
            name=f"commit, {where}, {said}", unit="ms", values=[percentile(run.commit_ms, share) for run in runs], note="visible"
        )
    cells = ", ".join(f"{verb} {number / count:.3g}" for verb, number in sorted(runs[0].cells.items()))
    for name in LINGERS:
        yield Figure(
            name=f"begin to visible, {where}, against a plain send with {name}, p50",
            unit="×",
            values=[percentile(run.whole_ms, 0.5) / percentile(run.plain_ms[name], 0.5) for run in runs],
            target=_RATIO,
            requests=by_verb(runs[0].requests, count),
            per="a transaction",
            note=f"p50 {statistics.median(percentile(run.whole_ms, 0.5) for run in runs):.0f} ms"
            + (f"; of the table: {cells}" if cells else ""),
        )


def _many(at_once: int, options: Options) -> Iterator[Figure]:
    """Transactions of one process side by side, each begun when the one before it in its lane is visible."""
    rounds = options.scaled(10, 2)

    def run(seed: int) -> tuple[list[float], StoreStatistics, int]:
        world, took = World(seed), list[float]()

        async def main() -> tuple[list[float], StoreStatistics, int]:
            sender = Sender(world, ON_S3, MemoryTable(), Counter())
            await _create(sender)

            async def lane() -> None:
                await asyncio.sleep(sender.client.process.runtime.random.random() * 0.2)
                for _ in range(rounds):
                    took.append(sum(await sender.transact()))

            async def work() -> tuple[StoreStatistics, int]:
                await sender.transact()
                before = sender.client.store.statistics()
                largest = 0
                lanes = [asyncio.ensure_future(lane()) for _ in range(at_once)]
                while not all(one.done() for one in lanes):
                    await asyncio.sleep(0.05)
                    sizes = [sender.transactions.cells.size_bytes(one) for one in sender.transactions.own.all(GROUP)]
                    largest = max(largest, *sizes)
                await asyncio.gather(*lanes)
                await sender.transactions.close()
                requests = sender.client.store.statistics() - before
                await sender.client.lake.close()
                return requests, largest

            requests, largest = await sender.client.process.run(work())
            return took, requests, largest

        return world.run(main())

    runs = [run(seed) for seed in range(1, options.repeats + 1)]
    yield Figure(
        name=f"begin to visible, {at_once} transactions of a process at once, cells on S3, p50",
        unit="ms",
        values=[percentile(took, 0.5) for took, _, _ in runs],
        requests=by_verb(runs[0][1], at_once * rounds),
        per="a transaction",
        note=f"p99 {statistics.median(percentile(took, 0.99) for took, _, _ in runs):.0f} ms; largest cell "
        f"{max(largest for _, _, largest in runs) / 1024:.0f} KiB",
    )


def _local(options: Options) -> Iterator[Figure]:
    """On files and SQLite of this machine, by the clock, in turns."""
    count = options.scaled(100, 3)
    plain_ms: list[float] = []
    whole_ms: list[float] = []
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder, penstock.connect(folder, maintenance=False) as lake:
        lake.create_topic(PLAIN)
        lake.create_topic(TRANSACTIONAL, message_type="TRANSACTION")
        with (
            lake.producer(PLAIN, linger=timedelta(0)) as producer,
            lake.check_transactions(GROUP, lambda _: penstock.TransactionResolution.UNKNOWN),
        ):
            for _ in range(count):
                begun_s = time.perf_counter()
                producer.send(Message(BODY)).result()
                plain_ms.append(1000 * (time.perf_counter() - begun_s))
                begun_s = time.perf_counter()
                with lake.transaction(producer_group=GROUP) as transaction:
                    transaction.send(TRANSACTIONAL, Message(BODY))
                    transaction.commit()
                whole_ms.append(1000 * (time.perf_counter() - begun_s))
    yield Figure(name="plain send, linger 0, local files, p50", unit="ms", values=[percentile(plain_ms, 0.5)])
    yield Figure(name="begin to visible, local files, p50", unit="ms", values=[percentile(whole_ms, 0.5)], note="cells in SQLite")


def _memory(count: int) -> Figure:
    """What an open transaction costs its process: of Python's own, without what Arrow takes while it encodes."""

    async def work() -> float:
        lake = LogLake(MemoryStore())
        await lake.create_topic(TRANSACTIONAL, TopicSettings(message_type=MessageType.TRANSACTION))
        transactions = Transactions(lake, Coordination(MemoryTable(), lake.runtime))
        await Transaction(transactions, GROUP, first_check=None).send(TRANSACTIONAL, Message(BODY))
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        opened = [Transaction(transactions, GROUP, first_check=None) for _ in range(count)]
        for transaction in opened:
            await transaction.send(TRANSACTIONAL, Message(BODY))
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        await lake.close()
        return (after - before) / count / 1024

    return Figure(
        name=f"memory of an open transaction of one message, {count} open",
        unit="KiB",
        values=[asyncio.run(work())],
        note="with its objects in the memory store, some 2.5 KiB",
    )


async def _create(sender: Sender) -> None:
    lake = sender.client.lake
    await sender.client.process.run(lake.create_topic(PLAIN, TopicSettings()))
    await sender.client.process.run(lake.create_topic(TRANSACTIONAL, TopicSettings(message_type=MessageType.TRANSACTION)))


def _sum(one: StoreStatistics, other: StoreStatistics) -> StoreStatistics:
    return one - (StoreStatistics() - other)
