"""A group whose messages all die, under attack: owners of queues that bury them, operators who reset and redrive, and the judge.

The queues' cells are the real ones; where they lie is a table that never fails, so that all attacks are on what dead letters are made of:
an owner may lose its queue at any moment and learn of it late, and what it began goes on.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, TypeVar
from zlib import crc32

from penstock.consumers.dead_letters import writer
from penstock.consumers.dead_letters.copy_writer import Copy, CopyResult, CopyWriter, SequencesTaken
from penstock.consumers.dead_letters.redrive import redrive
from penstock.consumers.dead_letters.writer import DeadLetter, DeadLetterWriter, origin_of, original_properties
from penstock.coordinator.queues.cell import QueueCell
from penstock.coordinator.tables import objectstore
from penstock.log import (
    CallError,
    ClockSkewError,
    InternalError,
    LogLake,
    Message,
    MessageType,
    MessageView,
    PenstockError,
    ProducerOptions,
    TopicNotFound,
    TopicSettings,
)
from penstock.log.stores.protocol import ObjectMissing
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from penstock.log.table.delta.delta_log import DeltaLog
from penstock.log.table.publisher import Publisher
from tests.simulation.faults import FaultPlan, RandomFaults
from tests.simulation.kernel import Kernel
from tests.simulation.network import Network
from tests.simulation.patches import Patch, attribute, both
from tests.simulation.process import SimProcess
from tests.simulation.simulated import SimulatedWorld, Stuck, log_uniform
from tests.simulation.table import TABLE_NETWORK

ORIGIN, GROUP, DLQ = "orders", "billing", "%DLQ%billing"
QUIET_S = 40 * 86_400.0
_AT_ONCE = ProducerOptions(linger=timedelta(0))


T = TypeVar("T")
Work = Callable[[LogLake, SimProcess], Coroutine[Any, Any, None]]


class Lost(Exception):
    """The queue has another owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """How large a run is."""

    queues: int = 2
    messages: int = 12
    letters: int = 10
    """That each queue's owners give up before they rest, at least."""
    owners: int = 3
    redrivers: int = 2
    choosing: bool = False
    """Whether redrivers leave some letters to others, so that what goes back is in no order."""
    resets: int = 1
    think_s: tuple[float, float] = (0.01, 3.0)
    pause_s: tuple[float, float] = (0.05, 900.0)
    blows_every_s: float = 20.0
    """Crashes and pauses of processes, whatever they are doing; 0: none."""
    faults_end_s: float = 400.0
    veiled: float = 0.0
    """How often a process cannot read the tables' files for a while. Redrivers publish what there is then."""


VEILED = Plot(veiled=0.6, blows_every_s=4.0)


@dataclass(slots=True)
class Evidence:
    """What the owners were told and the topics hold in the end."""

    given: dict[tuple[int, int], int] = field(default_factory=dict)
    """The offset that each (queue, sequence) was given to."""
    origin: list[MessageView] = field(default_factory=list)
    dead: list[MessageView] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def counting_found(counts: Counter[str]) -> Patch:
    """Count the dead letters that an owner found written when it came to write them."""

    def make(original: Any) -> Any:
        async def write(self: CopyWriter, copies: list[Copy]) -> CopyResult:
            written: CopyResult = await original(self, copies)
            counts["found written"] += written.duplicates * (writer.SEQUENCE in self._marks)
            return written

        return write

    return attribute(CopyWriter, "write", make)


class Graveyard(SimulatedWorld):
    """One run."""

    rest_s = (0.01, 60.0)

    is_careful = True
    """Whether owners give a sequence before they write; else the cell hears of it afterwards."""

    def __init__(self, seed: int | str, *, plot: Plot, plan: FaultPlan | None = None) -> None:
        store = Network(pause_s=plot.pause_s, late_s=(1.0, 600.0))
        super().__init__(seed, store=store, table=TABLE_NETWORK, plans=(plan, None), drift=0.05, max_steps=1_500_000)
        self.plot = plot
        self.cells = {queue: QueueCell() for queue in range(plot.queues)}
        self.evidence = Evidence()
        self._veils: dict[str, _Veiled] = {}
        self._resets_left = plot.resets
        self._buried = False

    def _setting(self) -> AbstractContextManager[None]:
        # The store is known to keep its promises, as in `small_log`.
        return both(attribute(objectstore, "probe_conditional_writes", lambda _: _no_probe), counting_found(self.counts))()

    def _judged(self) -> list[str]:
        return [*self.evidence.wrong, *judge(self)]

    async def _come_to_rest(self) -> None:
        await self._settle()
        await self._as("auditor", self._audit)

    async def _main(self) -> None:
        await self._as("founder", self._found)
        self.store.plan, _ = self._plans
        owners = [asyncio.ensure_future(self._lives(f"owner{n}", self._own)) for n in range(self.plot.owners)]
        redrivers = [asyncio.ensure_future(self._lives(f"redriver{n}", self._redrive)) for n in range(self.plot.redrivers)]
        blows = asyncio.ensure_future(self._struck())
        await asyncio.wait([*owners, asyncio.ensure_future(asyncio.sleep(self.plot.faults_end_s))], return_when="FIRST_COMPLETED")
        blows.cancel()
        self._end_faults(*self._plans)
        for group in (owners, redrivers):
            done, late = await asyncio.wait(group, timeout=QUIET_S) if group else (set(), set())
            if late:
                raise Stuck(f"no progress in quiet\n{self.kernel.loop.pending()}")
            await asyncio.gather(*done)
            self._buried = True
        await self._come_to_rest()

    def lake(self, process: SimProcess) -> LogLake:
        store = self._veils[process.name] = _Veiled(self.store.client(process))
        return LogLake(store, runtime=process.runtime)

    def _veil(self, process: SimProcess, *, end: bool = False) -> None:
        """Begin or end a while in which a process cannot read the tables' files."""
        if self.plot.veiled:
            veil = self._veils[process.name]
            rng = process.runtime.random
            veil.salt = rng.randrange(1, 1 << 32) if not end and rng.random() < self.plot.veiled else 0
            self.counts["veiled"] += bool(veil.salt)

    async def _struck(self) -> None:
        rng = self.kernel.rng("nemesis")
        while self.plot.blows_every_s:
            await asyncio.sleep(rng.expovariate(1 / self.plot.blows_every_s))
            process = rng.choice(list(self.others.values()))
            if rng.random() < 0.5:
                process.crash()
            else:
                process.pause(log_uniform(rng, *self.plot.pause_s))

    # --- What processes do ------------------------------------------------------------------------------------------------------

    async def _found(self, process: SimProcess) -> None:
        lake = self.lake(process)
        await lake.create_topic(ORIGIN, TopicSettings(message_type=MessageType.FIFO, queues=self.plot.queues))
        producer = await lake.producer(ORIGIN, options=_AT_ONCE)
        for queue in range(self.plot.queues):
            for n in range(self.plot.messages):
                message = Message(
                    b"%d/%d" % (queue, n),
                    message_group=f"g{n % 3}",
                    properties={"n": str(n), **({"REDRIVE_OFFSET": "mine"} if n % 2 else {})},
                )
                await producer.send(message, queue=queue)
        await lake.close()

    async def _own(self, process: SimProcess) -> None:
        lake = self.lake(process)
        rng = process.runtime.random
        while unfinished := [queue for queue, cell in self.cells.items() if not self._is_done(cell)]:
            self._veil(process)
            try:
                await self._bury(lake, process, rng.choice(unfinished))
            except Lost:
                self.counts["queue lost"] += 1
            except PenstockError as error:
                self._expect(process, error)
                await asyncio.sleep(log_uniform(rng, 0.05, 5.0))
        self._veil(process, end=True)
        with suppress(PenstockError):
            await lake.close()

    async def _bury(self, lake: LogLake, process: SimProcess, queue: int) -> None:
        """Own a queue for a while."""
        rng = process.runtime.random
        assert isinstance(rng, random.Random)
        cell = self.cells[queue] = self.cells[queue].taken_by(process.name)
        epoch = cell.epoch
        self.counts["taken with letters assigned"] += bool(cell.dead_letters.assigned)
        writer = DeadLetterWriter(lake, GROUP, ORIGIN, queue)
        try:
            while not self._is_done(cell) and rng.random() > 0.1:
                more = [] if self._is_enough(cell) else await self._next_offsets(lake, queue, cell, rng.randint(1, 4))
                if self.is_careful:
                    cell = await self.change(queue, epoch, _giving(more))
                    letters = cell.dead_letters.sequences()
                else:
                    letters = cell.with_dead_letters(more).dead_letters.sequences()
                await self._write(lake, queue, writer, letters, epoch)
                if not self.is_careful:
                    cell = await self.change(queue, epoch, _giving(more))
                buried = letters[-1][1]
                cell = await self.change(queue, epoch, _burying(buried))
                await asyncio.sleep(log_uniform(rng, *self.plot.think_s))
                if self._resets_left and rng.random() < 0.2:
                    self._resets_left -= 1
                    self.counts["reset"] += 1
                    self.cells[queue] = self.cells[queue].reset_to(0, cell.generation + 1)
        finally:
            await writer.close()

    async def letters(self, lake: LogLake, queue: int, given: list[tuple[int, int]]) -> list[DeadLetter]:
        """The dead letters of these (offset, sequence)."""
        offsets = [offset for offset, _ in given]
        reader = await lake.reader(ORIGIN)
        messages = {m.offset: m async for m in reader.messages(queue=queue, start=min(offsets), end=max(offsets) + 1)}
        return [DeadLetter(sequence, messages[offset], 3, "boom") for offset, sequence in given]

    async def _write(self, lake: LogLake, queue: int, writer: DeadLetterWriter, given: list[tuple[int, int]], epoch: int) -> None:
        try:
            await writer.write(await self.letters(lake, queue, given))
        except SequencesTaken:
            if self.cells[queue].epoch == epoch:
                raise
            raise Lost from None

    async def _next_offsets(self, lake: LogLake, queue: int, cell: QueueCell, count: int) -> list[int]:
        first = cell.settled.floor
        reader = await lake.reader(ORIGIN)
        _, following = (await reader.offsets())[queue]
        return list(range(first, min(first + count, following)))

    async def change(self, queue: int, epoch: int, change: Callable[[QueueCell], QueueCell]) -> QueueCell:
        """A write of the cell, which takes a moment; only for who took it last."""
        await asyncio.sleep(0.005)
        before = self.cells[queue]
        if before.epoch != epoch:
            raise Lost
        cell = self.cells[queue] = change(before)
        for offset, sequence in cell.dead_letters.sequences():
            if self.evidence.given.setdefault((queue, sequence), offset) != offset:
                self.evidence.wrong.append(f"sequence {sequence} of queue {queue} was given twice")
        await asyncio.sleep(0.005)
        return cell

    async def _redrive(self, process: SimProcess) -> None:
        lake = self.lake(process)
        rng = process.runtime.random
        while True:
            finish = self._buried
            try:
                limit, odd = (None, None) if finish else (rng.choice([None, 1, 3]), rng.randrange(2))
                where = _half(odd) if self.plot.choosing and odd is not None else None
                self._veil(process, end=True)
                if self.plot.veiled:
                    await _publish(lake)
                self._veil(process, end=finish)
                report = await redrive(lake, GROUP, limit=limit, where=where, damaged="skip" if self.plot.veiled else "raise")
                self.counts["redriven"] += report.sent
                self.counts["found redriven"] += report.duplicates
            except PenstockError as error:
                self._expect(process, error)
            else:
                if finish:
                    break
            await asyncio.sleep(log_uniform(rng, 1.0, 100.0))
        with suppress(PenstockError):
            await lake.close()

    async def _audit(self, process: SimProcess) -> None:
        lake = self.lake(process)
        for topic, found in ((ORIGIN, self.evidence.origin), (DLQ, self.evidence.dead)):
            reader = await lake.reader(topic)
            found += sorted([one async for one in reader.messages()], key=lambda one: (one.queue, one.offset))
        await lake.close()

    def _is_enough(self, cell: QueueCell) -> bool:
        return cell.dead_letters.next_sequence >= self.plot.letters

    def _is_done(self, cell: QueueCell) -> bool:
        return self._is_enough(cell) and not cell.dead_letters.assigned

    def _expect(self, process: SimProcess, error: PenstockError) -> None:
        """Note what nothing here explains; who is paused while the store tells the time refuses to write."""
        self.counts[f"error: {error.kind}"] += 1
        if isinstance(error, CallError | InternalError) and not isinstance(error, TopicNotFound | ClockSkewError):
            self.evidence.wrong.append(f"{process.name}: {error.kind}: {error}")


class _Veiled(StoreWrapper):
    """A store in which half the files of tables cannot be found for a while."""

    salt = 0
    """Which half; 0: all are there."""

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        is_file = call.verb == "get" and call.key.endswith(".parquet") and "/log/" not in call.key
        if self.salt and is_file and crc32(call.key.encode(), self.salt) % 2:
            raise ObjectMissing("there is no such object", operation="get", object=call.key)
        return await run()


async def _publish(lake: LogLake) -> None:
    for name in await lake.topics():
        topic = await lake.topic(name)
        delta = DeltaLog(lake.store, topic.paths, topic.record.table, topic.runtime)
        publisher = Publisher(lake.store, topic.paths, topic.record, topic.runtime, delta=delta)
        while not (await publisher.publish_once()).caught_up:
            pass


def _half(remainder: int) -> Callable[[MessageView], bool]:
    return lambda letter: letter.offset % 2 == remainder


async def _no_probe(*_: object) -> None:
    return None


def _giving(offsets: list[int]) -> Callable[[QueueCell], QueueCell]:
    return lambda cell: cell.with_dead_letters(offsets)


def _burying(sequence: int) -> Callable[[QueueCell], QueueCell]:
    return lambda cell: cell.with_dead_letters_written(sequence)


def judge(run: Graveyard) -> list[str]:
    """What is wrong in the end: every letter once, in order, and what it was; every one back once, in order, and what it was."""
    wrong: list[str] = []
    evidence = run.evidence
    origin = {(one.queue, one.offset): one for one in evidence.origin}
    for queue, cell in run.cells.items():
        mine = ((one, origin_of(one.properties)) for one in evidence.dead)
        written = [one for one, where in mine if where is not None and where.queue == queue]
        sequences = [int(one.properties["DLQ_SEQUENCE"]) for one in written]
        if sequences != list(range(cell.dead_letters.next_sequence)):
            wrong.append(f"the letters of queue {queue} are {sequences}, of {cell.dead_letters.next_sequence}")
        for sequence, dead in zip(sequences, written, strict=True):
            message = origin.get((queue, evidence.given.get((queue, sequence), -1)))
            if message is None or not _is_same(message, dead) or original_properties(dead.properties) != message.properties:
                wrong.append(f"letter {sequence} of queue {queue} is not the message that it was given to")
    if run.plot.redrivers:
        wrong += _judge_redriven(evidence, in_order=not (run.plot.choosing or run.plot.veiled))
    return wrong


def _judge_redriven(evidence: Evidence, *, in_order: bool) -> list[str]:
    wrong: list[str] = []
    back = [(int(one.properties["REDRIVE_OFFSET"]), one) for one in evidence.origin if one.producer.startswith("redrive/")]
    if sorted(offset for offset, _ in back) != list(range(len(evidence.dead))):
        wrong.append(f"of {len(evidence.dead)} letters these went back: {sorted(offset for offset, _ in back)}")
        return wrong
    for queue in {one.queue for _, one in back}:
        offsets = [offset for offset, one in back if one.queue == queue]
        if in_order and offsets != sorted(offsets):
            wrong.append(f"letters went back to queue {queue} out of order: {offsets}")
    origin = {(one.queue, one.offset): one for one in evidence.origin}
    for offset, one in back:
        dead = evidence.dead[offset]
        where = origin_of(dead.properties)
        assert where is not None, "each letter tells its origin, or went not back"
        given_up = origin[where.queue, where.offset]
        expected = {**given_up.properties}
        if not given_up.producer.startswith("redrive/") and "REDRIVE_OFFSET" in expected:
            expected["DLQ_REDRIVE_OFFSET"] = expected["REDRIVE_OFFSET"]
        expected["REDRIVE_OFFSET"] = str(offset)
        if not _is_same(dead, one) or one.properties != expected:
            wrong.append(f"what went back of letter {offset} is another message")
    return wrong


def _is_same(one: MessageView, other: MessageView) -> bool:
    return (one[3:7], one.body, one.born_timestamp) == (other[3:7], other.body, other.born_timestamp)


def graveyard(seed: int | str, *, rate: float = 0.05, plot: Plot | None = None) -> Graveyard:
    """A run with some kinds of fault; none with a rate of 0."""
    plan = RandomFaults.swarm(Kernel(seed).rng, rate=rate) if rate else None
    plot = plot or Plot()
    return Graveyard(seed, plot=plot if rate else replace(plot, blows_every_s=0.0), plan=plan)
