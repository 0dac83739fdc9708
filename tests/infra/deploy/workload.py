"""What processes of each role do to a lake, as far as their requests differ: run on stores that each role's policy guards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta

import pyarrow as pa

from penstock.coordinator.tables import ObjectStoreTable
from penstock.infra.cli.checks import _check_store
from penstock.infra.cli.upkeep import maintain_once
from penstock.infra.deploy.access import Role
from penstock.log import Lake, Message, ProducerOptions, TopicSettings
from penstock.log.limits import MIB
from penstock.log.paths import TopicPaths
from penstock.log.stores import MemoryStore
from penstock.log.stores.latency import S3_STANDARD, LatencyStore
from penstock.log.topics import read_record
from penstock.log.verify import verify
from tests.infra.deploy.iam import Bucket, Document, GuardedStore
from tests.simulation.kernel import Kernel
from tests.simulation.process import SimClock

BUCKET = Bucket("lakes", "prod/")
TOPICS = ("orders", "events")
GROUP = "billing"
DEAD = f"%DLQ%{GROUP}"
_AT_ONCE = ProducerOptions(linger=timedelta(0))
_ENTRIES = 70
"""Enough for a checkpoint."""


class World:
    """One bucket in virtual time, and processes that come and go, each under the policy of its role."""

    def __init__(self, policies: Mapping[Role, Document], *, named: tuple[str, ...] = ()) -> None:
        self.named = named
        """The only topics that anybody may know of; empty: all."""
        self.kernel = Kernel("policies")
        memory = MemoryStore(name="bucket", clock=SimClock(self.kernel.loop))
        runtime = self.kernel.process("bucket").runtime
        bucket = LatencyStore(memory, profile=S3_STANDARD, runtime=runtime)
        self.stores = {role: GuardedStore(bucket, policy, BUCKET) for role, policy in policies.items()}

    @asynccontextmanager
    async def process(self, role: Role) -> AsyncIterator[Lake]:
        runtime = self.kernel.process(role).runtime
        async with Lake(self.stores[role], runtime=runtime, read_only=role is Role.READER) as lake:
            yield lake

    # --- What the roles do ------------------------------------------------------------------------------------------------------

    async def operate(self) -> None:
        async with self.process(Role.MAINTENANCE) as lake:
            for name in TOPICS:
                await lake.create_topic(name, TopicSettings(message_type="FIFO", queues=2, retention=timedelta(days=3)))  # type: ignore[arg-type]
            await lake.alter_topic("events", retention=timedelta(days=2))

    async def produce(self) -> None:
        async with self.process(Role.PRODUCER) as left, self.process(Role.PRODUCER) as right:
            await _send_all_kinds("orders", left, right)
            await _race("orders", left, right)  # so that the floor rises past all that
            named = await left.producer("events", name="nightly", options=_AT_ONCE)
            await named.send(_message(0), sequence=1)
        if not self.named:  # the doctor asks which topics there are
            await _check_store(self.stores[Role.PRODUCER], self.kernel.process("doctor").runtime, lambda check: None)

    async def maintain(self, *pauses: timedelta) -> None:
        """Rounds of upkeep with so much time before each."""
        for pause in pauses:
            await self.kernel.let_pass(pause)
            async with self.process(Role.MAINTENANCE) as lake:
                results: list[object] = []
                await maintain_once(lake, await self._names(lake), lambda topic, step, result, to=results: to.append(result))  # type: ignore[misc]
                assert not [result for result in results if isinstance(result, Exception)]

    async def _names(self, lake: Lake) -> list[str]:
        """Those of the named topics that are there by now."""
        return [name for name in self.named if await read_record(lake.store, TopicPaths.of(name)) is not None]

    async def read(self) -> None:
        async with self.process(Role.READER) as lake:
            for name in await self._names(lake) or await lake.topics():
                record = (await lake.topic(name)).record
                reader = await lake.reader(name)
                await reader.to_arrow()
                await reader.lookup(key="key-7")
                await lake.describe_topic(name)
                assert (await verify(lake.store, TopicPaths.of(name), record, lake.runtime)).ok
            table = ObjectStoreTable(lake.store, runtime=lake.runtime)
            await asyncio.gather(*(table.get(key) for key in await table.keys("groups/")))

    async def consume(self) -> None:
        """Cells, rows, and dead letters of a topic that the first one makes."""
        async with self.process(Role.CONSUMER) as lake, self.process(Role.CONSUMER) as other:
            await (await lake.reader("orders")).to_arrow()
            table = ObjectStoreTable(lake.store, runtime=lake.runtime)
            assert await table.get("queues/billing/orders/0") is None
            version = await table.put("queues/billing/orders/0", b"granted", expected=None)
            version = await table.put("queues/billing/orders/0", b"settled", expected=version)
            await table.delete("queues/billing/orders/0", expected=version)
            await table.close()
            await lake.create_topic(DEAD, TopicSettings(message_type="FIFO", queues=1))  # type: ignore[arg-type]
            await _send_all_kinds(DEAD, lake, other)
            assert await (await lake.reader(DEAD)).lookup(key="key-7")

    async def end(self) -> None:
        """A topic goes, and another takes its name."""
        async with self.process(Role.MAINTENANCE) as lake:
            await lake.delete_topic("events")
            await lake.create_topic("events", TopicSettings(queues=1))
            table = ObjectStoreTable(lake.store, runtime=lake.runtime)
            await table.put("groups/billing", b"record", expected=None)
            assert await table.get("groups/billing") is not None
            await table.keys("groups/")
            await table.close()


def everything(policies: Mapping[Role, Document], *, named: tuple[str, ...] = ()) -> World:
    """A life of a lake, weeks long."""
    world = World(policies, named=named)
    world.kernel.run(_everything(world))
    return world


async def _everything(world: World) -> None:
    await world.operate()
    await world.produce()
    await world.read()
    await world.consume()
    await world.maintain(timedelta(0), timedelta(hours=2), timedelta(hours=2))
    await world.read()
    await world.end()
    await world.maintain(timedelta(days=3), timedelta(hours=2), timedelta(days=8), timedelta(hours=2), timedelta(hours=2))
    await world.read()


async def _send_all_kinds(topic: str, *lakes: Lake) -> None:
    """From processes that lose races to each other, then a batch too large for an entry."""
    await _race(topic, *lakes)
    bodies = [bytes([number]) * MIB for number in range(9)]
    producer = await lakes[0].producer(topic)
    await producer.send_batch(pa.table({"body": bodies, "message_group": [f"user-{n}" for n in range(9)]}))


async def _race(topic: str, *lakes: Lake) -> None:
    producers = [await lake.producer(topic, options=_AT_ONCE) for lake in lakes]
    for number in range(_ENTRIES):
        await asyncio.gather(*(one.send(_message(number)) for one in producers))


def _message(number: int) -> Message:
    return Message(b"x" * 100, message_group=f"user-{number}", keys=[f"key-{number}"])
