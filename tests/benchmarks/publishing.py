"""How long after an append its rows are visible in the Delta table; virtual time, S3 profile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

from penstock.log import LogLake, Message, MessageType, TopicSettings
from penstock.log.format.entry import read_header
from penstock.log.stores.protocol import ObjectInfo
from penstock.log.table.delta.actions import PUBLISHED
from tests.benchmarks.contention import percentile
from tests.benchmarks.figures import Figure, Options
from tests.benchmarks.topics import TOPIC, maintenance_of
from tests.benchmarks.virtual import World


def measure(options: Options) -> Iterator[Figure]:
    seconds = options.scaled(120, 12)
    lags = [_lags(seed, seconds) for seed in range(1, options.repeats + 1)]
    for share, target in ((0.5, None), (0.95, 5.0), (1.0, None)):
        values = [percentile(of_run, share) for of_run in lags]
        yield Figure(name=f"append to visible in Delta, p{100 * share:g}", unit="s", values=values, target=target)


def _lags(seed: int, seconds: int) -> list[float]:
    """Of every entry, from its PUT taking effect to that of the commit that brings it."""
    world = World(seed)

    async def send(lake: LogLake) -> None:
        producer = await lake.producer(TOPIC)
        for number in range(seconds * 20):
            producer.send(Message(b"x" * 100, f"group-{number % 100}"))
            await asyncio.sleep(0.05)
        await producer.close()

    async def maintain(lake: LogLake, stop: asyncio.Event) -> None:
        topic = await lake.topic(TOPIC, writable=True)
        await maintenance_of(lake.store, topic).run_forever(stop)

    async def main() -> None:
        writer, keeper = world.client("writer"), world.client("keeper")
        settings = TopicSettings(message_type=MessageType.FIFO, queues=8)
        await writer.process.run(writer.lake.create_topic(TOPIC, settings))
        stop = asyncio.Event()
        keeping = asyncio.ensure_future(keeper.process.run(maintain(keeper.lake, stop)))
        await writer.process.run(send(writer.lake))
        await asyncio.sleep(10)
        stop.set()
        await keeping

    world.run(main())
    return asyncio.run(_compare(world))


async def _compare(world: World) -> list[float]:
    listed = await world.memory.list("")
    published: list[tuple[int, int]] = []
    """(last entry of a commit, when)."""
    for info in listed:
        if "/_delta_log/" in info.key and info.key.endswith(".json"):
            for line in (await world.memory.get(info.key)).data.splitlines():
                txn = json.loads(line).get("txn")
                if txn and txn["appId"] == PUBLISHED:
                    published.append((txn["version"], info.last_modified_ms))
    published.sort()
    lags = []
    for info in listed:
        if _is_entry(info) and (header := read_header((await world.memory.get(info.key)).data, where=info.key)).batches:
            visible_ms = next(time_ms for entry, time_ms in published if entry >= header.entry)
            lags.append((visible_ms - info.last_modified_ms) / 1000)
    return lags


def _is_entry(info: ObjectInfo) -> bool:
    return "/log/0" in info.key
