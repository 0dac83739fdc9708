"""Workers in virtual time: a lake on simulated S3, and the cells of its groups where a user may keep them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.consumers import PushConsumer, PushOptions
from penstock.consumers.membership import Subscription
from penstock.coordinator import Coordination
from penstock.coordinator.tables import Cell, CellTable, CellVersion, MemoryTable, ObjectStoreTable
from penstock.coordinator.workers.lease import LEASE_ON_STORE_S, LEASE_S
from penstock.log import MessageType, PenstockError, Runtime, TopicSettings
from penstock.log.stores.latency import Latency
from tests.benchmarks.topics import TOPIC
from tests.benchmarks.virtual import Client, World

T = TypeVar("T")
GROUP = "workers"


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where cells are, and how long it takes to ask there; None: in the lake's own store."""

    name: str
    put: Latency | None = None
    get: Latency | None = None
    lease_s: float = LEASE_S


SQLITE = Place(name="SQLite", put=Latency(5, 40), get=Latency(0.2, 2))
DYNAMODB = Place(name="DynamoDB", put=Latency(5, 15), get=Latency(5, 15))
ON_S3 = Place(name="S3", lease_s=LEASE_ON_STORE_S)
PLACES = (SQLITE, DYNAMODB, ON_S3)


class LatencyTable:
    """A table that answers as slowly as a real one, for one process; all share ``inner``. Counts requests by verb."""

    lists_cheaply = False

    def __init__(self, inner: MemoryTable, put: Latency, get: Latency, runtime: Runtime, requests: Counter[str]) -> None:
        self._inner = inner
        self._put, self._get = put, get
        self._runtime = runtime
        self._requests = requests

    @property
    def url(self) -> str:
        return self._inner.url

    async def get(self, key: str) -> Cell | None:
        return await self._around("get", self._get, lambda: self._inner.get(key))

    async def put(self, key: str, data: bytes, *, expected: CellVersion | None) -> CellVersion:
        return await self._around("put", self._put, lambda: self._inner.put(key, data, expected=expected))

    async def delete(self, key: str, *, expected: CellVersion) -> None:
        await self._around("put", self._put, lambda: self._inner.delete(key, expected=expected))

    async def keys(self, prefix: str) -> list[str]:
        return await self._around("keys", self._get, lambda: self._inner.keys(prefix))

    async def read_all(
        self, prefixes: Sequence[str], *, known: Mapping[str, CellVersion]
    ) -> dict[str, Cell | CellVersion | PenstockError]:
        return await self._around("read_all", self._get, lambda: self._inner.read_all(prefixes, known=known))

    async def close(self) -> None:
        pass

    async def _around(self, verb: str, latency: Latency, call: Callable[[], Awaitable[T]]) -> T:
        self._requests[verb] += 1
        latency_s = latency.sample_s(self._runtime)
        await asyncio.sleep(latency_s / 2)
        try:
            return await call()
        finally:
            await asyncio.sleep(latency_s / 2)


@dataclass(frozen=True)
class Worker:
    """A process with a consumer, or about to have one."""

    name: str
    client: Client
    coordination: Coordination
    consumer: PushConsumer

    async def start(self) -> None:
        await self.client.process.run(self.consumer.start())

    async def close(self) -> None:
        await self.client.process.run(self.consumer.close())
        await self.client.process.run(self.coordination.close())

    def kill(self) -> None:
        self.client.process.crash()

    @property
    def lag(self) -> int:
        """Messages not settled of the queues it owns."""
        return sum(one.lag_messages for one in self.consumer.statistics().queues)


class WorkersWorld(World):
    """A world whose groups keep their cells at ``place``."""

    def __init__(self, seed: int, place: Place, *, queues: int = 16) -> None:
        super().__init__(seed)
        self.place = place
        self.queues = queues
        self.cells = MemoryTable()
        self.cell_requests: Counter[str] = Counter()
        """By verb; none where cells are in the store."""

    async def create_topic(self, *, iceberg: bool = False) -> Client:
        """With a client of its own."""
        admin = self.client("admin")
        settings = TopicSettings(message_type=MessageType.FIFO, queues=self.queues, iceberg=iceberg)
        await admin.process.run(admin.lake.create_topic(TOPIC, settings))
        return admin

    def worker(
        self, name: str, listener: Callable[..., Any], *, order: str = "ORDERLY", options: PushOptions | None = None
    ) -> Worker:
        """A new process with a consumer of the topic, not started yet."""
        client = self.client(name)
        coordination = Coordination(self._table(client), client.process.runtime, lease_s=self.place.lease_s, label=name)
        consumer = PushConsumer(
            client.lake,
            coordination,
            group=GROUP,
            subscriptions={TOPIC: Subscription()},
            listener=listener,
            stated={"delivery_order": order},
            options=options or PushOptions(),
        )
        return Worker(name, client, coordination, consumer)

    def _table(self, client: Client) -> CellTable:
        runtime, place = client.process.runtime, self.place
        if place.put is None or place.get is None:
            return ObjectStoreTable(client.store, runtime=runtime)
        return LatencyTable(self.cells, place.put, place.get, runtime, self.cell_requests)

    async def until_shared(self, workers: list[Worker]) -> None:
        """Wait until these own all queues between them, each its share."""
        share = -(-self.queues // len(workers))
        while True:
            counts = [len(worker.consumer.statistics().queues) for worker in workers]
            if sum(counts) == self.queues and max(counts) <= share:
                return
            await asyncio.sleep(0.1)
