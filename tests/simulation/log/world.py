"""A lake under attack: processes with roles, a store with faults, clocks that step, and in the end quiet, in which all must finish."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from penstock.log.append.contention import Pace
from penstock.log.errors import CallError, DataDamaged, InternalError, PenstockError, StoreUnavailable, ViewLost
from penstock.log.lake import LogLake
from penstock.log.message.message_type import MessageType
from penstock.log.paths import TopicPaths
from penstock.log.schema.topic_schema import TopicSchema
from penstock.log.table.delta.delta_log import DeltaLog
from penstock.log.table.publisher import Publisher
from penstock.log.tail.view import View
from penstock.log.topic.settings import TopicSettings
from penstock.log.topic.topics import Topic
from tests.simulation.faults import FaultPlan
from tests.simulation.log.history import Archive, History, Place
from tests.simulation.log.progress import Standing
from tests.simulation.log.typed_rows import Rows
from tests.simulation.network import Network
from tests.simulation.patches import attribute
from tests.simulation.process import SimClock, SimProcess
from tests.simulation.simulated import Nemesis, SimulatedMachine, SimulatedWorld, Stuck
from tests.simulation.table import TABLE_NETWORK

if TYPE_CHECKING:
    from tests.simulation.log.actors import Role, Source

TOPIC = "orders"
QUIET_DAYS = 20


class World(SimulatedWorld):
    """One run. Actors are added with `process`."""

    rule = "I13"

    def __init__(
        self,
        seed: int | str,
        *,
        plan: FaultPlan | None = None,
        network: Network | None = None,
        queues: int = 3,
        pace: Pace | None = None,
        drift: float = 0.0,
        offset_ms: int = 0,
        faults_end_s: float = 600.0,
        retention: timedelta | None = None,
        nemesis: Nemesis | None = None,
        schema: TopicSchema | None = None,
        message_group: str | None = None,
        shuffle: bool = True,
        max_steps: int = 600_000,
    ) -> None:
        super().__init__(
            seed,
            store=network or Network(),
            table=TABLE_NETWORK,
            plans=(plan, None),
            offset_ms=offset_ms,
            drift=drift,
            shuffle=shuffle,
            max_steps=max_steps,
        )
        self.plan = self.store.plan = plan
        self.archive = Archive(name="simulated", clock=SimClock(self.kernel.loop))
        self.store.memory = self.archive
        self.paths = TopicPaths.of(TOPIC)
        self.settings = TopicSettings(
            message_type=MessageType.FIFO, queues=queues, retention=retention, schema=schema, message_group=message_group
        )
        self.rows = None if schema is None else Rows({1: schema})
        """What the rows of a typed topic say."""
        self.content = "body" if schema is None else "value"
        """The column that messages are known by."""
        self.pace = pace
        self.history = History()
        self.history.counts = self.kernel.counts
        self.sources: list[Source] = []
        self.rng: random.Random = self.kernel.rng("world")
        self._faults_end_s = faults_end_s
        self._nemesis = nemesis or Nemesis()
        self.machines: list[Machine] = []
        self._standing = Standing()

    def contents(self, reader: str, rows: pa.Table | pa.RecordBatch, schema: TopicSchema | None = None) -> list[bytes]:
        """What messages are known by, as a reader has them. ``schema``: rows are as stored, and shown by it."""
        if self.rows is None:
            bodies: list[bytes] = rows.column("body").to_pylist()
            return bodies
        return self.rows.contents(reader, rows, schema)

    def report(self, reader: str, life: int, rows: pa.Table | pa.RecordBatch, schema: TopicSchema | None = None) -> dict[int, int]:
        """Note what a reader sees. Returns the offset behind the last of each queue."""
        behind = {}
        columns = (rows.column("queue").to_pylist(), rows.column("offset").to_pylist(), self.contents(reader, rows, schema))
        for queue, offset, body in zip(*columns, strict=True):
            self.history.read(reader, (life, queue, offset), body)
            behind[queue] = offset + 1
        return behind

    def now_ms(self) -> int:
        """By the store's clock."""
        return SimClock(self.kernel.loop).wall_ms()

    def process(self, name: str, *roles: Role) -> Machine:
        """A machine that plays ``roles`` in one process, started again whenever it crashes, until all have reached their goals."""
        machine = Machine(self, name, roles)
        self.machines.append(machine)
        return machine

    def lake(self, process: SimProcess) -> LogLake:
        lake = LogLake(self.store.client(process), runtime=process.runtime, pace=self.pace)
        self._standing.opened(process, lake)
        return lake

    def _standing_still(self) -> Iterator[str]:
        return self._standing.still(self.kernel.loop.now)

    async def _found(self, process: SimProcess) -> None:
        lake = self.lake(process)
        while True:
            try:
                await lake.create_topic(TOPIC, self.settings)
            except StoreUnavailable:  # a slow network may cut an answer off even before anything goes wrong
                continue
            break
        await lake.close()

    def _setting(self) -> AbstractContextManager[None]:
        return counting_late_answers(self.counts)

    def _judged(self) -> list[str]:
        from tests.simulation.log.checker import check

        return check(self)

    async def _come_to_rest(self) -> None:
        """Let everything arrive, and read all."""
        await self._settle()
        await self._audit()

    async def _main(self) -> None:
        await self._as("founder", self._found)
        lives = [machine.start() for machine in self.machines if not machine.endless]
        endless = [machine.start() for machine in self.machines if machine.endless]
        blows = asyncio.ensure_future(self._strike(self._nemesis, lambda: [machine.process for machine in self.machines]))
        await asyncio.wait(
            [asyncio.ensure_future(_all(lives)), asyncio.ensure_future(asyncio.sleep(self._faults_end_s))],
            return_when="FIRST_COMPLETED",
        )
        blows.cancel()
        self._end_faults(self.plan)
        self.quiet = True
        done, late = await asyncio.wait(lives, timeout=QUIET_DAYS * 86_400.0) if lives else (set(), set())
        if late:
            stuck = [machine.name for machine in self.machines if machine.life in late]
            raise Stuck(f"I13 no progress in {QUIET_DAYS} quiet days: {', '.join(stuck)}\n{self.kernel.loop.pending()}")
        await asyncio.gather(*done)
        for machine in self.machines:
            machine.end()
        await asyncio.gather(*endless)
        await self._come_to_rest()

    async def _audit(self) -> None:
        """Read everything as a user does who comes when all is over."""
        process = self.kernel.process("auditor")
        while True:
            try:
                self.history.audit = await process.run(self._read_all(process))
            except StoreUnavailable:  # as at the beginning: a slow network may cut an answer off
                continue
            break

    async def _read_all(self, process: SimProcess) -> dict[Place, bytes]:
        lake = LogLake(self.store.client(process), runtime=process.runtime, read_only=True)
        topic, reader = await lake.topic(TOPIC), await lake.reader(TOPIC)
        life = topic.tail.state.created_entry
        if self.history.damaged:
            await self._name_what_is_lost(lake, topic)
        self.history.starts = {queue: start for queue, (start, _) in (await reader.offsets()).items()}
        # What is damaged must be named: without damage nothing may be passed over.
        damaged: Literal["raise", "skip"] = "skip" if self.history.damaged else "raise"
        table = await reader.to_arrow(columns=["queue", "offset", self.content], damaged=damaged)
        rows = zip(table["queue"].to_pylist(), table["offset"].to_pylist(), self.contents("auditor", table), strict=True)
        return {(life, queue, offset): body for queue, offset, body in rows}

    async def _name_what_is_lost(self, lake: LogLake, topic: Topic) -> None:
        """Publish the rest, so that the table names what no repair had to."""
        delta = DeltaLog(lake.store, self.paths, topic.record.table, topic.runtime)
        publisher = Publisher(lake.store, self.paths, topic.record, topic.runtime, delta=delta)
        while not (await publisher.publish_once()).caught_up:
            pass
        snapshot = await delta.refresh()
        life = topic.tail.state.created_entry
        self.history.lost += [(life, queue, *lost) for queue in range(self.settings.queues) for lost in snapshot.lost(queue)]


class Machine(SimulatedMachine):
    """A machine whose process plays roles until all have reached their goals."""

    leaves_at_once = ends_by_itself = True
    rest_s = (0.01, 100.0)

    def __init__(self, world: World, name: str, roles: Sequence[Role]) -> None:
        super().__init__(world, name)
        self.world = world
        self.roles = roles
        self.endless = all(role.endless for role in roles)

    def end(self) -> None:
        """Let roles go no further; an endless machine is off at once."""
        self._stopping = True
        for role in self.roles:
            role.stopping = True
        if self.endless and self.process is not None and self.life is not None and not self.life.done():
            self.process.crash()

    async def work(self, process: SimProcess, leaving: asyncio.Event) -> None:
        lake = self.world.lake(process)
        await asyncio.gather(*(role.live(self.world, lake, process) for role in self.roles))
        with suppress(PenstockError):
            await lake.close()


@contextmanager
def counting_late_answers(counts: Counter[str]) -> Iterator[None]:
    """Count what becomes of answers about the tail that come when the view is too old to believe them."""

    def make(original: Any) -> Any:
        async def confirm(self: View, v: int) -> None:
            late = self.is_aged
            try:
                await original(self, v)
            except ViewLost:
                counts["late answer: refused"] += 1
                raise
            counts["late answer: believed"] += late

        return confirm

    with attribute(View, "confirm", make)():
        yield


async def _all(lives: Sequence[asyncio.Future[Any]]) -> None:
    if lives:
        await asyncio.wait(lives)


def check_expected(world: World, who: str, error: PenstockError, *, allowed: Callable[[PenstockError], bool] | None = None) -> None:
    """Note an error that nothing in this world explains."""
    world.history.counts[f"error: {error.kind}"] += 1
    unexplained = isinstance(error, InternalError | DataDamaged | CallError)
    # Once entries are damaged, a fold that stops names one of them; what a reader names is judged by its offsets in the end.
    if isinstance(error, DataDamaged) and (
        error.object in world.history.damaged or (world.history.damaged and error.operation == "read")
    ):
        return
    if unexplained and not (allowed and allowed(error)):
        world.history.wrong.append(f"{who}: {error.kind}: {error}")
