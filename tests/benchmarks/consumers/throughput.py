"""How fast one PushConsumer settles a backlog on local files with its cells in SQLite, beside reading the same rows without a group.

A run is over when the floor of every queue's cell is at its end: then all is settled, and not only handed out. Handlers do nothing, so this is
what Penstock itself takes. The rows lie in the log, in entries as a producer at 200,000 messages/s writes them; nothing is published yet.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow.parquet as pq

from penstock import ConsumeResult, aio
from penstock.consumers import MemoryMetrics, PushConsumer
from penstock.consumers.statistics import CELL_WRITES, TAKE_OVERS
from tests.benchmarks.figures import Figure, Options
from tests.benchmarks.rows import arrow_rows
from tests.benchmarks.topics import TOPIC, create

QUEUES = 8
_ENTRY_ROWS = 5_000
_LOOK_S = 0.03
_PATIENCE_S = 300.0
_WRITES_MAX = 0.02


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A consumer, and the messages it has before it."""

    order: Literal["ORDERLY", "CONCURRENT"]
    groups: int
    """Message groups; one of them fills one queue."""
    batch: Literal["group", "queue"] | None = None
    batch_messages: int = 1_000
    threads: int = 4
    cache_messages: int = 20_000
    collect_after: int | None = None
    """New objects after which the garbage collector looks at them; None: Python's default, 700."""
    target: float | None = None
    """Messages a second."""
    about: str = ""

    @property
    def name(self) -> str:
        listener = f"lists of a {self.batch}" if self.batch else "single messages"
        groups = "1 group" if self.groups == 1 else f"{self.groups:,} groups"
        return f"push {self.order}, {listener}, {groups}{self.about}"

    @property
    def limits(self) -> str:
        lists = f", lists of {self.batch_messages:,} at most" if self.batch else ""
        lists += f", gc.set_threshold({self.collect_after:_})" if self.collect_after else ""
        return f"{self.threads} threads, cache {self.cache_messages:,}, window 10,000{lists}"


@dataclass(frozen=True)
class Run:
    """What one run took."""

    rate: float
    """Messages settled a second."""
    cpu_us: float
    """Processor time of a message, all threads."""
    writes: float = 0.0
    """Writes of cells, for a message."""
    again: int = 0
    """Messages that were handled once more, because the worker lost its lease on a busy machine, and its queues with it."""


def shapes() -> Iterator[Shape]:
    """All that are measured."""
    orders: tuple[Literal["ORDERLY", "CONCURRENT"], ...] = ("ORDERLY", "CONCURRENT")
    batches: tuple[Literal["group", "queue"] | None, ...] = (None, "group", "queue")
    for order in orders:
        for groups in (1, 100, 10_000):
            for batch in batches:
                if order == "ORDERLY" or batch != "group":
                    target = 200_000 if order == "ORDERLY" and batch else None
                    yield Shape(order=order, groups=groups, batch=batch, target=target)
    for groups in (100, 10_000):
        seldom = "; garbage collected seldom"
        yield Shape(order="ORDERLY", groups=groups, batch="group", target=200_000, collect_after=50_000, about=seldom)
    yield Shape(order="ORDERLY", groups=100, threads=20, cache_messages=1_024, about=", default limits")
    yield Shape(order="ORDERLY", groups=100, batch="queue", batch_messages=100, about=", lists of 100")


def compared() -> list[Shape]:
    """Those that other systems' consumers have something like."""
    return [shape for shape in shapes() if shape.order == "ORDERLY" and (shape.groups == 10_000 or shape.about)]


def measure(options: Options, chosen: list[Shape] | None = None) -> Iterator[Figure]:
    """``chosen``: only these."""
    count = options.scaled(400_000, 1_000)
    chosen = chosen or ([*shapes()][-2:] if options.small else [*shapes()])
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        lakes = {groups: Path(folder) / str(groups) for groups in {shape.groups for shape in chosen}}
        for groups, root in lakes.items():
            asyncio.run(fill(root, count, groups))
        for shape in chosen:
            runs, readings, raw = [], [], []
            for _ in range(options.repeats):  # in turns, so that a busy neighbour hits all alike
                with _collecting(shape.collect_after):
                    runs.append(asyncio.run(consume(lakes[shape.groups], shape, count)))
                readings.append(asyncio.run(_read(lakes[shape.groups], count)))
                raw.append(_read_raw(lakes[shape.groups], count))
            yield from _figures(shape, count, runs)
            yield from _beside(shape, runs, readings, raw)


@contextmanager
def _collecting(after: int | None) -> Iterator[None]:
    usual = gc.get_threshold()
    if after is not None:
        gc.set_threshold(after, *usual[1:])
    yield
    gc.set_threshold(*usual)


async def consume(root: Path, shape: Shape, count: int) -> Run:
    """Settle all there is, in a group of its own."""
    handled = _Handled()
    metrics = MemoryMetrics()
    group = f"bench-{uuid.uuid4().hex[:12]}"
    async with aio.connect(root, maintenance=False) as lake:
        start_s, cpu_s = time.perf_counter(), time.process_time()
        consumer = await lake.push_consumer(
            TOPIC,
            group=group,
            listener=handled.of(shape.batch),
            delivery_order=shape.order,
            threads=shape.threads,
            cache_messages=shape.cache_messages,
            batch=shape.batch,
            batch_messages=shape.batch_messages,
            metrics=metrics,
        )
        async with asyncio.timeout(_PATIENCE_S):
            await _until_settled(consumer)
        took_s, cpu_s = time.perf_counter() - start_s, time.process_time() - cpu_s
        writes = metrics.value(CELL_WRITES, topic=TOPIC, consumer_group=group) or 0.0
        taken_over = metrics.value(TAKE_OVERS, topic=TOPIC, consumer_group=group) or 0.0
        await consumer.close()
    found = handled.count()
    assert found == count or (found > count and taken_over), f"{found} handled of {count}, {taken_over:g} queues taken over"
    return Run(count / took_s, 1e6 * cpu_s / count, writes / count, found - count)


async def _until_settled(consumer: PushConsumer) -> None:
    while True:
        queues = consumer.statistics().queues
        if len(queues) == QUEUES and not any(one.lag_messages for one in queues):
            return
        await asyncio.sleep(_LOOK_S)


class _Handled:
    """Listeners that do nothing but count."""

    def __init__(self) -> None:
        self._single = itertools.count()
        self._lists: list[int] = []

    def of(self, batch: str | None) -> Callable[[Any], ConsumeResult]:
        return self._one() if batch is None else self._list

    def _one(self) -> Callable[[object], ConsumeResult]:
        one, success = self._single.__next__, ConsumeResult.SUCCESS

        def handle(_: object) -> ConsumeResult:
            one()
            return success

        return handle

    def _list(self, messages: list[Any]) -> ConsumeResult:
        self._lists.append(len(messages))
        return ConsumeResult.SUCCESS

    def count(self) -> int:
        """Only once: asking counts."""
        return next(self._single) + sum(self._lists)


async def fill(root: Path, count: int, groups: int) -> None:
    """A topic with so many messages, in the log."""
    async with aio.connect(root, maintenance=False) as lake:
        await create(lake, QUEUES)
        rows = arrow_rows(count, groups=groups)
        producer = await lake.producer(TOPIC)
        for at in range(0, count, _ENTRY_ROWS):
            await producer.send_batch(rows.slice(at, _ENTRY_ROWS))
        await producer.close()


async def _read(root: Path, count: int) -> Run:
    """The same messages, one by one, without a group."""
    async with aio.connect(root, maintenance=False) as lake:
        start_s, cpu_s = time.perf_counter(), time.process_time()
        reader = await lake.reader(TOPIC)
        read = await _length(reader.messages())
        took_s, cpu_s = time.perf_counter() - start_s, time.process_time() - cpu_s
    assert read == count, f"{read} of {count} messages"
    return Run(count / took_s, 1e6 * cpu_s / count)


async def _length(messages: AsyncIterator[object]) -> int:
    length = 0
    async for _ in messages:
        length += 1
    return length


def _read_raw(root: Path, count: int) -> Run:
    """The same entries by pyarrow alone, as Arrow rows."""
    start_s, cpu_s = time.perf_counter(), time.process_time()
    read = sum(pq.read_table(path).num_rows for path in sorted((root / "topics" / TOPIC / "log").glob("0*.parquet")))
    took_s, cpu_s = time.perf_counter() - start_s, time.process_time() - cpu_s
    assert read == count, f"{read} of {count} rows"
    return Run(count / took_s, 1e6 * cpu_s / count)


def _figures(shape: Shape, count: int, runs: list[Run]) -> Iterator[Figure]:
    again = sum(run.again for run in runs)
    writes = {"cell writes": round(1000 * sum(run.writes for run in runs) / len(runs), 2)}
    yield Figure(
        name=f"{shape.name}: settled",
        unit="messages/s",
        better="higher",
        values=[run.rate for run in runs],
        target=shape.target,
        requests=writes,
        per="per 1,000 messages",
        note=f"{count:,} of 100 B, {QUEUES} queues, {shape.limits}"
        + (f"; {again:,} handled again after a lost lease" if again else ""),
    )
    yield Figure(name=f"{shape.name}: processor time", unit="µs/message", values=[run.cpu_us for run in runs])
    if shape.batch_messages == 100:
        values = [run.writes for run in runs]
        yield Figure(name=f"{shape.name}: writes of cells", unit="writes/message", values=values, target=_WRITES_MAX)


def _beside(shape: Shape, runs: list[Run], readings: list[Run], raw: list[Run]) -> Iterator[Figure]:
    """What the machine gave just then: of no meaning by itself."""
    for name, others in (("reader.messages() of the same rows", readings), ("pyarrow reading the same entries", raw)):
        yield Figure(
            name=f"{shape.name}: beside {name}, by processor time",
            unit="%",
            better="higher",
            values=[100 * other.cpu_us / run.cpu_us for run, other in zip(runs, others, strict=True)],
            note=f"that took {min(other.cpu_us for other in others):.2f} µs/message, {max(other.rate for other in others):,.0f}/s",
        )
