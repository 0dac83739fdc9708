"""How fast one SimpleConsumer receives and acknowledges, on local files with its cells in SQLite."""

from __future__ import annotations

import asyncio
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from penstock import aio
from penstock.consumers import MemoryMetrics, SimpleConsumer
from penstock.consumers.statistics import CELL_WRITES
from tests.benchmarks.consumers.throughput import QUEUES, Run, fill
from tests.benchmarks.figures import Figure, Options
from tests.benchmarks.topics import TOPIC

_GROUPS = 10_000


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How messages are asked for."""

    order: Literal["ORDERLY", "CONCURRENT"]
    at_once: int
    """Messages in a receive, acknowledged together."""
    askers: int
    """Tasks that receive and acknowledge side by side."""
    each: bool = False
    """Whether every message has an acknowledgement call of its own."""

    @property
    def name(self) -> str:
        acks = ", each acknowledged by a call" if self.each else ""
        return f"receive and ack {self.order}, {self.at_once} at once, {self.askers} side by side{acks}"


def measure(options: Options) -> Iterator[Figure]:
    orders: tuple[Literal["ORDERLY", "CONCURRENT"], ...] = ("ORDERLY", "CONCURRENT")
    shapes = [
        Shape(order=order, at_once=at_once, askers=askers, each=each)
        for order in orders
        for at_once, askers, each in ((1, 1, False), (32, 1, False), (32, 16, True), (32, 16, False), (1_000, 4, False))
    ]
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        for shape in shapes if not options.small else shapes[1:2]:
            count = options.scaled({1: 1_000, 32: 20_000}.get(shape.at_once, 100_000), 200)
            root = Path(folder) / str(count)
            if not root.exists():
                asyncio.run(fill(root, count, _GROUPS))
            runs = [asyncio.run(receive(root, shape, count)) for _ in range(options.repeats)]
            yield Figure(
                name=shape.name,
                unit="messages/s",
                better="higher",
                values=[run.rate for run in runs],
                requests={"cell writes": round(1000 * sum(run.writes for run in runs) / len(runs), 1)},
                per="per 1,000 messages",
                note=f"{count:,} of 100 B in {_GROUPS:,} groups, {QUEUES} queues",
            )
            yield Figure(name=f"{shape.name}: processor time", unit="µs/message", values=[run.cpu_us for run in runs])


async def receive(root: Path, shape: Shape, count: int) -> Run:
    """Receive and acknowledge all there is, in a group of its own."""
    group, metrics, acknowledged = f"bench-{uuid.uuid4().hex[:12]}", MemoryMetrics(), 0

    async def ask(consumer: SimpleConsumer) -> None:
        nonlocal acknowledged
        while acknowledged < count:
            messages = await consumer.receive(shape.at_once)
            for receipts in [[message] for message in messages] if shape.each else [messages]:
                await consumer.ack(*receipts)
            acknowledged += len(messages)

    async with aio.connect(root, maintenance=False) as lake:
        start_s, cpu_s = time.perf_counter(), time.process_time()
        simple = lake.simple_consumer(
            TOPIC,
            group=group,
            delivery_order=shape.order,
            receive_max=max(32, shape.at_once),
            cache_messages=20_000,
            metrics=metrics,
        )
        async with simple as consumer:
            asking = [asyncio.ensure_future(ask(consumer)) for _ in range(shape.askers)]
            await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
            took_s, cpu_s = time.perf_counter() - start_s, time.process_time() - cpu_s
            for task in asking:
                if not task.done():
                    task.cancel()  # it waits for messages that never come
            await asyncio.gather(*asking, return_exceptions=True)
            for task in asking:
                if not task.cancelled():
                    task.result()
        writes = metrics.value(CELL_WRITES, topic=TOPIC, consumer_group=group) or 0.0
    assert acknowledged == count, f"{acknowledged} acknowledged of {count}"
    return Run(count / took_s, 1e6 * cpu_s / count, writes / count)
