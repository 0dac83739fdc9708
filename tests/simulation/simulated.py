"""What simulated worlds share: a store and a table, processes and machines on them, what befalls these, and quiet in the end."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack

from penstock.log.lake import LogLake
from tests.simulation.faults import FaultPlan, RandomFaults
from tests.simulation.kernel import Kernel
from tests.simulation.network import Network
from tests.simulation.process import Crashed, SimClock, SimProcess
from tests.simulation.requests import SimService

Work = Callable[[SimProcess], Coroutine[Any, Any, None]]


class Stuck(AssertionError):
    """Somebody did not reach its goal."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Nemesis:
    """What befalls machines beside the faults of store calls."""

    every_s: float = 0.0
    """Between two blows, on average; 0: none."""
    pause_s: tuple[float, float] = (0.1, 3 * 86_400.0)
    step_ms_max: int = 240_000
    wild_step: float | None = 0.0
    """How often a clock steps further than it may; None: never."""
    wild_ms: tuple[int, int] = (400_000, 20_000_000)
    crashes: int = 1
    """So many of the blows are crashes, for each pause, suspend and step of a clock."""


class SimulatedWorld:
    """One run. `run` plays it, `play` a script instead; both return what is wrong, in words."""

    rule = ""
    """Of the judge, that everything comes to its end."""
    rest_s = (0.05, 5.0)
    """How long it takes until a process that crashed is started again."""

    is_prompt_alone = False
    """Whether who meets no faults gets no answer either that is so slow that it counts as none."""

    def __init__(
        self,
        seed: int | str,
        *,
        store: Network,
        table: Network,
        plans: tuple[FaultPlan | None, FaultPlan | None] = (None, None),
        offset_ms: int = 0,
        drift: float = 0.0,
        quiet_s: float = 0.0,
        shuffle: bool = True,
        max_steps: int,
    ) -> None:
        self.kernel = Kernel(seed, shuffle=shuffle, max_steps=max_steps)
        self.store = self.kernel.store(network=store)
        self.table = self.kernel.table(network=table)
        self.machines: Sequence[SimulatedMachine] = ()
        self.others: dict[str, SimProcess] = {}
        """Processes that are on no machine, and are started again as well."""
        self.quiet = False
        """Faults have ended."""
        self._plans = plans
        self._offset_ms = offset_ms
        self._drift = drift
        self._quiet_s = quiet_s
        self.kernel.loop.on_quiet = self._check_progress

    @property
    def now_s(self) -> float:
        return self.kernel.loop.now

    @property
    def counts(self) -> Counter[str]:
        return self.kernel.counts

    def befall(self, *, store: FaultPlan | None, table: FaultPlan | None) -> None:
        """Other faults than it was made with."""
        self._plans = (store, table)

    def run(self) -> list[str]:
        with self._setting():
            self.kernel.run(self._main())
        return self._judged()

    def play(self, script: Callable[[], Coroutine[Any, Any, None]]) -> list[str]:
        """Play a script instead of all actors, see that everything comes to its end, and judge."""

        async def main() -> None:
            await self._as("founder", self._found)
            await script()
            await self._come_to_rest()

        with self._setting():
            self.kernel.run(main())
        return self._judged()

    # --- What each world has of its own

    async def _main(self) -> None:
        """All actors, until everything has come to its end."""
        raise NotImplementedError

    async def _found(self, process: SimProcess) -> None:
        """What is there before anything goes wrong."""
        raise NotImplementedError

    async def _come_to_rest(self) -> None:
        """Wait until all is done, end everybody, and read what is left."""
        raise NotImplementedError

    def _setting(self) -> AbstractContextManager[Any]:
        """What holds while it is played."""
        return nullcontext()

    def _judged(self) -> list[str]:
        raise NotImplementedError

    def _standing_still(self) -> Iterable[str]:
        """Who waits although it could go on, in words."""
        return ()

    # --- Processes

    def lake(self, process: SimProcess) -> LogLake:
        return LogLake(self.store.client(process), runtime=process.runtime)

    def new_process(self, name: str, clock: SimClock | None = None) -> SimProcess:
        return self.kernel.process(name, max_offset_ms=self._offset_ms, max_drift=self._drift, clock=clock)

    async def _as(self, name: str, work: Work) -> None:
        """Something that meets no faults."""
        services: tuple[SimService[Any], ...] = (self.store, self.table)
        before = [(service, service.plan, service.network) for service in services]
        for service in services:
            service.plan = None
            if self.is_prompt_alone:
                service.network = replace(service.network, very_slow=0.0)
        process = self.kernel.process(name)
        await process.run(work(process))
        for service, plan, network in before:
            service.plan, service.network = plan, network

    async def _lives(self, name: str, work: Work, *, when: asyncio.Event | None = None, keeps_clock: bool = False) -> None:
        """Again and again, until a life comes to its end by itself. None begins but when ``when`` is set."""
        rng = self.kernel.rng(f"lives/{name}")
        clock: SimClock | None = None
        while True:
            if when is not None:
                await when.wait()
            process = self.others[name] = self.new_process(name, clock)
            clock = process.clock if keeps_clock else None
            try:
                await process.run(work(process))
            except Crashed:
                self.counts["restart"] += 1
                await asyncio.sleep(log_uniform(rng, *self.rest_s))
            else:
                return

    # --- What befalls them

    async def _strike(self, nemesis: Nemesis, processes: Callable[[], Sequence[SimProcess | None]]) -> None:
        """Pauses, suspends, crashes and clock steps, whatever the processes are doing."""
        rng = self.kernel.rng("nemesis")
        while nemesis.every_s:
            await asyncio.sleep(rng.expovariate(1 / nemesis.every_s))
            process = rng.choice(processes())
            if process is None or process.crashed:
                continue
            blow = rng.randrange(3 + nemesis.crashes) - nemesis.crashes
            if blow < 0:
                process.crash()
            elif blow == 0:
                process.pause(log_uniform(rng, *nemesis.pause_s))
            elif blow == 1:
                process.suspend(log_uniform(rng, *nemesis.pause_s))
            elif nemesis.wild_step is not None and rng.random() < nemesis.wild_step:
                self.counts["wild clock step"] += 1
                process.step_clock(rng.choice([-1, 1]) * rng.randint(*nemesis.wild_ms))
            else:
                limit = nemesis.step_ms_max
                process.step_clock(rng.randint(-limit, limit) - process.clock.offset_ms)

    async def _deploy(self, every_s: float) -> None:
        """One machine after the other, gracefully, so often; 0: never."""
        rng = self.kernel.rng("deploy")
        while every_s:
            await asyncio.sleep(rng.expovariate(1 / every_s))
            for machine in self.machines:
                await machine.deploy()

    def _end_faults(self, *plans: FaultPlan | None) -> None:
        for plan in plans:
            if isinstance(plan, RandomFaults):
                plan.active = False

    def _set_clocks(self, processes: Iterable[SimProcess | None], limit_ms: int) -> None:
        """Somebody sets those right that are off by more."""
        for process in processes:
            if process is not None and abs(process.clock.offset_ms) > limit_ms:
                process.step_clock(-process.clock.offset_ms)

    # --- The end

    async def _settle(self) -> None:
        """Let everything arrive that is on its way."""
        await self.store.settled()
        await self.table.settled()

    async def _within(self, seconds: float, task: asyncio.Future[Any], who: str) -> None:
        """Raises `Stuck` when it takes longer."""
        done, _ = await asyncio.wait([task], timeout=seconds)
        if not done:
            raise Stuck(f"{self.rule} {who} does not come to an end\n{self.kernel.loop.pending()}")
        task.result()

    async def _stop_machines(self) -> None:
        for machine in self.machines:
            await self._within(self._quiet_s, asyncio.ensure_future(machine.stop()), machine.name)

    def _fail_with_the_dead(self) -> None:
        """Raises what a machine ended with."""
        for machine in self.machines:
            if machine.life is not None and machine.life.done():
                machine.life.result()

    def _check_progress(self) -> None:
        if still := list(self._standing_still()):
            raise Stuck("\n".join(still))


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedPlot:
    """How large a run is, and what befalls it."""

    blows_every_s: float = 0.0
    """Crashes, pauses, suspends and steps of clocks; 0: none."""
    pause_s: tuple[float, float] = (0.1, 60.0)
    step_ms_max: int = 240_000
    wild_step: float | None = None
    """How often a clock steps by hours instead; None: never."""
    wild_ms: tuple[int, int] = (3_600_000, 20_000_000)
    crashes: int = 2
    """So many of the blows are crashes, for each pause, suspend and step of a clock."""
    deploys_every_s: float = 0.0
    offset_ms: int = 2_000
    """So wrong clocks are at first."""
    drift: float = 0.02
    faults_end_s: float = 60.0
    quiet_s: float = 600.0
    """So long everything may take to come to an end without faults."""

    @property
    def nemesis(self) -> Nemesis:
        return Nemesis(
            every_s=self.blows_every_s,
            pause_s=self.pause_s,
            step_ms_max=self.step_ms_max,
            wild_step=self.wild_step,
            wild_ms=self.wild_ms,
            crashes=self.crashes,
        )


class Services(TypedDict, total=False):
    """What a world's store and table are like, if not as usual."""

    store_plan: FaultPlan | None
    table_plan: FaultPlan | None
    store_network: Network
    table_network: Network
    max_steps: int


class PlottedWorld(SimulatedWorld):
    """A world that a plot describes."""

    networks: tuple[Network, Network]
    """Of the store and the table, as usual."""
    max_steps = 1_000_000

    def __init__(self, seed: int | str, plot: SimulatedPlot, **services: Unpack[Services]) -> None:
        store, table = self.networks
        super().__init__(
            seed,
            store=services.get("store_network", store),
            table=services.get("table_network", table),
            plans=(services.get("store_plan"), services.get("table_plan")),
            offset_ms=plot.offset_ms,
            drift=plot.drift,
            quiet_s=plot.quiet_s,
            max_steps=services.get("max_steps", self.max_steps),
        )
        self.plot = plot


class SimulatedMachine:
    """A machine and the process on it, life after life, until it is stopped."""

    leaves_at_once = False
    """Whether a machine that is stopped between two lives has no further one, in which it leaves in order."""
    ends_by_itself = False
    """Whether it ends with the first life that does not crash."""
    rest_s = (0.05, 5.0)
    """Between two lives."""

    def __init__(self, world: SimulatedWorld, name: str) -> None:
        self.name = name
        self.process: SimProcess | None = None
        self.life: asyncio.Task[None] | None = None
        self._of = world
        self._rng: random.Random = world.kernel.rng(f"machine/{name}")
        self._clock: SimClock | None = None
        self._leaving: asyncio.Event | None = None
        self._stopping = False

    def start(self) -> asyncio.Task[None]:
        self.life = asyncio.ensure_future(self._live())
        return self.life

    async def deploy(self) -> None:
        """Let the process leave; the next one starts by itself."""
        if self.process is not None and self._leaving is not None and not self.process.crashed:
            self._of.counts["deploy"] += 1
            process = self.process
            process.call(self.leave)
            await process.ended()

    async def stop(self) -> None:
        """Let the process leave, for good."""
        self._stopping = True
        if self.life is None:
            return
        if self._leaving is not None and self.process is not None and not self.process.crashed:
            self.process.call(self.leave)
        await self.life

    def leave(self) -> None:
        """Let the process end in order; it is the one that calls this."""
        assert self._leaving is not None, "a life began"
        self._leaving.set()

    async def work(self, process: SimProcess, leaving: asyncio.Event) -> None:
        """One life; it ends in order once ``leaving`` is set."""
        raise NotImplementedError

    async def before(self) -> None:
        """Wait until a life may begin."""

    def began(self, process: SimProcess) -> None:
        """A life begins."""

    async def after(self, process: SimProcess) -> None:
        """A life has ended."""

    def pause_s(self) -> float:
        """How long the machine rests now."""
        return log_uniform(self._rng, *self.rest_s)

    async def _live(self) -> None:
        while not (self._stopping and self.leaves_at_once):
            await self.before()
            process = self.process = self._of.new_process(self.name, self._clock)
            self._clock, leaving = process.clock, asyncio.Event()
            self._leaving = leaving
            self.began(process)
            if self._stopping:
                process.call(self.leave)
            with suppress(Crashed):
                await process.run(self.work(process, leaving))
                if self.ends_by_itself:
                    return
            process.crash()
            await self.after(process)
            if self._stopping and (self.leaves_at_once or not self.ends_by_itself):
                return
            self._of.counts["restart"] += 1
            await asyncio.sleep(self.pause_s())


def log_uniform(rng: random.Random, least: float, most: float) -> float:
    return float(least * (most / least) ** rng.random())
