"""Typed topics for tests, on a lake in memory, and their tables."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import penstock
from penstock.log import Runtime
from penstock.log.paths import TopicPaths
from penstock.log.stores import MemoryStore
from penstock.log.table.maintenance import MaintenanceOptions, TopicMaintenance
from penstock.log.topic.records import read_record
from tests.lakes import TIMEOUT_S

ORDERS = "id bigint not null, customer string, amount decimal(12,2), at timestamp, lines array<struct<sku: string, count: int>>"


class TypedLake:
    """A lake with the topic ``orders``."""

    def __init__(self, schema: Any = ORDERS, **settings: Any) -> None:
        self.runtime = Runtime()
        self.store = MemoryStore()
        self.lake = penstock.connect(store=self.store, runtime=self.runtime, maintenance=False)
        self.lake.create_topic("orders", schema=schema, **{"queues": 1, **settings})

    def send(self, *rows: Any, **options: Any) -> list[penstock.log.SendResult]:
        with self.lake.producer("orders", **options) as producer:
            return [receipt.result(timeout=TIMEOUT_S) for receipt in [producer.send_row(row) for row in rows]]

    def values(self, **where: Any) -> list[Any]:
        return [message.value for message in self.lake.reader("orders").messages(**where)]

    def publish(self) -> None:
        """Only publish."""
        self._maintained(TopicMaintenance.publish, "orders")

    def compact(self) -> None:
        """Only merge files, once."""
        self._maintained(TopicMaintenance.compact, "orders")

    def upkeep(self, topic: str = "orders") -> TopicMaintenance:
        """Publish, compact, trim and collect once. Raises what a step met."""
        keeper = self._maintained(TopicMaintenance.run_once, topic)
        assert not keeper.statistics().errors
        return keeper

    def _maintained(self, work: Callable[[TopicMaintenance], Awaitable[object]], topic: str) -> TopicMaintenance:
        async def run() -> TopicMaintenance:
            paths = TopicPaths.of(topic)
            found = await read_record(self.store, paths)
            assert found is not None

            async def append(actions: Any) -> None:
                raise AssertionError("nothing is to be appended")

            options = MaintenanceOptions(compact_fan_in=2)
            keeper = TopicMaintenance(self.store, paths, found[0], self.runtime, append, options)
            await work(keeper)
            return keeper

        return asyncio.run(run())

    def close(self) -> None:
        self.lake.close()


@contextmanager
def typed_lake(schema: Any = ORDERS, **settings: Any) -> Iterator[TypedLake]:
    lake = TypedLake(schema, **settings)
    try:
        yield lake
    finally:
        lake.close()
