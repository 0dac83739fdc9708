"""What members of Kafka's groups cost that only wait, and what their commits cost: requests of the store, processor time, memory.

Cells are objects here, so their requests count too.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

from penstock import aio
from penstock.gateway.kafka.options import NEW_TOPICS
from penstock.log.limits import MIB
from tests.benchmarks.figures import Figure, Options
from tests.benchmarks.gateway.kafka_members import GroupMember, connection, fetch_of
from tests.benchmarks.gateway.serving import Served, Used, served

_TOPIC = "bench"
_PARTITIONS = 10
_HEARTBEAT_S = 3.0
_COMMIT_S = 5.0
_FETCH_MS = 500
"""Clients' own default."""
_SETTLING_S = 10.0
_AT_ONCE = 20
_TARGET_MIB = 150.0
_TARGET_CORE = 10.0
_TARGET_PUTS = 2.0


def measure_idle(options: Options) -> Iterator[Figure]:
    members, groups, seconds = options.scaled(500, 2), options.scaled(50, 1), options.scaled(30, 1)
    note = f"{members} members of {groups} groups, each with a connection to its coordinator and one to fetch by"
    for wait_ms, target in ((_FETCH_MS, _TARGET_CORE), (30_000, None)):
        runs, memory = [], []
        for _ in range(1 if options.small else options.repeats):
            with _served("--objects") as server:
                alone, used = asyncio.run(_waited(server, members, groups, seconds, wait_ms, small=options.small))
            runs.append(100 * used.cpu_s / seconds)
            memory.append((used.memory_bytes - alone) / MIB)
        kind = f"Kafka: {2 * members:,} idle connections, fetches of {wait_ms / 1000:g} s"
        yield Figure(name=f"{kind}: processor time of the gateway", unit="% of a core", values=runs, target=target, note=note)
        yield Figure(name=f"{kind}: memory over one", unit="MiB", values=memory, target=_TARGET_MIB, note=note)


def measure_commits(options: Options) -> Iterator[Figure]:
    members, groups, seconds = options.scaled(100, 2), options.scaled(10, 1), options.scaled(60, 1)
    note = (
        "cells in the bucket, S3 profile by the real clock; members commit at times of their own, and each commit is a step ahead"
    )
    for how, flags in (("as they come", ()), ("gathered for 6 s", ("--gather",))):
        runs = []
        for _ in range(1 if options.small else options.repeats):
            with _served("--s3", *flags) as server:
                runs.append(asyncio.run(_committed(server, members, groups, seconds, small=options.small)))
        yield Figure(
            name=f"Kafka: {members} members of {groups} groups that commit each {_COMMIT_S:g} s, written {how}: PUTs",
            unit="a second",
            values=[run.requests["put"] / seconds for run in runs],
            requests={verb: round(count / seconds, 2) for verb, count in runs[-1].requests.items() if count},
            per="a second",
            target=_TARGET_PUTS,
            note=note,
        )


@contextmanager
def _served(*options: str) -> Iterator[Served]:
    """A gateway of a lake with the topic."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        asyncio.run(_create(Path(folder)))
        with served(Path(folder), "--kafka", *options) as server:
            yield server


async def _create(root: Path) -> None:
    async with aio.connect(root, coordination="store", maintenance=False) as lake:
        await lake.create_topic(_TOPIC, replace(NEW_TOPICS, queues=_PARTITIONS))


async def _waited(server: Served, members: int, groups: int, seconds: float, wait_ms: int, *, small: bool) -> tuple[int, Used]:
    """The memory with one connection, and what was used in some seconds after all had come; its memory is that of then."""
    async with connection(server.endpoints) as one:
        await one.repeat(fetch_of(_TOPIC, 0, wait_ms=1))
        alone = server.used().memory_bytes

    async def wait(stack: AsyncExitStack, number: int, entered: Callable[[], None]) -> None:
        member = GroupMember(await stack.enter_async_context(connection(server.endpoints)), f"bench-{number % groups}")
        fetching = await stack.enter_async_context(connection(server.endpoints))
        fetch = fetch_of(_TOPIC, number // groups % _PARTITIONS, wait_ms=wait_ms)
        await member.join()
        entered()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_again(_HEARTBEAT_S, member.beat))
            tasks.create_task(_again(0, lambda: fetching.repeat(fetch)))

    async with _crowd(members, wait, small=small):
        before = server.used()
        await asyncio.sleep(seconds)
        used = server.used()
        return alone, replace(used.since(before), memory_bytes=used.memory_bytes)


async def _committed(server: Served, members: int, groups: int, seconds: float, *, small: bool) -> Used:
    """What was used in some seconds in which all members committed."""

    async def commit(stack: AsyncExitStack, number: int, entered: Callable[[], None]) -> None:
        member = GroupMember(await stack.enter_async_context(connection(server.endpoints)), f"bench-{number % groups}")
        offsets = itertools.count(1)
        await member.join()
        entered()
        await asyncio.sleep(random.uniform(0, _COMMIT_S))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_again(_HEARTBEAT_S, member.beat))
            tasks.create_task(_again(_COMMIT_S, lambda: member.commit(_TOPIC, number // groups % _PARTITIONS, next(offsets))))

    async with _crowd(members, commit, small=small):
        before = server.used()
        await asyncio.sleep(seconds)
        return server.used().since(before)


async def _again(every_s: float, work: Callable[[], Awaitable[object]]) -> None:
    """Do it again and again, so long after it was begun."""
    while True:
        began_s = time.monotonic()
        await work()
        if every_s:
            await asyncio.sleep(max(0.0, began_s + every_s - time.monotonic()))


@asynccontextmanager
async def _crowd(
    members: int, live: Callable[[AsyncExitStack, int, Callable[[], None]], Awaitable[None]], *, small: bool
) -> AsyncIterator[None]:
    """So many members live in the block, after all have entered and settled. Raises what one of them fails with."""
    entered = asyncio.Semaphore(0)
    async with AsyncExitStack() as stack:
        tasks = []
        for number in range(members):
            tasks.append(asyncio.ensure_future(live(stack, number, entered.release)))
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0.1)  # they do not all come in one moment
        settling = asyncio.ensure_future(_settled(entered, members, 0.5 if small else _SETTLING_S))
        try:
            done, _ = await asyncio.wait((*tasks, settling), return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
            yield
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _settled(entered: asyncio.Semaphore, members: int, seconds: float) -> None:
    for _ in range(members):
        await entered.acquire()
    await asyncio.sleep(seconds)
