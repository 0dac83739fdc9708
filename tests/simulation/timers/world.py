"""A lake with timed messages under attack: players, senders, who recalls, lists and maintains, a nemesis, and quiet in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Unpack

from penstock.coordinator.cells.cells import Cells
from penstock.coordinator.tables.objectstore import ObjectStoreTable
from penstock.log.errors import CallError, DataDamaged, InternalError, PenstockError, PermissionDenied
from penstock.log.lake import LogLake
from penstock.log.message.message_type import MessageType
from penstock.log.paths import TopicPaths, timer_log_name
from penstock.log.topic.settings import TopicSettings
from tests.simulation.expiring import Expiring
from tests.simulation.network import Network
from tests.simulation.process import EPOCH_MS, SimProcess
from tests.simulation.simulated import PlottedWorld, Services, Stuck
from tests.simulation.table import TABLE_NETWORK
from tests.simulation.timers.actors import Actors
from tests.simulation.timers.judge import judge
from tests.simulation.timers.logs import Log
from tests.simulation.timers.machine import Machine
from tests.simulation.timers.plot import TOPIC, Plot
from tests.simulation.timers.progress import standing_still
from tests.simulation.timers.records import History
from tests.simulation.timers.witness import WitnessStore, WitnessTable

STORE_NETWORK = Network(very_slow=0.001, time_out_s=8.0, slow_s=(0.2, 8.0), late_s=(0.5, 60.0), pause_s=(0.1, 60.0))
RUNS = "timers/"
"""Where runs lie in the lake."""


class Timing(PlottedWorld):
    """One run."""

    rule = "T11"

    networks = STORE_NETWORK, TABLE_NETWORK
    max_steps = 1_500_000
    plot: Plot

    def __init__(self, seed: int | str, plot: Plot | None = None, **services: Unpack[Services]) -> None:
        super().__init__(seed, plot or Plot(), **services)
        self.history = History()
        self.history.counts = self.kernel.counts
        self.topic, self.timer_log = TopicPaths.of(TOPIC), TopicPaths.of(timer_log_name(TOPIC))
        self.archive = WitnessStore(self.history, self.kernel.loop, self.timer_log, f"{RUNS}{TOPIC}/")
        self.store.memory = self.archive
        self.waited = Log(self.archive, self.timer_log)
        """What was ever sent."""
        self.arrived = Log(self.archive, self.topic)
        """What is in the topic, and was in those of its name before."""
        self.table.memory = WitnessTable(self.history, self.kernel.loop)
        self.machines: Sequence[Machine] = [Machine(self, f"m{number}") for number in range(self.plot.players)]
        self._expiring: Expiring | None = None

    def now_us(self) -> int:
        """By the store's clock."""
        return 1000 * EPOCH_MS + int(1e6 * self.now_s)

    def expire(self, *, every_s: float, for_s: tuple[float, float]) -> None:
        """Let the store refuse everything now and then."""
        store, table = self._plans
        rng = self.kernel.rng("expiring")
        self._expiring = Expiring(rng, lambda: self.now_s, every_s=every_s, for_s=for_s, others=store)
        self._expiring.stand_before(self.store)
        self._plans = (self._expiring, table)

    def _judged(self) -> list[str]:
        return judge(self.history, self.archive, self.topic, self.timer_log, late_s=self.plot.late_s)

    # --- The run ----------------------------------------------------------------------------------------------------------------

    async def _main(self) -> None:
        await self._as("founder", self._found)
        self.store.plan, self.table.plan = self._plans
        for machine in self.machines:
            machine.start()
        acting = Actors(self)
        actors = {"sender": acting.send_all, "recaller": acting.recall_all, "lister": acting.list_all}
        if self.plot.maintained_every_s:
            actors["upkeep"] = acting.maintain
        if self.plot.deletes:
            actors["deleter"] = acting.delete_all
        lives = [asyncio.ensure_future(self._lives(name, work, keeps_clock=True)) for name, work in actors.items()]
        striking = asyncio.ensure_future(self._strike(self.plot.nemesis, self._processes))
        beside = [striking, asyncio.ensure_future(self._deploy(self.plot.deploys_every_s))]
        await asyncio.sleep(self.plot.faults_end_s)
        for task in beside:
            task.cancel()
        if self.plot.idle_s:
            await self._nobody_for(self.plot.idle_s)
        self._end_faults(*self._plans)
        self._begin_quiet()
        for name, life in zip(actors, lives, strict=True):
            await self._within(self.plot.quiet_s, life, name)
        await self._come_to_rest()

    async def _nobody_for(self, seconds: float) -> None:
        """All machines are gone for so long."""
        for machine in self.machines:
            machine.away_s = seconds
            if machine.process is not None:
                machine.process.crash()
        await asyncio.sleep(seconds)

    def _begin_quiet(self) -> None:
        self.quiet = True
        self._set_clocks([*(machine.process for machine in self.machines), *self.others.values()], self.plot.step_ms_max)
        # What is on its way from before may still be late, and a stopped process that wakes.
        self.history.quiet_s = self.now_s + 60.0

    async def _come_to_rest(self) -> None:
        """Wait until all that waits was let go, end everybody, and read what is left."""
        if not self.quiet:  # a script was played
            self._begin_quiet()
        await self._settle()
        last_s = max((sent.due_us / 1e6 - EPOCH_MS / 1e3 for sent in self.history.sent.values()), default=0.0)
        while (rest_s := last_s - self.now_s) > 0:
            self._check_nothing_wrong()
            await asyncio.sleep(min(rest_s, 3_600.0))
        began_s = self.now_s
        while left := await self.unsettled():
            self._check_nothing_wrong()
            self._fail_with_the_dead()
            if self.now_s - began_s > self.plot.quiet_s:
                raise Stuck(f"T11 in {self.plot.quiet_s:g} quiet seconds these did not come to an end: {left[:5]}")
            await asyncio.sleep(2.0)
        await self._stop_machines()
        await self._settle()
        self.counts["simulated seconds"] += round(self.now_s)

    def _check_nothing_wrong(self) -> None:
        """What goes wrong once mostly does so for ever: the rest need not be played."""
        if self.history.wrong:
            raise Stuck(self.history.wrong[0])

    def _standing_still(self) -> Iterator[str]:
        return standing_still(self.machines, now_s=self.now_s)

    async def unsettled(self) -> list[str]:
        """Messages of the timer log that lives which are not settled."""
        lives = await self.waited.read()
        if not lives or lives[-1].ended_ms is not None:
            return []
        wrote = self.history.cells.get(lives[-1].incarnation)
        if wrote is None:
            return [f"nobody played: {len(lives[-1].rows)}"] if lives[-1].rows else []
        state = wrote[-1].state
        return [f"{row.body!r}: {state}" for row in lives[-1].rows if not state.settled.within(row.due)]

    # --- Who does what ----------------------------------------------------------------------------------------------------------

    def cells(self, process: SimProcess, lake: LogLake) -> Cells:
        if self.plot.cells_on_store:
            return Cells(ObjectStoreTable(lake.store, runtime=lake.runtime), lake.runtime)
        return Cells(self.table.client(process), lake.runtime)

    async def remake(self) -> None:
        """Delete the topic and make it anew."""
        await self._as("operator", self._remake)

    async def _remake(self, process: SimProcess) -> None:
        lake = self.lake(process)
        await lake.delete_topic(TOPIC)
        await lake.close()
        await self._found(process)

    async def _found(self, process: SimProcess) -> None:
        lake = self.lake(process)
        await lake.create_topic(TOPIC, TopicSettings(message_type=MessageType.DELAY, queues=self.plot.queues))
        await lake.close()

    def _processes(self) -> list[SimProcess | None]:
        return [machine.process for machine in self.machines] * 3 + list(self.others.values())

    def check_expected(self, who: str, error: PenstockError, *, allowed: bool = False) -> None:
        """Note an error that nothing in this world explains."""
        self.counts[f"error: {error.kind}"] += 1
        if self._expiring is not None and isinstance(error, PermissionDenied):
            allowed = self._expiring.explains(who, error)
        if isinstance(error, InternalError | CallError | DataDamaged) and not allowed:
            self.history.wrong.append(f"{who}: {error.kind}: {error}")
