"""A lake whose transactions are under attack: applications that crash, check-backs, finishers, collectors, operators, and quiet in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Unpack

from penstock.coordinator.coordination import Coordination
from penstock.coordinator.transactions.service import Transactions
from penstock.log.errors import CallError, ClockSkewError, DataDamaged, InternalError, PenstockError, PermissionDenied
from penstock.log.lake import LogLake
from penstock.log.message.message import Message
from penstock.log.message.message_type import MessageType
from penstock.log.paths import TopicPaths
from penstock.log.topic.settings import TopicSettings
from tests.simulation.expiring import Expiring
from tests.simulation.log.history import Archive
from tests.simulation.network import Network
from tests.simulation.process import SimClock, SimProcess
from tests.simulation.requests import SimService
from tests.simulation.simulated import PlottedWorld, Services, Stuck
from tests.simulation.table import TABLE_NETWORK
from tests.simulation.transactions import applications, pricing, upkeep
from tests.simulation.transactions.judge import judge
from tests.simulation.transactions.ledger import Ledger
from tests.simulation.transactions.logs import read_log
from tests.simulation.transactions.machine import Life, Machine, Work
from tests.simulation.transactions.plot import SOURCE, TOPICS, Plot
from tests.simulation.transactions.records import History

STORE_NETWORK = Network(very_slow=0.001, time_out_s=8.0, slow_s=(0.2, 8.0), late_s=(0.5, 600.0), pause_s=(0.1, 600.0))
COLLECT_S = 96 * 3600.0
"""So long everybody goes on in the end: the last finished row leaves its cell after a day, and what was given up is collected after two."""
_FILL_EVERY_S = 24 * 3600.0


class Transacting(PlottedWorld):
    """One run."""

    rule = "T10"

    networks = STORE_NETWORK, TABLE_NETWORK
    plot: Plot

    def __init__(self, seed: int | str, plot: Plot | None = None, **services: Unpack[Services]) -> None:
        super().__init__(seed, plot or Plot(), **services)
        self.history = History()
        self.history.counts = self.kernel.counts
        self.archive = Archive(name="simulated", clock=SimClock(self.kernel.loop))
        self.store.memory = self.archive
        self.ledger = Ledger(self.history, self.kernel.loop)
        self.table.memory = self.ledger
        self._deleting: asyncio.Future[None] | None = None
        self._expiring: list[Expiring] = []
        self.machines: list[Machine] = []
        self.collecting = False
        """All is decided, and days pass until nothing is left."""
        self.calls_decided: dict[str, int] = {}
        """So many requests were made until then, by service."""

    def topics(self) -> Sequence[str]:
        return TOPICS[: self.plot.topics]

    def expire(self, *, every_s: float, for_s: tuple[float, float]) -> None:
        """Let the store and the table refuse everything now and then, each at times of its own."""
        services: list[SimService[Any]] = [self.store, self.table]
        for service, plan in zip(services, self._plans, strict=True):
            rng = self.kernel.rng(f"expiring/{service.name}")
            made = Expiring(rng, lambda: self.now_s, every_s=every_s, for_s=for_s, others=plan)
            made.stand_before(service)
            self._expiring.append(made)
        self._plans = (self._expiring[0], self._expiring[1])

    def _judged(self) -> list[str]:
        logs = {name: asyncio.run(read_log(self.archive, TopicPaths.of(name))) for name in self.topics()}
        return judge(self.history, logs)

    # --- The run ----------------------------------------------------------------------------------------------------------------

    async def _main(self) -> None:
        await self._as("founder", self._found)
        self.store.plan, self.table.plan = self._plans
        for number in range(self.plot.senders):
            self.start(f"s{number}", applications.Sender(self, f"s{number}").work)
        self.start_finishers()
        for number in range(self.plot.consumers):
            self.start(f"p{number}", pricing.Pricing(self, f"p{number}").work)
        for number in range(self.plot.collectors):
            self.start(f"c{number}", applications.collect)
        others = [
            asyncio.ensure_future(self._strike(self.plot.nemesis, self._processes)),
            asyncio.ensure_future(self._delete()),
        ]
        if self.plot.operator_every_s:
            self.start("operator", applications.operate)
        await asyncio.sleep(self.plot.faults_end_s)
        for other in others:
            other.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if self._deleting is not None:
            await self._deleting
        await self._come_to_rest()

    def start(self, name: str, work: Work) -> Machine:
        machine = Machine(self, name, work)
        self.machines.append(machine)
        return machine

    def start_finishers(self) -> None:
        for number in range(self.plot.finishers):
            self.start(f"f{number}", applications.finish)

    async def _come_to_rest(self) -> None:
        """Wait until everything is decided and finished, then until nothing is left, end everybody, and read all."""
        self._end_faults(self.store.plan, self.table.plan)
        self.quiet = True
        self._set_clocks(self._processes(), self.plot.step_ms_max)
        began_s = self.now_s
        await self._settle()
        awake_s = self._awake_s()
        await self._until_empty(awake_s, self._unsettled)
        await self._stop("p")
        await self._until_empty(awake_s, self.ledger.unfinished)
        self.counts["quiet seconds"] += round(self.now_s - began_s)
        await self._collect_all()
        await self._stop("")
        await self._settle()
        self.store.plan = self.table.plan = None
        self._look_what_is_left()
        await self.apart("auditor", self._audit)
        self.counts["simulated seconds"] += round(self.now_s)
        self.counts["cell bytes, at most"] = max(self.counts["cell bytes, at most"], self.ledger.bytes_max)

    def _awake_s(self) -> float:
        """From when on time counts in which everybody must come to an end: what befell machines may stop them for longer than that."""
        return max([self.now_s, *(machine.process.awake_s for machine in self.machines if machine.process is not None)])

    async def _until_empty(self, began_s: float, look: Callable[[], list[str]]) -> None:
        while left := look():
            if self.now_s - began_s > self.plot.quiet_s:
                raise Stuck(f"T10 in {self.plot.quiet_s:g} quiet seconds these did not come to an end: {left[:5]}")
            self._fail_with_the_dead()
            await asyncio.sleep(20.0)

    async def _stop(self, *names: str) -> None:
        """Let the processes leave whose names begin so."""
        for machine in [one for one in self.machines if one.name.startswith(names)]:
            seconds = self._awake_s() - self.now_s + self.plot.quiet_s
            await self._within(seconds, asyncio.ensure_future(machine.stop()), machine.name)

    def _unsettled(self) -> list[str]:
        return [f"{place} was not consumed" for place in self.history.to_consume if place not in self.history.settled]

    async def _collect_all(self) -> None:
        self.collecting = True
        self.calls_decided = {"store": len(self.store.calls), "table": len(self.table.calls)}
        await self._stop("s", "operator")
        if not any(machine.name.startswith("c") for machine in self.machines):
            self.start("c", applications.collect)
        until_s = self.now_s + COLLECT_S
        while self.now_s < until_s:
            await self.apart("filler", self._fill)
            self._fail_with_the_dead()
            await asyncio.sleep(_FILL_EVERY_S)

    def _look_what_is_left(self) -> None:
        """T9."""
        for name in self.topics():
            self.history.left += [key for key in self.archive.objects() if key.startswith(TopicPaths.of(name).jobs)]
        self.history.left += self.ledger.unfinished()
        self.history.left += [f"row {row.id}: {row.decision.name}" for row in self.ledger.rows().values()]

    # --- Who there is -----------------------------------------------------------------------------------------------------------

    def new_process(self, name: str, clock: SimClock | None = None) -> SimProcess:
        off_ms = self.plot.finisher_offset_ms if name.startswith("f") else self.plot.offset_ms
        return self.kernel.process(name, max_offset_ms=off_ms, max_drift=self.plot.drift, clock=clock)

    def open(self, process: SimProcess, leaving: asyncio.Event) -> Life:
        """What a process has of the lake."""
        lake = LogLake(self.store.client(process), runtime=process.runtime)
        coordination = Coordination(self.table.client(process), lake.runtime, lease_s=self.plot.lease_s)
        return Life(self, process, lake, coordination, Transactions(lake, coordination), leaving)

    async def close(self, life: Life) -> None:
        for end in (life.transactions.close, life.coordination.close, life.lake.close):
            with suppress(PenstockError):
                await end()

    async def apart(self, name: str, work: Work) -> None:
        """Something that meets no faults."""
        await self._as(name, lambda process: self._life_of(process, work))

    async def alone(self, name: str, work: Work) -> None:
        """A process of its own, and all of its life."""
        process = self.kernel.process(name)
        await process.run(self._life_of(process, work))

    async def _life_of(self, process: SimProcess, work: Work) -> None:
        life = self.open(process, asyncio.Event())
        await work(life)
        await self.close(life)

    async def _found(self, process: SimProcess) -> None:
        await self._life_of(process, self._make_topics)

    async def _make_topics(self, life: Life) -> None:
        for name in self.topics():
            await life.lake.create_topic(name, self.settings)
        if self.plot.messages:
            await life.lake.create_topic(SOURCE, TopicSettings(queues=self.plot.queues))
            producer = await life.lake.producer(SOURCE)
            sent = [await producer.send(Message(b"cart")) for _ in range(self.plot.messages)]
            self.history.to_consume = [(SOURCE, one.queue or 0, one.offset or 0) for one in sent]
            await producer.close()

    @property
    def settings(self) -> TopicSettings:
        return TopicSettings(message_type=MessageType.TRANSACTION, queues=self.plot.queues, retention=None)

    async def _fill(self, life: Life) -> None:
        await upkeep.fill(life, self.topics(), self.plot.rest_entries)

    async def _audit(self, life: Life) -> None:
        for name in self.topics():
            reader = await life.lake.reader(name)
            table = await reader.to_arrow(columns=["queue", "offset", "body"])
            rows = zip(*(table[column].to_pylist() for column in table.column_names), strict=True)
            self.history.read[name] = {(name, queue, offset): body for queue, offset, body in rows}

    # --- What befalls them ------------------------------------------------------------------------------------------------------

    def _processes(self) -> list[SimProcess | None]:
        return [machine.process for machine in self.machines]

    async def _delete(self) -> None:
        """Topics that are deleted and made again."""
        plot, rng = self.plot, self.kernel.rng("deleter")
        while plot.deletes_every_s:
            await asyncio.sleep(rng.expovariate(1 / plot.deletes_every_s))
            name = rng.choice(self.topics())
            spans = self.history.deleted.setdefault(name, [])
            spans.append((self.now_s, float("inf")))

            async def again(life: Life, name: str = name, spans: list[tuple[float, float]] = spans) -> None:
                await life.lake.delete_topic(name)
                await life.lake.create_topic(name, self.settings)
                spans[-1] = (spans[-1][0], self.now_s)

            self._deleting = asyncio.ensure_future(self.apart("deleter", again))
            await asyncio.shield(self._deleting)
            self.counts["topic deleted"] += 1

    def check_expected(self, who: str, error: PenstockError, allowed: tuple[type[PenstockError], ...] = ()) -> None:
        """Note an error that nothing in this world explains."""
        self.counts[f"error: {error.kind}"] += 1
        if isinstance(error, ClockSkewError):
            return  # clocks step by hours here
        if isinstance(error, PermissionDenied) and self._expiring and any(one.explains(who, error) for one in self._expiring):
            return
        if isinstance(error, InternalError | DataDamaged | CallError) and not isinstance(error, allowed):
            self.history.wrong.append(f"{self.now_s:.3f} s, {who}: {error.kind}: {error}")
