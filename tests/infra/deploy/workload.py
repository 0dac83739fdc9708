"""What processes of each role do to a lake, as far as their requests differ: run on stores that each role's policy guards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from penstock.aio import Lake
from penstock.cdc.debezium.state import EngineState, EngineStateStore
from penstock.cdc.events.table_types import TableTypes
from penstock.cdc.mongodb.state import MongoStateStore
from penstock.cdc.postgres.state import CapturedTable, PostgresState, PostgresStateStore, TypesStore
from penstock.cdc.sync.lease import SyncInUse, SyncLease
from penstock.cdc.sync.record import SyncRecord, sync_group
from penstock.cdc.sync.record import read_record as read_record_of_sync
from penstock.cdc.sync.targets.source_types import read_types
from penstock.consumers.handlers.results import ConsumeResult
from penstock.consumers.membership import Subscription
from penstock.consumers.metrics import MemoryMetrics
from penstock.consumers.push import PushConsumer
from penstock.consumers.push_options import PushOptions
from penstock.consumers.ranges.mirror import GroupMirror
from penstock.consumers.ranges.offsets import StreamOffset
from penstock.consumers.statistics import TAKE_OVERS
from penstock.coordinator.cells.agreement import TableAgreement, table_record
from penstock.coordinator.cells.keys import GATEWAYS
from penstock.coordinator.cells.table_record import OwnTable
from penstock.coordinator.coordination import Coordination
from penstock.coordinator.rebalance.roles import OfferedRole, Players, stand_in
from penstock.coordinator.tables import CellTable, MemoryTable
from penstock.coordinator.timers.options import TimerOptions
from penstock.coordinator.timers.role import TIMERS, Timers
from penstock.coordinator.timers.young_topics import with_young_topics
from penstock.gateway.peers.entries import GatewayEntry
from penstock.gateway.peers.registry import PeerRegistry
from penstock.infra.cli.lake.maintenance import _finish_once, maintain_once
from penstock.infra.cli.setup.doctor import _check_store
from penstock.infra.deploy.access import ProcessRole
from penstock.infra.lake_metrics import LakeMetrics
from penstock.log import Message, MessageType, MessageView, ProducerOptions, Runtime, TopicLimits, TopicSettings
from penstock.log.limits import MIB
from penstock.log.linker import open_linker
from penstock.log.message.batch_rows import MessageIds, rows_of_messages
from penstock.log.message.routing import Router
from penstock.log.paths import TopicPaths
from penstock.log.schema.fields import PrimitiveType
from penstock.log.stage.jobs import upload_part
from penstock.log.stores import MemoryStore
from penstock.log.stores.latency import S3_STANDARD, LatencyStore
from penstock.log.topic.records import read_record
from penstock.log.verify import verify
from tests.infra.deploy.iam import Bucket, Document, GuardedStore, GuardedTable
from tests.infra.deploy.transacting import SETTLING, settle, transact
from tests.simulation.kernel import Kernel
from tests.simulation.process import SimClock
from tests.simulation.small import small_log
from tests.thorough import thoroughly

BUCKET = Bucket("lakes", "prod/")
TOPICS = ("orders", "events", "shop", "later", "paid")
MADE = TOPICS[:2]
"""By operators."""
GROUP = "billing"
DEAD = f"%DLQ%{GROUP}"
TABLE, CELLS = "arn:aws:dynamodb:eu-west-1:123456789012:table/cells", "prod/"
"""Where cells lie in DynamoDB."""
_QUEUES = 2
FIFO = TopicSettings(message_type="FIFO", queues=_QUEUES, retention=timedelta(days=3))
_SOON, _PATIENCE = timedelta(seconds=1), 120
TYPES = TableTypes("public", "orders", {"id": PrimitiveType.BIGINT})
_AT_ONCE = ProducerOptions(linger=timedelta(0))
_LARGE = TopicLimits(max_body_bytes=16 * MIB)
_FEW_IN_MEMORY = TimerOptions(flush_rows=1)
_SMALL: dict[str, int] = thoroughly({}, {"VALIDITY_ENTRIES": 8, "UNNAMED_ROW_ENTRIES": 8, "CHECKPOINT_ENTRIES": 8})
"""How many entries a topic has from one checkpoint to the next changes nothing of its objects' names."""
_ENTRIES = thoroughly(70, 10)
"""Enough for a checkpoint; the topic of delayed messages goes without, as its objects have the same names."""
_FEW = 6


async def pause_until_stopped(topic: str, stop: asyncio.Event) -> None:
    """A role's play that has nothing to do."""
    await stop.wait()


class World:
    """One bucket in virtual time, and processes that come and go, each under the policy of its role; cells in the bucket, or in DynamoDB."""

    def __init__(self, policies: Mapping[ProcessRole, Document], *, named: tuple[str, ...] = (), dynamodb: bool = False) -> None:
        self.named = named
        """The only topics that anybody may know of; empty: all."""
        self.kernel = Kernel("policies")
        self.policies = policies
        self.memory = MemoryStore(name="bucket", clock=SimClock(self.kernel.loop))
        bucket = LatencyStore(self.memory, profile=S3_STANDARD, runtime=self.kernel.process("bucket").runtime)
        self.stores = {role: GuardedStore(bucket, policy, BUCKET) for role, policy in policies.items()}
        cells = MemoryTable(name="cells")
        self.tables = {role: GuardedTable(cells, policy, TABLE, CELLS) for role, policy in policies.items()} if dynamodb else {}
        both = {"Statement": [one for role in SETTLING for one in policies[role]["Statement"]]}
        self.settling = GuardedStore(bucket, both, BUCKET)
        """Of processes that consume, and settle in transactions."""
        self.settling_table = GuardedTable(cells, both, TABLE, CELLS) if dynamodb else None

    @asynccontextmanager
    async def process(self, role: ProcessRole) -> AsyncIterator[Lake]:
        async with self.lake(role, self.kernel.process(role).runtime) as lake:
            yield lake

    def lake(self, role: ProcessRole, runtime: Runtime) -> Lake:
        lake = Lake(self.stores[role], runtime=runtime, read_only=role is ProcessRole.READER, coordination="store")
        if self.tables:
            lake._coordination = _coordination(lake, self.tables[role])
        return lake

    def settling_lake(self, runtime: Runtime) -> Lake:
        lake = Lake(self.settling, runtime=runtime, coordination="store")
        if self.settling_table is not None:
            lake._coordination = _coordination(lake, self.settling_table)
        return lake

    # --- What the roles do ------------------------------------------------------------------------------------------------------

    async def operate(self) -> None:
        async with self.process(ProcessRole.MAINTENANCE) as lake:
            for name in MADE:
                await lake.create_topic(name, FIFO)
            await lake.create_topic("later", TopicSettings(message_type=MessageType.DELAY, queues=_QUEUES, limits=_LARGE))
            await lake.create_topic("paid", TopicSettings(message_type=MessageType.TRANSACTION, queues=_QUEUES))
            await lake.alter_topic("events", retention=timedelta(days=2))

    async def produce(self) -> None:
        async with self.process(ProcessRole.PRODUCER) as left, self.process(ProcessRole.PRODUCER) as right:
            await _send_all_kinds("orders", left, right)
            await _race("orders", left, right)  # so that the floor rises past all that
            named = await left.producer("events", name="nightly", options=_AT_ONCE)
            await named.send(_message("events", 0), sequence=1)
            await self._delay(left, right)
        if not self.named:  # the doctor asks which topics there are
            await _check_store(self.stores[ProcessRole.PRODUCER], self.kernel.process("doctor").runtime, lambda check: None)

        async with self.process(ProcessRole.PRODUCER) as lake:
            await _link("orders", lake, None)
            await _link("orders", lake, "spark/nightly")
            async with self.process(ProcessRole.MAINTENANCE) as operators:
                await _link("events", lake, None, before=lambda: operators.alter_topic("events", queues=2 * _QUEUES))

    async def _delay(self, left: Lake, right: Lake) -> None:
        """As to any topic; what waits for minutes and what is called back, some of it too large for an entry; and what waits for days."""
        await _send_all_kinds("later", left, right)
        producer = await left.producer("later", options=_AT_ONCE)
        await producer.send(_message("later", 0, bytes(9 * MIB)))
        await producer.send(Message(b"remind", delay=timedelta(days=6)))
        large = bytes(9 * MIB)
        receipt = await producer.send(Message(large, delay=timedelta(days=7)))  # once both have gone nobody needs their run
        assert receipt.recall_handle is not None
        assert (await right.recall(receipt.recall_handle)).body == large

    def capture(self) -> None:
        """What a capture keeps is written by threads of its own, without the loop: on the bucket itself, where nothing waits."""
        store = GuardedStore(self.memory, self.policies[ProcessRole.CAPTURE], BUCKET)
        for state in (PostgresState("1", "s", "d", "p"), PostgresState("1", "s", "d", "p", (CapturedTable("public", "orders"),))):
            states = PostgresStateStore(store, _at_once, topic="shop", slot="penstock")
            states.load()
            states.save(state)
            assert not states.others()
        TypesStore(store, _at_once, topic="shop").keep(TYPES)
        engines = EngineStateStore(store, _at_once, topic="shop", name="penstock")
        assert engines.load() is None
        engines.expect_history(0)
        engines.add_history(0, b"{}\n")
        engines.save(EngineState("1", "mariadb", "7 x", '{"file":"binlog.000001","pos":4}', history=1))
        assert engines.history(1) == b"{}\n"
        assert not engines.others()
        engines.signal("once", ["shop.orders"])
        engines.forget_signals(engines.signals())
        documents = MongoStateStore(store, _at_once, topic="shop", name="penstock")
        documents.signal("once", ["shop.orders"])
        documents.forget_signals(documents.signals())
        self.stores[ProcessRole.CAPTURE].allowed += store.allowed
        self.stores[ProcessRole.CAPTURE].refused += store.refused

    async def capture_into(self) -> None:
        async with self.process(ProcessRole.CAPTURE) as left, self.process(ProcessRole.CAPTURE) as right:
            await left.create_topic("shop", FIFO, table=False)  # as the command does
            await _send_all_kinds("shop", left, right)
            named = await left.producer("shop", name="postgres/penstock")
            await named.send(_message("shop", 0), sequence=1)

    async def sync(self) -> None:
        """But for the targets: those are tables in a folder of their own."""
        async with self.process(ProcessRole.SYNC) as lake:
            lease = SyncLease(lake.coordination, lake.runtime, "shop", "shop")
            await lease.take()
            async with self.process(ProcessRole.SYNC) as beside:
                with pytest.raises(SyncInUse):
                    await SyncLease(beside.coordination, beside.runtime, "shop", "shop").take(patience_s=0)
            table = await (await lake.reader("shop")).to_arrow()
            assert await read_types(lake.store, "shop", TYPES.name) == TYPES
            offsets = dict.fromkeys(range(_QUEUES), 1)
            for life in (1, 2):
                await lease.save(SyncRecord(life, "s3://lakes/tables", offsets))
            view = _View(lake)
            await GroupMirror(view, "shop", sync_group("shop"))._save(StreamOffset(1, offsets))  # type: ignore[arg-type]
            await lease.give_up()
            assert table.num_rows

    async def maintain(self, *pauses: timedelta) -> None:
        """Rounds of upkeep with so much time before each."""
        for pause in pauses:
            await self.kernel.let_pass(pause)
            async with self.process(ProcessRole.MAINTENANCE) as lake:
                await self._play_timers(lake)
                results: list[object] = []
                await maintain_once(lake, await self._names(lake), lambda topic, step, result, to=results: to.append(result))  # type: ignore[misc]
                if self.named:  # only who maintains all topics finishes transactions by itself
                    await _finish_once(lake, lambda topic, step, result, to=results: to.append(result))  # type: ignore[misc]
                await LakeMetrics(lake, only=await self._names(lake), interval=_SOON).look(
                    lambda topic, step, result, to=results: to.append(result)  # type: ignore[misc]
                )
                assert not [repr(result) for result in results if isinstance(result, Exception)]

    async def _play_timers(self, lake: Lake) -> None:
        stop = asyncio.Event()
        played = asyncio.ensure_future(Timers(lake, options=_FEW_IN_MEMORY).play("later", stop))
        await self.kernel.let_pass(timedelta(seconds=30))
        stop.set()
        await played

    async def _names(self, lake: Lake) -> list[str]:
        """Those of the named topics that are there by now."""
        return [name for name in self.named if await read_record(lake.store, TopicPaths.of(name)) is not None]

    async def read(self) -> None:
        async with self.process(ProcessRole.READER) as lake:
            for name in await self._names(lake) or await lake.topics():
                record = (await lake.topic(name)).record
                reader = await lake.reader(name)
                await reader.to_arrow()
                await reader.lookup(key="key-7")
                await lake.describe_topic(name)
                assert (await verify(lake.store, TopicPaths.of(name), record, lake.runtime)).ok
            await lake.waiting("later")
            for group in await lake.transactions.groups.groups():
                for row in await lake.transactions.rows(group):
                    if not row.is_finished:
                        await lake.transactions.messages(row.id)
            for group in await lake.groups():
                await lake.describe_group(group)
            await lake.workers(watch=timedelta(0))
            await read_record_of_sync(lake.coordination.cells, "shop", "shop")

    async def consume(self) -> None:
        """Two members share the queues; one dies, and the other takes its queue over. A message is given up."""
        async with self.process(ProcessRole.CONSUMER) as lake:
            doomed = self.kernel.process(ProcessRole.CONSUMER)
            first = await doomed.run(_consuming(self.lake(ProcessRole.CONSUMER, doomed.runtime)))
            second = await _consuming(lake)
            await self.until(lambda: _settled(first, 1) and _settled(second, 1))
            doomed.crash()
            await self.until(lambda: _settled(second, _QUEUES))
            counted = second._options.metrics
            assert isinstance(counted, MemoryMetrics)
            assert counted.value(TAKE_OVERS, topic="orders", consumer_group=GROUP) == 1
            await second.close()
            async with self.process(ProcessRole.CONSUMER) as beside:
                await _send_all_kinds(DEAD, lake, beside)
            assert await (await lake.reader(DEAD)).lookup(key="key-7")

    async def serve(self) -> None:
        """What a gateway does beside its clients' work: it reads their principals, tells the others of itself, and leaves."""
        async with self.process(ProcessRole.GATEWAY) as lake:
            assert not (await lake.coordination.access.read()).principals
            gateway = PeerRegistry(GATEWAYS, "g-1", lake.runtime.clock)
            await gateway.join(lake.coordination, GatewayEntry("10.0.0.1", 8081))
            await gateway.leave()
            coordination, now_ms = lake.coordination, lake.runtime.clock.wall_ms()
            await Players(coordination.cells, lake.runtime).update(
                TIMERS, lambda record: with_young_topics(record, {"reminders": now_ms}, now_ms)
            )
            part = OfferedRole(role=TIMERS, topics=Timers(lake).topics, play=pause_until_stopped)
            await stand_in(
                coordination.cells,
                coordination.worker,
                coordination.watch,
                lake.runtime,
                part,
                "reminders",
                asyncio.Event(),
                for_s=0.0,
            )

    async def until(self, so: Callable[[], bool]) -> None:
        for _ in range(_PATIENCE):
            if so():
                return
            await self.kernel.let_pass(_SOON)
        raise AssertionError("nothing comes of it")

    async def end(self) -> None:
        """A topic goes, and another takes its name."""
        async with self.process(ProcessRole.MAINTENANCE) as lake:
            await lake.delete_topic("events")
            await lake.create_topic("events", TopicSettings(queues=1))
            await lake.create_group("audit", delivery_order="CONCURRENT")
            await lake.reset_offsets(GROUP, "orders", "latest")
            await lake.release(GROUP)
            await lake.workers()
            await lake.delete_group("audit")


def everything(policies: Mapping[ProcessRole, Document], *, named: tuple[str, ...] = (), dynamodb: bool = False) -> World:
    """A life of a lake, weeks long."""
    world = World(policies, named=named, dynamodb=dynamodb)
    world.capture()
    with small_log(_SMALL, probed=True):
        world.kernel.run(_everything(world))
    return world


async def _everything(world: World) -> None:
    await world.operate()
    await world.produce()
    await world.capture_into()
    await transact(world)
    await world.read()
    await world.consume()
    await settle(world)
    await world.serve()
    await world.sync()
    await world.maintain(timedelta(0), timedelta(hours=2), timedelta(hours=2))
    await world.read()
    await world.sync()
    await world.end()
    await world.maintain(timedelta(days=3), timedelta(hours=2), timedelta(days=8), timedelta(hours=2), timedelta(hours=2))
    await world.read()


async def _consuming(lake: Lake) -> PushConsumer:
    """A consumer that is running, and can do nothing with one of the messages."""

    async def listen(message: MessageView) -> ConsumeResult:
        return ConsumeResult.DEAD_LETTER if message.offset == 0 else ConsumeResult.SUCCESS

    consumer = PushConsumer(
        lake,
        lake.coordination,
        group=GROUP,
        subscriptions={"orders": Subscription()},
        listener=listen,
        stated={},
        options=PushOptions(),
    )
    await consumer.start()
    return consumer


def _settled(consumer: PushConsumer, queues: int) -> bool:
    """Whether it owns so many queues, and has nothing left to do there."""
    found = consumer.statistics().queues
    return len(found) == queues and not any(one.lag_messages for one in found)


async def _send_all_kinds(topic: str, *lakes: Lake) -> None:
    """From processes that lose races to each other, then a batch too large for an entry."""
    await _race(topic, *lakes)
    bodies = [bytes([number]) * MIB for number in range(9)]
    producer = await lakes[0].producer(topic)
    await producer.send_batch([_message(topic, number, body) for number, body in enumerate(bodies)])


async def _link(topic: str, lake: Lake, name: str | None, *, before: Callable[[], Awaitable[object]] | None = None) -> None:
    """As Spark writes: one batch of staged rows, with something ``before`` its link, and one that turns out to have none."""
    linker = await open_linker(lake, topic, name=name)
    messages = [_message(topic, number) for number in range(3)]
    data, groups, born = [one.body for one in messages], [one.message_group for one in messages], np.zeros(3, np.int64)
    rows = rows_of_messages(data, groups, {}, {}, born, Router(_QUEUES), producer=linker.id, ids=MessageIds(1, 0))
    job, (store, paths, runtime) = await linker.begin(), (lake.store, linker.topic.paths, lake.runtime)
    part = await upload_part(store, paths, runtime, job.id, "00000-00000", lambda: rows.part(0, rows.count))
    if before is not None:
        await before()
    await linker.link(job, [part], batch=None if name is None else 1)
    await linker.discard(await linker.begin())


@dataclass(frozen=True)
class _View:
    """What a mirror needs of Spark's driver."""

    lake: Lake

    @property
    def opened(self) -> _View:
        return self

    async def coordination(self) -> Coordination:
        return self.lake.coordination


def _coordination(lake: Lake, table: CellTable) -> Coordination:
    """As of a lake whose cells lie in DynamoDB."""
    record = table_record(lake.store, lake.runtime)
    own = OwnTable(url=table.url)
    agreement = TableAgreement(table, lake.runtime, lake="s3://lakes/prod", own=own, record=record, read_only=lake.read_only)
    return Coordination(table, lake.runtime, agreement=agreement)


def _at_once(work: Callable[[], Awaitable[Any]]) -> Any:
    """What never waits needs no loop."""
    try:
        next(work().__await__())
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")


async def _race(topic: str, *lakes: Lake) -> None:
    producers = [await lake.producer(topic, options=_AT_ONCE) for lake in lakes]
    for number in range(_FEW if topic == "later" else _ENTRIES):
        await asyncio.gather(*(one.send(_message(topic, number)) for one in producers))


def _message(topic: str, number: int, body: bytes = b"paid") -> Message:
    delay = _SOON if topic == "later" else None
    return Message(body, message_group=None if topic == DEAD else f"user-{number}", keys=[f"key-{number}"], delay=delay)
