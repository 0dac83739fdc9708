"""Applications that consume, process and produce: what they make of a message becomes visible with the write that settles it, or not at all."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from penstock.consumers.membership import Subscription
from penstock.consumers.simple import SimpleConsumer
from penstock.coordinator.groups.record import DeliveryOrder
from penstock.coordinator.queues.receipt_handle import ReceiptRefused
from penstock.coordinator.transactions.sending.transaction import Transaction
from penstock.log.errors import PenstockError
from penstock.log.message.message import MessageView
from tests.simulation.simulated import log_uniform
from tests.simulation.transactions.applications import EXPECTED, commit, roll_back, send
from tests.simulation.transactions.machine import Life
from tests.simulation.transactions.plot import CONSUMERS, GROUP, SOURCE, TOPICS
from tests.simulation.transactions.records import Told

if TYPE_CHECKING:
    from tests.simulation.transactions.world import Transacting

_RECEIVED = 4


class Pricing:
    """One machine's."""

    def __init__(self, world: Transacting, name: str) -> None:
        self._world = world
        self._rng = world.kernel.rng(f"pricing/{name}")

    async def work(self, life: Life) -> None:
        while not life.leaving.is_set():
            consumer = SimpleConsumer(
                life.lake,
                life.coordination,
                group=CONSUMERS,
                subscriptions={SOURCE: Subscription()},
                stated={"delivery_order": DeliveryOrder.CONCURRENT, "max_attempts": None},
            )
            try:
                await consumer.start()
                while not life.leaving.is_set():
                    await self._receive(life, consumer)
            except PenstockError as error:
                self._world.check_expected(life.process.name, error)
                await life.pause(1.0)
            with suppress(PenstockError):
                await consumer.close()

    async def _receive(self, life: Life, consumer: SimpleConsumer) -> None:
        invisible = timedelta(seconds=log_uniform(self._rng, *self._world.plot.invisible_s))
        messages = await consumer.receive(_RECEIVED, invisible, timedelta(seconds=5))
        by_queue: dict[int, list[MessageView]] = defaultdict(list)
        for message in messages:
            by_queue[message.queue].append(message)
        await asyncio.gather(*(self._price(life, consumer, of_queue) for of_queue in by_queue.values()))

    async def _price(self, life: Life, consumer: SimpleConsumer, messages: Sequence[MessageView]) -> None:
        world, plot, rng = self._world, self._world.plot, self._rng
        name = f"{life.process.name}/{len(world.history.told)}"
        transaction = Transaction(life.transactions, GROUP, first_check=None, settler=consumer)
        told = Told(name, life.process.name, world.now_s, transaction)
        told.consumed = [(one.topic, one.queue, one.offset) for one in messages]
        world.history.told.append(told)
        try:
            await send(world, told, transaction, rng.choice(TOPICS[: plot.topics]), rng)
            await asyncio.sleep(log_uniform(rng, *plot.think_s))
            transaction.ack(*messages)
            if rng.random() < plot.forgets:
                return
            if rng.random() < plot.backs_out:
                await roll_back(world, told, transaction)
            else:
                await commit(world, told, transaction, rng)
        except ReceiptRefused:
            world.counts["commit: the messages could not be settled"] += 1
            if rng.random() < 0.5:
                await roll_back(world, told, transaction)
        except PenstockError as error:
            world.check_expected(life.process.name, error, EXPECTED)
