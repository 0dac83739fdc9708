"""A lake in memory as operators see it, with cells written as consumers would."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from msgspec.structs import replace

import penstock
from penstock import aio
from penstock.coordinator.queues.cell import Marker, MessageState, QueueCell, Tries
from penstock.coordinator.queues.offsets import OffsetSet
from penstock.infra.cli.lake.maintenance import maintain_once
from penstock.log import Runtime
from penstock.log.stores import MemoryStore
from tests.cells import change_cell, parked
from tests.lakes import TIMEOUT_S
from tests.log.test_reader import publish
from tests.log.topics import HandClock

Message = penstock.Message
MINUTE = timedelta(minutes=1)


class Shop:
    """A lake in memory with a clock moved by hand, a topic of two queues, and cells written as consumers would."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.runtime = Runtime(clock=self.clock)
        self.store = MemoryStore(clock=self.clock)
        self.lake = penstock.connect(store=self.store, runtime=self.runtime)
        self.lake.create_topic("orders", message_type="FIFO", queues=2)
        self.sent: defaultdict[int, list[str]] = defaultdict(list)

    def send(self, queue: int, *groups: str) -> None:
        """A message of each of these message groups, to one queue, a minute after what was sent before."""
        self.clock.advance(seconds=60)
        with self.lake.producer("orders", linger=timedelta(0)) as producer:
            for group in groups:
                receipt = producer.send(Message(b"body", message_group=group, tag="t"), queue=queue)
                self.sent[queue].append(receipt.result(timeout=TIMEOUT_S).message_id)

    def begin(self, *offsets: int, group: str = "billing") -> None:
        """As the first consumer does."""
        for queue, offset in enumerate(offsets):
            assert self.lake.reset_offsets(group, "orders", offset, queues=None if queue == 0 else [queue])[queue] == offset

    def change(self, queue: int, change: Callable[[QueueCell], QueueCell] = lambda cell: cell) -> QueueCell:
        """What the owner of a queue does to its cell."""
        return change_cell(lambda: aio.connect(store=self.store, runtime=self.runtime), queue, change)

    def maintain(self) -> None:
        """Each step of upkeep once: what is too old goes."""

        async def run() -> None:
            async with aio.connect(store=self.store, runtime=self.runtime) as lake:
                await maintain_once(lake, ["orders"], lambda *_: None)

        asyncio.run(run())


@pytest.fixture
def shop() -> Iterator[Shop]:
    made = Shop()
    made.lake.create_group("billing")
    with made.lake:
        yield made


@pytest.fixture
def stuck(shop: Shop) -> Shop:
    """Three message groups are parked, two of them in queue 0."""
    shop.send(0, "ann", "bob", "ann", "bob")
    publish(shop.store, shop.runtime)
    shop.send(0, "dan")
    shop.send(1, "cid")
    shop.begin(0, 0)
    listed = OffsetSet.of([(0, 5)])

    def park(*markers: Marker) -> Callable[[QueueCell], QueueCell]:
        return lambda cell: replace(
            cell.taken_by("w/1").with_listed(listed), markers={100 + marker.head: marker for marker in markers}
        )

    shop.change(0, park(parked(1), parked(4, attempts=20), Marker(0, 1, Tries(MessageState.WAITING, 3, 3))))
    shop.change(1, park(parked(0)))
    return shop
