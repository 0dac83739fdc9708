"""Requests and their price at steady rates, publishing included; virtual time, S3 profile."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

from penstock.log import BackPressureError, LogLake, Message, MessageType, TopicSettings
from penstock.log.stores.counting import StoreStatistics
from tests.benchmarks.figures import Figure, Options, by_verb
from tests.benchmarks.topics import TOPIC, maintenance_of
from tests.benchmarks.virtual import World

_MIB = 1024 * 1024
_BODY_BYTES = 16 * 1024
_UNIT_BYTES = 4 * _MIB
_POOL = random.Random(5).randbytes(4 * _MIB)
"""Bodies are cut from this; they do not compress."""


def measure(options: Options) -> Iterator[Figure]:
    for rate_mib_s, seconds in ((1, 60), (10, 60), (100, 6)) if not options.small else ((1, 4),):
        for queues in (8, 16):
            yield from _figures(rate_mib_s, seconds, queues)


def _figures(rate_mib_s: int, seconds: int, queues: int) -> Iterator[Figure]:
    written_bytes, took_s, requests, kinds = _run(rate_mib_s, seconds, queues)
    units = written_bytes / _UNIT_BYTES
    where = f"{rate_mib_s} MiB/s, {queues} queues"
    writes = (requests.put.requests + requests.list.requests) / units
    detail = ", ".join(f"{kind} {count / units:.2f}" for kind, count in sorted(kinds.items()) if count / units >= 0.05)
    reads = requests.get.requests / units
    bound = rate_mib_s >= 10
    yield Figure(
        name=f"writes (PUT, LIST) per 4 MiB at {where}",
        unit="requests",
        values=[writes],
        target=3 if bound else None,
        requests=by_verb(requests, units),
        per="per 4 MiB",
        note=f"{written_bytes / _MIB / took_s:.0f} MiB/s reached; {detail}",
    )
    yield Figure(name=f"reads (GET) per 4 MiB at {where}", unit="requests", values=[reads], target=2 if bound else None)
    yield Figure(name=f"request cost at {where}", unit="USD/GiB", values=[requests.cost_usd * 1024 * _MIB / written_bytes])


def _run(rate_mib_s: int, seconds: int, queues: int) -> tuple[int, float, StoreStatistics, dict[str, int]]:
    world = World(1)
    chance = random.Random(6)
    sent_bytes = 0
    took_s = 0.0

    async def send(lake: LogLake) -> None:
        nonlocal sent_bytes, took_s
        producer = await lake.producer(TOPIC)
        start_s = world.now_s
        count = rate_mib_s * seconds * _MIB // _BODY_BYTES
        for number in range(count):
            at = chance.randrange(len(_POOL) - _BODY_BYTES)
            while True:
                try:
                    producer.send(Message(_POOL[at : at + _BODY_BYTES], f"group-{number % 1000}"))
                    break
                except BackPressureError:
                    await producer.wait_for_room()
            sent_bytes += _BODY_BYTES
            due_s = start_s + number * _BODY_BYTES / (rate_mib_s * _MIB)
            if due_s > world.now_s:
                await asyncio.sleep(due_s - world.now_s)
        await producer.close()
        took_s = world.now_s - start_s

    async def maintain(lake: LogLake, stop: asyncio.Event) -> None:
        topic = await lake.topic(TOPIC, writable=True)
        await maintenance_of(lake.store, topic).run_forever(stop)

    async def main() -> tuple[StoreStatistics, dict[str, int]]:
        writer, keeper = world.client("writer"), world.client("keeper")
        settings = TopicSettings(message_type=MessageType.FIFO, queues=queues)
        await writer.process.run(writer.lake.create_topic(TOPIC, settings))
        stop = asyncio.Event()
        keeping = asyncio.ensure_future(keeper.process.run(maintain(keeper.lake, stop)))
        await asyncio.sleep(5)  # the first round of upkeep is not what is measured
        before, kinds_before = world.requests(), dict(world.kinds)
        await writer.process.run(send(writer.lake))
        await asyncio.sleep(4)
        requests = world.requests() - before
        kinds = {kind: count - kinds_before.get(kind, 0) for kind, count in world.kinds.items()}
        stop.set()
        await keeping
        return requests, kinds

    requests, kinds = world.run(main())
    return sent_bytes, took_s, requests, kinds
