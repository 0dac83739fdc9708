"""A fleet that leases queues under faults: workers whose members take, hold, lose and hand over cells, and a table that judges every write."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from penstock.coordinator.cells.cells import Cells
from penstock.coordinator.cells.keys import queue_key
from penstock.coordinator.groups.record import GroupSettings
from penstock.coordinator.queues.cell import QueueCell
from penstock.coordinator.queues.keeper import OwnershipLost, QueueKeeper
from penstock.coordinator.queues.offsets import OffsetSet
from penstock.coordinator.rebalance.balance import Queue
from penstock.coordinator.rebalance.member_context import MemberContext
from penstock.coordinator.rebalance.ownership import Ownership
from penstock.coordinator.registry.groups import GroupRegistry
from penstock.coordinator.workers.watch import LeaseWatch
from penstock.coordinator.workers.worker import LeaseLost, SessionMember, Worker
from penstock.log.errors import RetryError, UnknownOutcome
from tests.simulation.faults import FaultPlan
from tests.simulation.leases.ledger import Ledger
from tests.simulation.network import Network
from tests.simulation.process import SimProcess
from tests.simulation.simulated import SimulatedMachine, SimulatedWorld
from tests.simulation.table import CALM_NETWORK

GROUP = "billing"
Ending = Literal["crash", "leave"]


@dataclass(kw_only=True)
class Habits:
    """How the fleet lives."""

    machines: int = 3
    queues: Mapping[str, int] = field(default_factory=lambda: {"orders": 8})
    lease_s: float = 5.0
    drift: float = 0.0
    work_s: tuple[float, float] = (0.01, 0.5)
    rest_s: float = 0.5
    """Between two messages of a queue, on average."""
    gap: float = 0.0
    """How often a process is paused between asking whether it may start and starting."""


class Fleet(SimulatedWorld):
    """One run."""

    def __init__(
        self, seed: int | str, habits: Habits | None = None, *, plan: FaultPlan | None = None, network: Network | None = None
    ) -> None:
        self.habits = habits or Habits()
        super().__init__(
            seed, store=Network(), table=network or CALM_NETWORK, plans=(None, plan), drift=self.habits.drift, max_steps=1_500_000
        )
        self.table.plan = plan
        self.ledger = Ledger(self)
        self.table.memory = self.ledger
        self.wrong: list[str] = []
        self.machines: list[Machine] = []
        self.fenced_s: dict[str, float] = {}
        self.script: Callable[[], Coroutine[Any, Any, None]] = self.found
        """What happens in the run."""
        self.work: Counter[str] = Counter()
        """Messages settled, by member."""

    async def _main(self) -> None:
        await self.script()

    def _judged(self) -> list[str]:
        return self.wrong

    def blame(self, what: str) -> None:
        self.wrong.append(f"{self.now_s:.3f} s: {what}")

    def keys(self) -> dict[Queue, str]:
        return {
            (topic, queue): queue_key(GROUP, topic, queue) for topic, count in self.habits.queues.items() for queue in range(count)
        }

    def owners(self) -> dict[Queue, str]:
        """As the table has it now."""
        return {queue: self.ledger.cell(key).owner for queue, key in self.keys().items()}

    async def found(self) -> None:
        """Make the group, before anything goes wrong."""
        await self._as("founder", self._found)

    async def _found(self, process: SimProcess) -> None:
        groups = make_groups(self, process)
        await groups.create(GROUP, GroupSettings())
        for topic, count in self.habits.queues.items():
            await groups.begin(GROUP, topic, 1, lambda count=count: _zeros(count))  # type: ignore[misc]

    def machine(self, topics: tuple[str, ...] | None = None, *, start: bool = True) -> Machine:
        """One more machine, with a process that consumes; started again when it crashes, until it is stopped."""
        machine = Machine(self, f"m{len(self.machines)}", topics or tuple(self.habits.queues))
        self.machines.append(machine)
        if start:
            machine.start()
        return machine

    async def until(self, what: str, condition: Callable[[], bool], *, within_s: float) -> float:
        """Wait for a condition; returns how long it took, and raises when it takes longer."""
        began_s = self.now_s
        while not condition():
            if self.now_s - began_s > within_s:
                raise AssertionError(f"not {what} within {within_s:g} s: {self.owners()}")
            await asyncio.sleep(0.01)
        return self.now_s - began_s

    def is_even(self) -> bool:
        """Whether every queue is owned by a member that lives, and nobody has two more than another (when all consume the same)."""
        living = [machine.alive() for machine in self.machines if machine.restarts]
        alive = [consumer.member.id for consumer in living if consumer is not None and consumer.member is not None]
        if len(alive) < len(living) or any(self.ledger.is_over(member) for member in alive):
            return False
        owners = self.owners()
        owned = Counter(owners.values())
        counts = [owned[member] for member in alive]
        return sum(counts) == len(owners) and max(counts) - min(counts) <= 1

    def end_faults(self) -> None:
        self.table.plan = None
        self.habits = replace(self.habits, gap=0.0)


class Machine(SimulatedMachine):
    """A machine whose process has a consumer."""

    def __init__(self, fleet: Fleet, name: str, topics: tuple[str, ...]) -> None:
        super().__init__(fleet, name)
        self.fleet = fleet
        self.topics = topics
        self.consumer: Consumer | None = None

    @property
    def restarts(self) -> bool:
        return not self._stopping

    def alive(self) -> Consumer | None:
        """Its consumer, if it is one that others should count on."""
        if self.process is None or self.process.crashed or self.consumer is None or self.consumer.leaving:
            return None
        return self.consumer

    def began(self, process: SimProcess) -> None:
        self.consumer = process.call(Consumer, self)

    async def work(self, process: SimProcess, leaving: asyncio.Event) -> None:
        assert self.consumer is not None, "a life began"
        await self.consumer.live()

    def leave(self) -> None:
        assert self.consumer is not None, "a life began"
        self.consumer.leave()

    def pause_s(self) -> float:
        return self._rng.uniform(0.05, 3.0)

    async def stop(self, how: Ending = "leave") -> None:
        """End its process for good."""
        if how == "crash" and self.process is not None:
            self.process.crash()
        await super().stop()


class Consumer:
    """A process with one member at a time, which works on whatever it owns."""

    def __init__(self, machine: Machine) -> None:
        assert machine.process is not None
        self.fleet = machine.fleet
        self.process = machine.process
        self.queues = {topic: self.fleet.habits.queues[topic] for topic in machine.topics}
        self.rng: random.Random = self.fleet.kernel.rng(f"work/{self.process.name}")
        runtime = self.process.runtime
        self.cells = Cells(self.fleet.table.client(self.process), runtime)
        self.groups = make_groups(self.fleet, self.process, self.cells)
        self.worker = Worker(self.cells, runtime, lease_s=self.fleet.habits.lease_s, label=machine.name)
        self.watch = LeaseWatch(self.cells, runtime)
        self.member: SessionMember | None = None
        self.ownership: Ownership | None = None
        self.leaving = False
        self._drain: set[Queue] = set()
        self._drained = asyncio.Event()

    def leave(self) -> None:
        """End in order, from the next turn on."""
        self.leaving = True
        if self.ownership is not None:
            self.ownership.wake()

    async def live(self) -> None:
        while not self.leaving:
            try:
                self.member = await self.worker.join(GROUP, tuple(self.queues))
            except LeaseLost:
                self.fleet.counts["joining took a lease"] += 1
                continue
            context = MemberContext(
                cells=self.cells,
                groups=self.groups,
                watch=self.watch,
                member=self.member,
                clock=self.process.runtime.clock,
                group=GROUP,
                lease_s=self.worker.lease_s,
            )
            self.ownership = Ownership(context, self.queues)
            with suppress(LeaseLost):
                await self._consume(self.member, self.ownership)
                return
            self.fleet.counts["lease lost"] += 1

    async def _consume(self, member: SessionMember, ownership: Ownership) -> None:
        working: set[asyncio.Task[None]] = set()
        told = False
        while True:
            try:
                if self.leaving and not told:
                    await ownership.give_up()
                    told = True
                around = await ownership.round()
            except (RetryError, UnknownOutcome):
                self.fleet.counts["round failed"] += 1
            else:
                for queue, keeper in around.taken.items():
                    working.add(asyncio.ensure_future(self._work(member, queue, keeper)))
                if self._drain != (drain := set(around.drain)):
                    self._drain = drain
                    self._drained.set()
                    self._drained = asyncio.Event()
                if told and not ownership.keepers:
                    break
            await ownership.rest()
        await ownership.leave()
        for task in working:
            await task

    async def _work(self, member: SessionMember, queue: Queue, keeper: QueueKeeper) -> None:
        with suppress(OwnershipLost):
            await keeper.change(_with_suspects_settled)
            while not keeper.ended.is_set():
                if queue in self._drain:
                    await keeper.release()
                    self.fleet.counts["released"] += 1
                    if self.ownership is not None:
                        self.ownership.wake()
                    return
                await self._work_once(member, keeper)
                if queue not in self._drain:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(self.rng.expovariate(1 / self.fleet.habits.rest_s)):
                            await self._drained.wait()

    async def _work_once(self, member: SessionMember, keeper: QueueKeeper) -> None:
        await self.worker.awake()
        offset = max(keeper.cell.settled.limit, keeper.cell.granted.limit)
        one = OffsetSet.of([(offset, offset + 1)])
        self.worker.started(1)
        try:
            await keeper.change(lambda cell: cell.with_granted(one))
            if not member.may_start() or keeper.ended.is_set():
                await keeper.change(lambda cell: cell.with_ungranted(one))
                return
            if self.rng.random() < self.fleet.habits.gap:
                self.process.pause(self.rng.uniform(0.1, 3 * self.fleet.habits.lease_s))
                await asyncio.sleep(0)
                excused = True
            else:
                excused = False
            self._starts(member, keeper, excused=excused)
            await asyncio.sleep(self.rng.uniform(*self.fleet.habits.work_s))
            await keeper.change(lambda cell: cell.with_settled(one))
            self.fleet.work[member.id] += 1
        finally:
            self.worker.finished(1)

    def _starts(self, member: SessionMember, keeper: QueueKeeper, *, excused: bool) -> None:
        """It was just told that it may: then nobody else can be the owner."""
        cell = self.fleet.ledger.cell(keeper.key)
        self.fleet.counts["start"] += 1
        if (cell.owner, cell.epoch) != (member.id, keeper.epoch) or self.fleet.ledger.is_over(member.id):
            if excused:
                self.fleet.counts["start of a zombie, paused after it asked"] += 1
            else:
                self.fleet.blame(
                    f"{keeper.key}: {member.id} starts in epoch {keeper.epoch}, which is {cell.owner}'s in epoch {cell.epoch}"
                )


def make_groups(fleet: Fleet, process: SimProcess, cells: Cells | None = None) -> GroupRegistry:
    cells = cells or Cells(fleet.table.client(process), process.runtime)
    return GroupRegistry(cells, process.runtime)


def _with_suspects_settled(cell: QueueCell) -> QueueCell:
    return cell.with_settled(OffsetSet.of_offsets(sorted(cell.tries))) if cell.tries else cell


async def _zeros(count: int) -> tuple[int, ...]:
    return (0,) * count
