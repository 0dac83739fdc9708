"""A lake under attack: processes with roles, a store with faults, clocks that step, and in the end quiet, in which all must finish."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from penstock.log.append.contention import Pace
from penstock.log.errors import CallError, DataDamaged, InternalError, PenstockError, StoreUnavailable
from penstock.log.lake import LogLake
from penstock.log.message.message_type import MessageType
from penstock.log.paths import TopicPaths
from penstock.log.schema.topic_schema import TopicSchema
from penstock.log.table.delta.delta_log import DeltaLog
from penstock.log.table.publisher import Publisher
from penstock.log.topic.settings import TopicSettings
from penstock.log.topic.topics import Topic
from tests.simulation.faults import FaultPlan, RandomFaults
from tests.simulation.history import Archive, History, Place
from tests.simulation.kernel import Kernel
from tests.simulation.network import Network
from tests.simulation.process import Crashed, SimClock, SimProcess
from tests.simulation.progress import Standing
from tests.simulation.typed_rows import Rows

if TYPE_CHECKING:
    from tests.simulation.actors import Role, Source

TOPIC = "orders"
QUIET_DAYS = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Nemesis:
    """What befalls machines beside the faults of store calls."""

    every_s: float = 0.0
    """Between two blows, on average; 0: none."""
    pause_s: tuple[float, float] = (0.1, 3 * 86_400.0)
    step_ms_max: int = 240_000
    wild_step: float = 0.0
    """How often a clock steps by hours instead."""


class World:
    """One run. Actors are added with `process`; `run` plays it and returns when all is settled."""

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
        self.kernel = Kernel(seed, shuffle=shuffle, max_steps=max_steps)
        self.plan = plan
        self.store = self.kernel.store(plan=plan, network=network)
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
        self.sources: list[Source] = []
        self.rng: random.Random = self.kernel.rng("world")
        self._drift = drift
        self._offset_ms = offset_ms
        self._faults_end_s = faults_end_s
        self._nemesis = nemesis or Nemesis()
        self._machines: list[Machine] = []
        self.quiet = False
        """Faults have ended."""
        self._standing = Standing()
        self.kernel.loop.on_quiet = self._check_progress

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

    @property
    def counts(self) -> Counter[str]:
        return self.kernel.counts

    def process(self, name: str, *roles: Role) -> Machine:
        """A machine that plays ``roles`` in one process, started again whenever it crashes, until all have reached their goals."""
        machine = Machine(self, name, roles)
        self._machines.append(machine)
        return machine

    def new_process(self, name: str, clock: SimClock | None = None) -> SimProcess:
        return self.kernel.process(name, max_offset_ms=self._offset_ms, max_drift=self._drift, clock=clock)

    def lake(self, process: SimProcess) -> LogLake:
        lake = LogLake(self.store.client(process), runtime=process.runtime, pace=self.pace)
        self._standing.opened(process, lake)
        return lake

    def _check_progress(self) -> None:
        if still := list(self._standing.still(self.kernel.loop.now)):
            raise Stuck(still[0])

    async def create_topic(self) -> None:
        """Before anything goes wrong."""
        process = self.kernel.process("founder")
        active, self.store.plan = self.store.plan, None
        await process.run(self._create(process))
        self.store.plan = active

    async def _create(self, process: SimProcess) -> None:
        lake = self.lake(process)
        while True:
            try:
                await lake.create_topic(TOPIC, self.settings)
            except StoreUnavailable:  # a slow network may cut an answer off even before anything goes wrong
                continue
            break
        await lake.close()

    def run(self) -> World:
        """Play to the end. Raises the kernel's errors; `Stuck` when an actor does not reach its goal in quiet (I13)."""
        self.kernel.run(self._main())
        return self

    def play(self, script: Callable[[], Coroutine[Any, Any, None]]) -> World:
        """Play a script instead of machines, and read everything in the end."""

        async def main() -> None:
            await self.create_topic()
            await script()
            await self.store.settled()
            await self._audit()

        self.kernel.run(main())
        return self

    async def _main(self) -> None:
        await self.create_topic()
        lives = [asyncio.ensure_future(machine.live()) for machine in self._machines if not machine.endless]
        endless = [asyncio.ensure_future(machine.live()) for machine in self._machines if machine.endless]
        blows = asyncio.ensure_future(self._strike())
        await asyncio.wait(
            [asyncio.ensure_future(_all(lives)), asyncio.ensure_future(asyncio.sleep(self._faults_end_s))],
            return_when="FIRST_COMPLETED",
        )
        blows.cancel()
        if isinstance(self.plan, RandomFaults):
            self.plan.active = False
        self.quiet = True
        done, late = await asyncio.wait(lives, timeout=QUIET_DAYS * 86_400.0) if lives else (set(), set())
        if late:
            stuck = [machine.name for machine in self._machines if not machine.endless and not machine.done]
            raise Stuck(f"I13 no progress in {QUIET_DAYS} quiet days: {', '.join(stuck)}\n{self.kernel.loop.pending()}")
        await asyncio.gather(*done)
        for machine in self._machines:
            machine.stop()
        await asyncio.gather(*endless)
        await self.store.settled()
        await self._audit()

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

    async def _strike(self) -> None:
        """Pauses, suspends, crashes and clock steps, whatever the processes are doing."""
        nemesis, rng = self._nemesis, self.kernel.rng("nemesis")
        while nemesis.every_s:
            await asyncio.sleep(rng.expovariate(1 / nemesis.every_s))
            process = rng.choice(self._machines).process
            if process is None or process.crashed:
                continue
            blow = rng.randrange(4)
            if blow == 0:
                process.crash()
            elif blow == 1:
                process.pause(log_uniform(rng, *nemesis.pause_s))
            elif blow == 2:
                process.suspend(log_uniform(rng, *nemesis.pause_s))
            elif rng.random() < nemesis.wild_step:
                self.counts["clock step beyond 5 minutes"] += 1
                process.step_clock(rng.choice([-1, 1]) * rng.randint(400_000, 20_000_000))
            else:
                limit = nemesis.step_ms_max
                process.step_clock(rng.randint(-limit, limit) - process.clock.offset_ms)


class Machine:
    """One machine and the process on it, life after life."""

    def __init__(self, world: World, name: str, roles: Sequence[Role]) -> None:
        self.world = world
        self.name = name
        self.roles = roles
        self.endless = all(role.endless for role in roles)
        self.process: SimProcess | None = None
        self.done = False
        self._stopping = False
        self._rng = world.kernel.rng(f"machine/{name}")

    async def live(self) -> None:
        clock: SimClock | None = None
        while not self._stopping:
            self.process = self.world.new_process(self.name, clock)
            clock = self.process.clock
            try:
                await self.process.run(self._life(self.process))
                break
            except Crashed:
                if self._stopping:
                    break
                self.world.counts["restart"] += 1
                await asyncio.sleep(log_uniform(self._rng, 0.01, 100.0))
        self.done = True

    def stop(self) -> None:
        """End an endless one."""
        self._stopping = True
        for role in self.roles:
            role.stopping = True
        if self.endless and self.process is not None and not self.done:
            self.process.crash()

    async def _life(self, process: SimProcess) -> None:
        lake = self.world.lake(process)
        await asyncio.gather(*(role.live(self.world, lake, process) for role in self.roles))
        with suppress(PenstockError):
            await lake.close()


class Stuck(AssertionError):
    """Somebody did not reach its goal."""


async def _all(lives: Sequence[asyncio.Future[Any]]) -> None:
    if lives:
        await asyncio.wait(lives)


def log_uniform(rng: random.Random, least: float, most: float) -> float:
    return float(least * (most / least) ** rng.random())


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
