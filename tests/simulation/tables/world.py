"""One lake and two coordination tables: machines that name the one or the other, and operators that move the lake between them.

Workers take the one queue of a group, grant its messages one after the other, and run them; clerks without a lease make cells and add to them. Both
stand still, crash, and go on after the lake was moved. Operators ask the machines to stop, or forget to, and crash at any request of a move; then
they begin it again, or leave it.

What must hold: no two processes may start messages at once, whichever tables they name; no message that is settled runs again; what a clerk was told
is written is in the lake's table; and in the end, whatever became of the last move, processes that name the recorded table go on.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

from penstock.coordinator.cells.agreement import TableAgreement, table_record
from penstock.coordinator.cells.cells import CellChanged
from penstock.coordinator.cells.document import Codec, Document
from penstock.coordinator.cells.table_record import OwnTable, TableRecord
from penstock.coordinator.coordination import Coordination
from penstock.coordinator.operators.lake_table import CoordinationInUse, NamedTable
from penstock.coordinator.operators.table_move import TableMove
from penstock.coordinator.tables import CoordinationMismatch
from penstock.coordinator.workers.session import SessionMember
from penstock.log.errors import InvalidArgument, PenstockError
from tests.simulation.faults import Fault, RandomFaults
from tests.simulation.network import Network
from tests.simulation.process import Crashed, SimProcess
from tests.simulation.simulated import Nemesis, SimulatedWorld, log_uniform
from tests.simulation.table import TABLE_NETWORK, SimTable

LAKE = "s3://bucket/lake"
QUEUE = "queues/billing/orders/0"
LEASE_S = 2.0
WORKERS, CLERKS = 3, 2
ENDS_S = 400.0
QUIET_S = 200.0
STORE = Network(time_out_s=4.0, late_s=(4.0, 60.0), pause_s=(0.1, 120.0))
JSON = Codec[Any](lambda value: json.dumps(value).encode(), lambda data, where: json.loads(data))
FRESH = {"owner": "", "running": None, "next": 0}


class Tables(SimulatedWorld):
    """One run. ``moves``: operators move the lake; else machines only begin with different tables.

    ``late``: machines are asked to stop before a move, and some stand still instead, or do not hear it, and go on amid it or behind it.
    """

    def __init__(
        self, seed: int | str, *, rate: float = 0.01, moves: bool = True, late: bool = False, blows_every_s: float = 8.0
    ) -> None:
        super().__init__(seed, store=STORE, table=TABLE_NETWORK, offset_ms=2_000, drift=0.02, quiet_s=QUIET_S, max_steps=1_500_000)
        self.second = self.kernel.table(name="second", network=TABLE_NETWORK)
        self.tables: dict[str, SimTable] = {"first": self.table, "second": self.second}
        rates = RandomFaults.swarm(self.kernel.rng, rate=rate, without=(Fault.SUSPEND_BEFORE, Fault.SUSPEND_AFTER))
        self.plan = rates if rate else None
        self.moves, self.late = moves, late
        self.deaf = self.kernel.rng("deaf").choice(("", "changes", "makes")) if late else ""
        """What clerks do whom nobody tells of a move, with cells: it succeeds only while they rest."""
        self.nemesis = Nemesis(every_s=blows_every_s if rate else 0.0, pause_s=(0.1, 90.0), crashes=1)
        self.rng = self.kernel.rng("world")
        self.named = "first"
        """What configurations say now."""
        has_strays = not moves or (self.rng.random() < 0.3 and not late)
        self.strays = {f"worker-{self.rng.randrange(WORKERS)}"} if has_strays else set[str]()
        """Machines whose configuration says the other table."""
        self.stopped = asyncio.Event()
        self.leaving = asyncio.Event()
        self.alive: dict[str, SimProcess] = {}
        self.holders: dict[str, tuple[SimProcess, SessionMember]] = {}
        self.settled: dict[int, str] = {}
        self.noted: list[str] = []
        self.shared: list[str] = []
        """Those of the cell that all clerks change."""
        self.starts = self.wanted = 0
        self.goes_on = asyncio.Event()
        """Set when so many messages as are wanted were started."""
        self.wrong: list[str] = []

    async def _main(self) -> None:
        services = (self.store, self.table, self.second)
        for service in services:
            service.plan = self.plan
        lives = [asyncio.ensure_future(self._machine(f"worker-{n}", self._work)) for n in range(WORKERS)]
        lives += [asyncio.ensure_future(self._machine(f"clerk-{n}", self._clerk)) for n in range(CLERKS)]
        beside = [asyncio.ensure_future(self._strike(self.nemesis, lambda: list(self.alive.values()) or [None]))]
        beside += [asyncio.ensure_future(self._operate())] if self.moves else []
        await asyncio.sleep(ENDS_S)
        for one in beside:
            one.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        for one in beside:
            if not one.cancelled() and (error := one.exception()) is not None:
                raise error
        self._end_faults(self.plan)
        await self._settle()
        await self.second.settled()
        await self._as("reader", self._judge_end)
        self.stopped.set()
        self.leaving.set()
        for life in lives:
            await self._within(QUIET_S, life, "a machine")

    async def _found(self, process: SimProcess) -> None:
        """Nothing is there."""

    async def _come_to_rest(self) -> None:
        """`_main` does it."""

    def _judged(self) -> list[str]:
        return self.wrong

    # --- Machines ---------------------------------------------------------------------------------------------------------------

    async def _machine(self, name: str, work: Any) -> None:
        rng = self.kernel.rng(f"rest/{name}")
        while not self.stopped.is_set():
            process = self.alive[name] = self.new_process(name)
            try:
                await process.run(work(process, self._named(name)))
            except Crashed:
                self.counts["crashed"] += 1
            except CoordinationMismatch:
                self.counts["told"] += 1
            except PenstockError as error:
                self.counts[f"ended: {error.kind}"] += 1
            self.holders.pop(name, None)
            process.crash()
            with suppress(TimeoutError):
                async with asyncio.timeout(log_uniform(rng, 0.1, 5.0)):
                    await self.stopped.wait()

    def _named(self, name: str) -> str:
        return _other(self.named) if name in self.strays else self.named

    def _coordination(self, process: SimProcess, named: str) -> Coordination:
        table = self.tables[named].client(process)
        record = table_record(self.store.client(process), process.runtime)
        agreement = TableAgreement(table, process.runtime, lake=LAKE, own=OwnTable(url=table.url), record=record)
        return Coordination(table, process.runtime, agreement=agreement, lease_s=LEASE_S, label=process.name)

    async def _work(self, process: SimProcess, named: str) -> None:
        coordination, name = self._coordination(process, named), process.name.partition("#")[0]
        rng = process.runtime.random
        try:
            while not self.leaving.is_set():
                member = await coordination.worker.join("billing", ("orders",))
                queue = Document(coordination.cells, process.runtime.clock, QUEUE, JSON, absent=FRESH)
                if not await self._takes(coordination, member, queue):
                    await asyncio.sleep(rng.uniform(0.1, 0.5))
                    member.end(None)
                    continue
                self.holders[name] = (process, member)
                with suppress(CellChanged):
                    await self._run(name, member, queue)
                self.holders.pop(name, None)
                if queue.value["owner"] == member.id and not member.ended.is_set():
                    with suppress(CellChanged):
                        await queue.write(queue.value | {"owner": ""})
                    member.end(None)
        finally:
            self.holders.pop(name, None)
            await coordination.close()

    async def _takes(self, coordination: Coordination, member: SessionMember, queue: Document[Any]) -> bool:
        owner = (await queue.read())["owner"]
        if owner:
            await coordination.watch.look([owner])
            if not (coordination.watch.is_dead(owner) and await coordination.watch.fence(owner)):
                return False
        try:
            await queue.write(queue.value | {"owner": member.id})
        except CellChanged:
            return False
        return True

    async def _run(self, name: str, member: SessionMember, queue: Document[Any]) -> None:
        rng = self.kernel.rng(f"work/{name}/{member.id}")
        for _ in range(rng.randint(1, 30)):
            if self.leaving.is_set():
                return
            if queue.value["running"] is None:
                await queue.write(queue.value | {"running": queue.value["next"], "next": queue.value["next"] + 1})
            if not member.may_start():
                return
            self._started(name, queue.value["running"])
            await asyncio.sleep(log_uniform(rng, 0.01, 1.0))
            await queue.write(queue.value | {"running": None})
            self.settled.setdefault(queue.value["next"] - 1, name)
            # Some hold the queue and do nothing while a whole move goes by.
            rests = not self.wanted and rng.random() < (0.2 if self.late else 0.05)
            await asyncio.sleep(rng.uniform(30.0, 150.0 if self.late else 60.0) if rests else log_uniform(rng, 0.01, 2.0))

    def _started(self, name: str, message: int) -> None:
        self.starts += 1
        if self.starts == self.wanted:
            self.goes_on.set()
        if message in self.settled:
            self.wrong.append(
                f"message {message} was settled by {self.settled[message]}, and {name} starts it at {self.now_s:.1f} s"
            )
        for other, (process, member) in self.holders.items():
            if other != name and not process.crashed and member.may_start():
                self.wrong.append(f"{name} starts message {message} at {self.now_s:.1f} s, and {other} may start one")

    async def _clerk(self, process: SimProcess, named: str) -> None:
        """Writes without a lease, for as long as nobody tells it to end."""
        coordination = self._coordination(process, named)
        rng, clock = process.runtime.random, process.runtime.clock
        makes, rests_s = rng.choice([0.0, 0.5, 1.0]), rng.choice([0.3, 2.0, 20.0, 80.0] if self.late else [2.0, 20.0])
        shared = Document(coordination.cells, clock, "groups/shared", JSON, absent=[])
        hears = self.leaving
        if self.deaf and rng.random() < 0.7:
            hears, makes = self.stopped, float(self.deaf == "makes")
        try:
            while not hears.is_set():
                note = f"{process.name}.{self.rng.getrandbits(64):x}"
                where = shared
                if rng.random() < makes:
                    where = Document(coordination.cells, clock, f"groups/{note}", JSON, absent=[])
                if where is shared:
                    await self._read_shared(process.name, shared)
                await where.change(partial(_with_note, note))
                self.noted.append(note)
                if where is shared:
                    self.shared.append(note)
                await asyncio.sleep(log_uniform(rng, 0.05, rests_s))
        finally:
            await coordination.close()

    async def _read_shared(self, name: str, shared: Document[Any]) -> None:
        """What is read has all that was confirmed before."""
        confirmed, began_s = list(self.shared), self.now_s
        notes = {*await shared.read()}
        if missing := [note for note in confirmed if note not in notes]:
            self.wrong.append(f"{name} reads without {missing[0]}, which was confirmed before {began_s:.1f} s")

    # --- Operators --------------------------------------------------------------------------------------------------------------

    async def _operate(self) -> None:
        rng = self.kernel.rng("operator")
        while True:
            await asyncio.sleep(rng.uniform(5.0, 40.0))
            source = self.named
            if rng.random() < (0.9 if self.late else 0.6):
                self._stand_still(rng)
                self.leaving.set()
                self.counts["stopped for a move"] += 1
                await asyncio.sleep(rng.uniform(0.5, 5.0))
            for _ in range(rng.randint(2, 8) if self.late else rng.randint(1, 4)):
                process = self.new_process("operator")
                self.alive["operator"] = process
                try:
                    await process.run(self._move(process, source, _other(source)))
                except Crashed:
                    self.counts["crashed amid a move"] += 1
                except CoordinationInUse:
                    self.counts["in use"] += 1
                except CoordinationMismatch:
                    self.counts["the table of neither"] += 1
                    break
                except InvalidArgument:
                    self.counts["not empty"] += 1
                    break
                except PenstockError as error:
                    self.counts[f"move: {error.kind}"] += 1
                else:
                    self.counts["moved"] += 1
                    self.named = _other(source)
                    break
                finally:
                    process.crash()
                await asyncio.sleep(rng.uniform(0.1, 3.0))
            else:
                self.counts["given up"] += 1
                await self._look()
            self.leaving.clear()

    def _stand_still(self, rng: Random) -> None:
        """Some machines do not hear that they should stop, as they stand still until the move is under way, or over: most of all who holds the queue,
        until its heartbeat is long overdue.
        """
        for name, process in self.alive.items() if self.late else ():
            if name == "operator" or process.crashed:
                continue
            if name in self.holders and rng.random() < 0.6:
                self.counts["late holder"] += 1
                process.pause(rng.uniform(30.0, 60.0))
            elif rng.random() < 0.3:
                self.counts["late"] += 1
                process.pause(rng.uniform(3.0, rng.choice((20.0, 90.0))))

    async def _move(self, process: SimProcess, source: str, target: str) -> None:
        record = table_record(self.store.client(process), process.runtime)
        former, other = self._table(process, source), self._table(process, target)
        await TableMove(former, other, record, process.runtime, lake=LAKE).run()

    def _table(self, process: SimProcess, name: str) -> NamedTable:
        table = self.tables[name].client(process)
        return NamedTable(table, OwnTable(url=table.url), process.runtime, lake=LAKE, shared=True)

    async def _look(self) -> None:
        """The operator that gives up sees which table is the lake's."""

        async def look(process: SimProcess) -> None:
            record = await table_record(self.store.client(process), process.runtime).read()
            if record is not None:
                self.named = await self._recorded(process, record)

        while True:
            process = self.new_process("operator-looks")
            try:
                await process.run(look(process))
            except (Crashed, PenstockError):
                await asyncio.sleep(1.0)
            else:
                return

    async def _recorded(self, process: SimProcess, record: TableRecord) -> str:
        for name in self.tables:
            if await self._table(process, name).id() == record.table.id:
                return name
        raise AssertionError("the record names no table that there is")

    # --- The end ----------------------------------------------------------------------------------------------------------------

    async def _judge_end(self, process: SimProcess) -> None:
        record = await table_record(self.store.client(process), process.runtime).read()
        if record is None:
            return
        self.named = await self._recorded(process, record)
        self.strays.clear()
        self.leaving.clear()
        table = self._table(process, self.named)
        self.wanted, self.goes_on = self.starts + 5, asyncio.Event()
        try:
            async with asyncio.timeout(QUIET_S):
                await self.goes_on.wait()
        except TimeoutError:
            self.wrong.append(f"nobody works with the {self.named} table, which is the lake's: {self.counts}")
        found, noted = Counter[str](), list(self.noted)
        for key in await table.cells.keys("groups/"):
            stored = await table.cells.read(key)
            found.update([] if stored is None else json.loads(stored.data))
        if lost := [note for note in noted if not found[note]]:
            self.wrong.append(f"{len(lost)} of {len(noted)} notes are lost, such as {lost[0]}")


def _with_note(note: str, notes: list[str]) -> list[str]:
    return notes if note in notes else [*notes, note]


def _other(table: str) -> str:
    return "second" if table == "first" else "first"
