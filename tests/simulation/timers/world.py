"""A lake with timed messages under attack: players, senders, who recalls, lists and maintains, a nemesis, and quiet in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from penstock.coordinator.cells.cells import Cells
from penstock.coordinator.tables.objectstore import ObjectStoreTable
from penstock.log.errors import CallError, DataDamaged, InternalError, PenstockError, PermissionDenied
from penstock.log.lake import LogLake
from penstock.log.message.message_type import MessageType
from penstock.log.paths import TopicPaths, timer_log_name
from penstock.log.topic.settings import TopicSettings
from tests.simulation.expiring import Expiring
from tests.simulation.faults import FaultPlan, RandomFaults
from tests.simulation.kernel import Kernel
from tests.simulation.network import Network
from tests.simulation.process import EPOCH_MS, Crashed, SimClock, SimProcess
from tests.simulation.table import TABLE_NETWORK
from tests.simulation.timers.actors import Actors
from tests.simulation.timers.judge import judge
from tests.simulation.timers.logs import Log
from tests.simulation.timers.machine import Machine
from tests.simulation.timers.plot import TOPIC, Plot
from tests.simulation.timers.progress import standing_still
from tests.simulation.timers.records import History
from tests.simulation.timers.witness import WitnessStore, WitnessTable
from tests.simulation.world import Stuck, log_uniform

STORE_NETWORK = Network(very_slow=0.001, time_out_s=8.0, slow_s=(0.2, 8.0), late_s=(0.5, 60.0), pause_s=(0.1, 60.0))
RUNS = "timers/"
"""Where runs lie in the lake."""


class Timing:
    """One run. `run` plays it, `play` a script instead; both return what is wrong, in words."""

    def __init__(
        self,
        seed: int | str,
        plot: Plot | None = None,
        *,
        store_plan: FaultPlan | None = None,
        table_plan: FaultPlan | None = None,
        store_network: Network | None = None,
        table_network: Network | None = None,
        max_steps: int = 1_500_000,
    ) -> None:
        self.plot = plot or Plot()
        self.kernel = Kernel(seed, max_steps=max_steps)
        self.history = History()
        self.history.counts = self.kernel.counts
        self.topic, self.timer_log = TopicPaths.of(TOPIC), TopicPaths.of(timer_log_name(TOPIC))
        self.store = self.kernel.store(network=store_network or STORE_NETWORK)
        self.archive = WitnessStore(self.history, self.kernel.loop, self.timer_log, f"{RUNS}{TOPIC}/")
        self.store.memory = self.archive
        self.waited = Log(self.archive, self.timer_log)
        """What was ever sent."""
        self.arrived = Log(self.archive, self.topic)
        """What is in the topic, and was in those of its name before."""
        self.table = self.kernel.table(network=table_network or TABLE_NETWORK)
        self.table.memory = WitnessTable(self.history, self.kernel.loop)
        self._plans = (store_plan, table_plan)
        self.machines = [Machine(self, f"m{number}") for number in range(self.plot.players)]
        self._others: dict[str, SimProcess] = {}
        self._expiring: Expiring | None = None
        self.quiet = False
        self.kernel.loop.on_quiet = self._check_progress

    @property
    def now_s(self) -> float:
        return self.kernel.loop.now

    def now_us(self) -> int:
        """By the store's clock."""
        return 1000 * EPOCH_MS + int(1e6 * self.now_s)

    @property
    def counts(self) -> Any:
        return self.kernel.counts

    def befall(self, *, store: FaultPlan | None, table: FaultPlan | None) -> None:
        """Other faults than it was made with."""
        self._plans = (store, table)

    def expire(self, *, every_s: float, for_s: tuple[float, float]) -> None:
        """Let the store refuse everything now and then."""
        store, table = self._plans
        rng = self.kernel.rng("expiring")
        self._expiring = Expiring(rng, lambda: self.now_s, every_s=every_s, for_s=for_s, others=store)
        self._expiring.stand_before(self.store)
        self._plans = (self._expiring, table)

    def run(self) -> list[str]:
        self.kernel.run(self._main())
        return self.judged()

    def play(self, script: Callable[[], Coroutine[Any, Any, None]]) -> list[str]:
        """Play a script instead of all actors, see that everything comes to its end, and judge."""

        async def main() -> None:
            await self._as("founder", self._found)
            await script()
            self._begin_quiet()
            await self._come_to_rest()

        self.kernel.run(main())
        return self.judged()

    def judged(self) -> list[str]:
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
        lives = [asyncio.ensure_future(self._lives(name, work)) for name, work in actors.items()]
        beside = [asyncio.ensure_future(self._strike()), asyncio.ensure_future(self._deploy())]
        await asyncio.sleep(self.plot.faults_end_s)
        for task in beside:
            task.cancel()
        if self.plot.idle_s:
            await self._nobody_for(self.plot.idle_s)
        for plan in self._plans:
            if isinstance(plan, RandomFaults):
                plan.active = False
        self._begin_quiet()
        for name, life in zip(actors, lives, strict=True):
            await self._within(self.plot.quiet_s, life, name)
        await self._come_to_rest()

    async def _nobody_for(self, seconds: float) -> None:
        """All machines are gone for so long."""
        for machine in self.machines:
            machine.rest_s = seconds
            if machine.process is not None:
                machine.process.crash()
        await asyncio.sleep(seconds)

    def _begin_quiet(self) -> None:
        self.quiet = True
        for process in [*(machine.process for machine in self.machines), *self._others.values()]:
            if process is not None and abs(process.clock.offset_ms) > self.plot.step_ms_max:
                process.step_clock(-process.clock.offset_ms)  # somebody sets it right
        # What is on its way from before may still be late, and a stopped process that wakes.
        self.history.quiet_s = self.now_s + 60.0

    async def _come_to_rest(self) -> None:
        """Wait until all that waits was let go, end everybody, and read what is left."""
        await self.store.settled()
        await self.table.settled()
        last_s = max((sent.due_us / 1e6 - EPOCH_MS / 1e3 for sent in self.history.sent.values()), default=0.0)
        while (rest_s := last_s - self.now_s) > 0:
            self._check_nothing_wrong()
            await asyncio.sleep(min(rest_s, 3_600.0))
        began_s = self.now_s
        while left := await self.unsettled():
            self._check_nothing_wrong()
            for machine in self.machines:
                if machine.life is not None and machine.life.done():
                    machine.life.result()
            if self.now_s - began_s > self.plot.quiet_s:
                raise Stuck(f"T11 in {self.plot.quiet_s:g} quiet seconds these did not come to an end: {left[:5]}")
            await asyncio.sleep(2.0)
        for machine in self.machines:
            await self._within(self.plot.quiet_s, asyncio.ensure_future(machine.stop()), machine.name)
        await self.store.settled()
        await self.table.settled()
        self.counts["simulated seconds"] += round(self.now_s)

    def _check_nothing_wrong(self) -> None:
        """What goes wrong once mostly does so for ever: the rest need not be played."""
        if self.history.wrong:
            raise Stuck(self.history.wrong[0])

    def _check_progress(self) -> None:
        if still := list(standing_still(self.machines, now_s=self.now_s)):
            raise Stuck(still[0])

    async def _within(self, seconds: float, task: asyncio.Future[Any], who: str) -> None:
        done, _ = await asyncio.wait([task], timeout=seconds)
        if not done:
            raise Stuck(f"T11 {who} does not come to an end\n{self.kernel.loop.pending()}")
        task.result()

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

    def lake(self, process: SimProcess) -> LogLake:
        return LogLake(self.store.client(process), runtime=process.runtime)

    def cells(self, process: SimProcess, lake: LogLake) -> Cells:
        if self.plot.cells_on_store:
            return Cells(ObjectStoreTable(lake.store, runtime=lake.runtime), lake.runtime)
        return Cells(self.table.client(process), lake.runtime)

    def new_process(self, name: str, clock: SimClock | None = None) -> SimProcess:
        return self.kernel.process(name, max_offset_ms=self.plot.offset_ms, max_drift=self.plot.drift, clock=clock)

    async def _as(self, name: str, work: Callable[[SimProcess], Coroutine[Any, Any, None]]) -> None:
        """Something that meets no faults."""
        plans, self.store.plan, self.table.plan = (self.store.plan, self.table.plan), None, None
        process = self.kernel.process(name)
        await process.run(work(process))
        self.store.plan, self.table.plan = plans

    async def _lives(self, name: str, work: Callable[[SimProcess], Coroutine[Any, Any, None]]) -> None:
        """Again and again, until a life comes to its end by itself."""
        rng = self.kernel.rng(f"lives/{name}")
        clock: SimClock | None = None
        while True:
            process = self._others[name] = self.new_process(name, clock)
            clock = process.clock
            try:
                await process.run(work(process))
            except Crashed:
                self.counts["restart"] += 1
                await asyncio.sleep(log_uniform(rng, 0.05, 5.0))
            else:
                return

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

    # --- Nemesis

    async def _strike(self) -> None:
        rng = self.kernel.rng("nemesis")
        while self.plot.blows_every_s:
            await asyncio.sleep(rng.expovariate(1 / self.plot.blows_every_s))
            processes = [machine.process for machine in self.machines] * 3 + list(self._others.values())
            process = rng.choice(processes)
            if process is None or process.crashed:
                continue
            blow = rng.randrange(5)
            if blow <= 1:
                process.crash()
            elif blow == 2:
                process.pause(log_uniform(rng, *self.plot.pause_s))
            elif blow == 3:
                process.suspend(log_uniform(rng, *self.plot.pause_s))
            elif rng.random() < self.plot.wild_step:
                self.counts["clock step by hours"] += 1
                process.step_clock(rng.choice([-1, 1]) * rng.randint(3_600_000, 20_000_000))
            else:
                limit = self.plot.step_ms_max
                process.step_clock(rng.randint(-limit, limit) - process.clock.offset_ms)

    async def _deploy(self) -> None:
        rng = self.kernel.rng("deploy")
        while self.plot.deploys_every_s:
            await asyncio.sleep(rng.expovariate(1 / self.plot.deploys_every_s))
            for machine in self.machines:
                await machine.deploy()

    def check_expected(self, who: str, error: PenstockError, *, allowed: bool = False) -> None:
        """Note an error that nothing in this world explains."""
        self.counts[f"error: {error.kind}"] += 1
        if self._expiring is not None and isinstance(error, PermissionDenied):
            allowed = self._expiring.explains(who, error)
        if isinstance(error, InternalError | CallError | DataDamaged) and not allowed:
            self.history.wrong.append(f"{who}: {error.kind}: {error}")
