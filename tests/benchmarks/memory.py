"""Memory: of a producer whose store stands still, and of a reader over growing tables. Each run is a process of its own."""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from penstock.log import BackPressureError, LogLake, Message, ProducerOptions, TopicSettings
from penstock.log.stores.local import LocalStore
from penstock.log.stores.memory import MemoryStore
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from tests.benchmarks.figures import Figure, Options
from tests.benchmarks.rows import arrow_rows
from tests.benchmarks.topics import TOPIC, create, fill, publish

T = TypeVar("T")
_MIB = 1024 * 1024


def measure(options: Options) -> Iterator[Figure]:
    limit = options.scaled(64 * _MIB, 4 * _MIB)
    for body_bytes in (100,) if options.small else (100, 10_000):
        grown = [elsewhere(_stalled, limit, body_bytes) for _ in range(1 if options.small else min(3, options.repeats))]
        yield Figure(
            name=f"producer before a stalled store, bodies of {body_bytes:,} B: RSS growth over its limit",
            unit="ratio",
            values=[one / limit for one in grown],
            target=None if options.small else 1.0,
            note=f"limit {limit // _MIB} MiB, receipts kept",
        )
    sizes = [2_000, 4_000] if options.small else [1_000_000 * 2**step for step in range(4)]
    peaks = []
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        for rows in sizes:
            root = str(Path(folder) / str(rows))
            _fill(root, rows)
            peaks.append(elsewhere(_read, root) / _MIB)
    for rows, peak in zip(sizes, peaks, strict=True):
        yield Figure(name=f"reader's RSS growth over {rows:,} rows", unit="MiB", values=[peak])
    first = 0 if options.small else 1  # the smallest does not fill its row groups
    slope = (peaks[-1] - peaks[first]) / ((sizes[-1] - sizes[first]) / 1_000_000)
    yield Figure(
        name="reader's RSS growth, slope", unit="MiB/million rows", values=[slope], note="a million rows are 250 MiB as Arrow"
    )


def elsewhere(work: Callable[..., float], *arguments: Any) -> float:
    """In a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def rss_bytes(field: str = "VmRSS") -> int:
    """Of this process; ``VmHWM``: the most that it ever was."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no such field")


class _Stalled(StoreWrapper):
    """Entries never arrive, once it is told so."""

    stalled = False

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        if self.stalled and call.is_write:
            await asyncio.Event().wait()
        return await run()


def _stalled(limit: int, body_bytes: int) -> float:
    return asyncio.run(_stall(limit, body_bytes))


async def _stall(limit: int, body_bytes: int) -> float:
    store = _Stalled(MemoryStore())
    lake = LogLake(store)
    await lake.create_topic(TOPIC, TopicSettings())
    producer = await lake.producer(TOPIC, options=ProducerOptions(memory_bytes=limit))
    await producer.send(Message(b"first"))
    before, receipts = rss_bytes(), []
    store.stalled = True
    try:
        while True:
            receipts.append(producer.send(Message(bytes(body_bytes))))
            if len(receipts) % 1000 == 0:
                await asyncio.sleep(0)
    except BackPressureError:
        await asyncio.sleep(0.5)  # so that what can be built of it is built
    return float(rss_bytes("VmHWM") - before)


def _fill(root: str, rows: int) -> None:
    async def work() -> None:
        async with LogLake(LocalStore(root)) as lake:
            topic = await create(lake, 8)
            await fill(lake, arrow_rows(rows), 1)
            await publish(topic)

    asyncio.run(work())


def _read(root: str) -> float:
    async def work() -> float:
        async with LogLake(LocalStore(root), read_only=True) as lake:
            reader = await lake.reader(TOPIC)
            before = rss_bytes()
            async for _ in reader.read():
                pass
            return float(rss_bytes("VmHWM") - before)

    return asyncio.run(work())
