"""The web console above many topics and groups: pages, what an open overview costs, and the memory of many viewers.

Pages on a folder are real requests to a console with a look at the lake every 2 s. On the S3 profile time is virtual, and what a page asks
of the store is counted. ``CONSOLE_TOPICS`` and ``CONSOLE_GROUPS`` choose another size.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil

from penstock import aio
from penstock.infra.web.lakes.source import LakeSource
from penstock.infra.web.views.page import PageContext, PageDefinition
from penstock.infra.web.views.pages import PAGES
from penstock.log import Message, ProducerOptions, TopicSettings
from penstock.log.stores.counting import StoreStatistics
from tests.benchmarks.figures import Figure, Options, by_verb
from tests.benchmarks.virtual import World

CONSOLE = [sys.executable, "-c", "from penstock.infra.cli import main; main(prog_name='penstock')", "console", "--json"]
VIEWERS = 100
HOURS_A_MONTH = 730
FOLDER_MS, S3_MS, S3_GETS, OVERVIEW_USD = 200.0, 1000.0, 20.0, 0.50
"""The targets."""
QUEUES, MESSAGES = 4, 4
_AT_ONCE = 8
_EXAMPLES = {"topic": "topic-0003", "group": "group-003"}


def measure(options: Options) -> Iterator[Figure]:
    topics = int(os.environ.get("CONSOLE_TOPICS", options.scaled(1000, 20)))
    groups = int(os.environ.get("CONSOLE_GROUPS", options.scaled(100, 5)))
    size = f"{topics:,} topics × {groups:,} groups"
    yield from _on_s3(topics, groups, size, hours=options.scaled(24, 2), asks=options.scaled(5, 2))
    with tempfile.TemporaryDirectory(prefix="penstock-console-") as folder:
        asyncio.run(_fill_folder(Path(folder), topics, groups))
        yield from _on_a_folder(folder, size, asks=options.scaled(20, 2))


async def fill(lake: aio.Lake, topics: int, groups: int) -> None:
    """Topics with a few messages each, and groups that share them and have begun at their earliest."""
    limit = asyncio.Semaphore(_AT_ONCE)

    async def topic(number: int) -> None:
        async with limit:
            name = f"topic-{number:04}"
            await lake.create_topic(name, TopicSettings(queues=QUEUES))
            producer = await lake.producer(name, options=ProducerOptions(linger=timedelta(0)))
            for _ in range(MESSAGES):
                producer.send(Message(b"{}", keys=["order-1"]))
            await producer.close()

    async def group(number: int) -> None:
        async with limit:
            await lake.create_group(f"group-{number:03}")
            for taken in range(number, topics, groups):
                await lake.reset_offsets(f"group-{number:03}", f"topic-{taken:04}", "earliest")

    await asyncio.gather(*map(topic, range(topics)))
    await asyncio.gather(*map(group, range(groups)))


async def _fill_folder(folder: Path, topics: int, groups: int) -> None:
    async with aio.connect(folder, maintenance=False) as lake:
        await fill(lake, topics, groups)


def shown() -> list[tuple[PageDefinition[Any], dict[str, str]]]:
    """The pages whose names are known here, with these."""
    pages = [page for page in PAGES if set(page.names) <= _EXAMPLES.keys()]
    return [(page, {name: _EXAMPLES[name] for name in page.names}) for page in pages]


def p95(values: Sequence[float]) -> float:
    """The value that one of twenty exceeds."""
    return sorted(values)[max(0, -(-95 * len(values) // 100) - 1)]


# --- The S3 profile -----------------------------------------------------------------------------------------------------------------


def _on_s3(topics: int, groups: int, size: str, *, hours: int, asks: int) -> Iterator[Figure]:
    world = World(1)
    admin, client = world.kernel.process("admin"), world.client("console")
    refresh = timedelta(seconds=60)

    async def build() -> None:
        async with aio.Lake(world.memory, runtime=admin.runtime) as lake:
            await fill(lake, topics, groups)

    async def look() -> tuple[dict[str, list[tuple[float, StoreStatistics]]], StoreStatistics]:
        runtime = client.process.runtime
        source = LakeSource("lake", lambda: aio.Lake(client.store, runtime=runtime), runtime, refresh, is_far=True, is_thrifty=True)
        scene, found = PageContext(source), dict[str, list[tuple[float, StoreStatistics]]]()

        async def asked(name: str, work: Callable[[], Awaitable[object]]) -> None:
            before, began_s = client.store.statistics(), world.now_s
            await work()
            found.setdefault(name, []).append((1000 * (world.now_s - began_s), client.store.statistics() - before))

        for _ in range(asks + 1):
            await asyncio.sleep(10 * refresh.total_seconds())  # nothing that was kept is shown any more
            await asked("the look that all pages share", source.look)
            for page, names in shown():
                await asked(page.name, lambda page=page, names=names: page.shown(scene, page.parse_request(names, {})))  # type: ignore[misc]
        overview = next(page for page in PAGES if page.name == "overview")
        before = client.store.statistics()
        until_s = world.now_s + hours * 3600
        while world.now_s < until_s:
            await source.polled("overview", lambda: overview.shown(scene, overview.parse_request({}, {})))
            await asyncio.sleep(source.poll_interval("overview").total_seconds())
        cost = client.store.statistics() - before
        await source.close()
        return found, cost

    async def main() -> tuple[dict[str, list[tuple[float, StoreStatistics]]], StoreStatistics]:
        await admin.run(build())
        return await client.process.run(look())

    found, cost = world.run(main())
    for name, looks in found.items():
        (first_ms, first), later = looks[0], looks[1:]
        gets = p95([one.get.requests for _, one in later])
        times = [ms for ms, _ in later]
        yield Figure(name=f"{name}, S3, {size}, p95", unit="ms", values=[p95(times)], target=S3_MS)
        yield Figure(
            name=f"{name}, S3, {size}, GETs",
            unit="requests",
            values=[gets],
            target=S3_GETS,
            note=f"a console's first: {first_ms:,.0f} ms, {first.get.requests:,.0f} GETs",
        )
    yield Figure(
        name=f"an open overview, S3, {size}",
        unit="USD/month",
        values=[cost.cost_usd / hours * HOURS_A_MONTH],
        target=OVERVIEW_USD,
        requests=by_verb(cost, hours),
        per="an hour",
    )


# --- A folder -----------------------------------------------------------------------------------------------------------------------


@contextmanager
def console(folder: str, *, refresh: str) -> Iterator[tuple[str, int, psutil.Process]]:
    """A console in a process of its own: its host, port and process."""
    command = [*CONSOLE, "--port", "0", "--lake", folder, "--refresh", refresh]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            yield told["host"], told["port"], psutil.Process(process.pid)
        finally:
            process.terminate()


def _on_a_folder(folder: str, size: str, *, asks: int) -> Iterator[Figure]:
    with console(folder, refresh="2s") as (host, port, _):
        for page, names in shown():
            path = page.path.format_map(names)
            times = [_timed(f"http://{host}:{port}/l/lake{path}") for _ in range(asks + 1)]
            note = f"a console's first look: {times[0]:,.0f} ms"
            yield Figure(name=f"{page.name}, folder, {size}, p95", unit="ms", values=[p95(times[1:])], target=FOLDER_MS, note=note)
    with console(folder, refresh="2s") as (host, port, process), ExitStack() as viewers:
        _timed(f"http://{host}:{port}/l/lake/")
        before = process.memory_info().rss
        for _ in range(VIEWERS):
            viewers.enter_context(_viewer(host, port))
        time.sleep(20)
        after = process.memory_info().rss
        yield Figure(name=f"memory, {size}, no viewer", unit="MiB", values=[before / 2**20])
        yield Figure(
            name=f"memory, {size}, {VIEWERS} viewers of the overview",
            unit="MiB",
            values=[after / 2**20],
            note="after 20 s of watching",
        )


def _timed(url: str) -> float:
    """The milliseconds of a request, some time after the one before."""
    time.sleep(0.5)
    began_s = time.perf_counter()
    with urllib.request.urlopen(url, timeout=600) as answer:
        answer.read()
    return 1000 * (time.perf_counter() - began_s)


@contextmanager
def _viewer(host: str, port: int) -> Iterator[None]:
    """A viewer of the overview's live values."""
    with socket.create_connection((host, port), 60) as connection:
        connection.sendall(b"GET /live/l/lake/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        connection.recv(1024)
        yield
