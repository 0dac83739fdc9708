"""What an idle topic costs; virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from penstock.log import LogLake, TopicSettings
from penstock.log.stores.counting import StoreStatistics
from tests.benchmarks.figures import Figure, Options, by_verb
from tests.benchmarks.topics import TOPIC, maintenance_of
from tests.benchmarks.virtual import Client, World

_HOURS_A_MONTH = 730


def measure(options: Options) -> Iterator[Figure]:
    hours = options.scaled(3, 1)
    for name, maintained in (("one reader following", False), ("one reader following, and maintenance", True)):
        requests = _run(hours, maintained=maintained)
        yield Figure(
            name=f"idle topic, {name}",
            unit="USD/month",
            values=[requests.cost_usd / hours * _HOURS_A_MONTH],
            target=1.5,
            requests=by_verb(requests, hours),
            per="an hour",
        )


def _run(hours: int, *, maintained: bool) -> StoreStatistics:
    world = World(1)

    async def follow(lake: LogLake) -> None:
        reader = await lake.reader(TOPIC)
        async for _ in reader.read(follow=True, start="latest"):
            pass

    async def maintain(lake: LogLake) -> None:
        topic = await lake.topic(TOPIC, writable=True)
        await maintenance_of(lake.store, topic).run_forever(asyncio.Event())

    async def main() -> StoreStatistics:
        client: Client = world.client("client")
        await client.process.run(client.lake.create_topic(TOPIC, TopicSettings()))
        tasks = [client.process.spawn(follow(client.lake))]
        if maintained:
            tasks.append(client.process.spawn(maintain(client.lake)))
        await asyncio.sleep(1800)
        before = world.requests()
        await asyncio.sleep(hours * 3600)
        requests = world.requests() - before
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return requests

    return world.run(main())
