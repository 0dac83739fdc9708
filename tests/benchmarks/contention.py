"""Durable sends of many producers to one topic, each a process of its own, on the S3 profile in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.log import Message, Pace, Producer, TopicSettings
from penstock.log.stores.counting import StoreStatistics
from tests.benchmarks.virtual import Client, World

TOPIC = "orders"
QUEUES = 16


@dataclass(frozen=True)
class Load:
    """Producers and what they send."""

    producers: int
    sends_per_s: float
    """Of each producer, at random times."""
    seconds: float
    warm_up_s: float = 5.0
    body: bytes = b"v" * 100


@dataclass
class Outcome:
    """Latencies of a load once it was warm."""

    latencies_ms: list[list[float]] = field(default_factory=list)
    """Of each producer."""
    requests: StoreStatistics = field(default_factory=StoreStatistics)
    kinds: dict[str, int] = field(default_factory=dict)
    appends: int = 0
    """Batches made durable."""
    entries: int = 0
    failed: int = 0

    @property
    def all_ms(self) -> list[float]:
        return [latency for of_one in self.latencies_ms for latency in of_one]

    @property
    def requests_per_append(self) -> float:
        return self.requests.requests / max(1, self.appends)

    def worst(self) -> tuple[int, float]:
        """The producer with the highest p99, and that."""
        p99s = [percentile(of_one, 0.99) if of_one else 0.0 for of_one in self.latencies_ms]
        worst = max(range(len(p99s)), key=p99s.__getitem__)
        return worst, p99s[worst]


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(share * len(ordered) + 0.5) - 1))] if ordered else float("nan")


def measure(load: Load, *, seed: int = 1, pace: Pace | None = None) -> Outcome:
    """Run a load to its end."""
    world = World(seed, pace=pace)
    return world.run(_Run(world, load).main())


class _Run:
    def __init__(self, world: World, load: Load) -> None:
        self._world = world
        self._load = load
        self._outcome = Outcome(latencies_ms=[[] for _ in range(load.producers)])
        self._measured_from_s = float("inf")
        self._measured_until_s = float("inf")
        self._producers: list[Producer] = []
        self._sends: list[asyncio.Task[None]] = []

    async def main(self) -> Outcome:
        world, load, outcome = self._world, self._load, self._outcome
        admin = world.client("admin")
        await admin.process.run(admin.lake.create_topic(TOPIC, TopicSettings(queues=QUEUES)))
        clients = [world.client(f"producer-{number}") for number in range(load.producers)]
        start_s = world.now_s
        self._measured_from_s = start_s + load.warm_up_s
        self._measured_until_s = self._measured_from_s + load.seconds
        drivers = [asyncio.ensure_future(client.process.run(self._drive(client, n))) for n, client in enumerate(clients)]
        await asyncio.sleep(load.warm_up_s)
        before = world.requests(), dict(world.kinds), self._appends(), await self._entries(admin)
        await asyncio.sleep(load.seconds)
        outcome.requests = world.requests() - before[0]
        outcome.kinds = {kind: count - before[1].get(kind, 0) for kind, count in world.kinds.items()}
        outcome.appends = self._appends() - before[2]
        outcome.entries = await self._entries(admin) - before[3]
        await asyncio.gather(*drivers)
        return outcome

    async def _drive(self, client: Client, number: int) -> None:
        load, chance = self._load, client.process.runtime.random
        await asyncio.sleep(chance.uniform(0, load.warm_up_s / 2))
        producer = await client.lake.producer(TOPIC)
        self._producers.append(producer)
        sends: list[asyncio.Task[None]] = []
        while self._world.now_s < self._measured_until_s:
            await asyncio.sleep(chance.expovariate(load.sends_per_s))
            sends.append(asyncio.ensure_future(self._send(producer, number)))
        await asyncio.gather(*sends)

    async def _send(self, producer: Producer, number: int) -> None:
        sent_s = self._world.now_s
        try:
            await producer.send(Message(self._load.body))
        except Exception:  # noqa: BLE001 - counted and shown
            self._outcome.failed += 1
            return
        if self._measured_from_s <= sent_s < self._measured_until_s:
            self._outcome.latencies_ms[number].append(1000 * (self._world.now_s - sent_s))

    def _appends(self) -> int:
        return sum(producer.statistics().batches_durable for producer in self._producers)

    async def _entries(self, admin: Client) -> int:
        return len([info for info in await self._world.memory.list("") if "/log/0" in info.key])
