"""A world in which topics and groups are deleted and made again under everything: what is of one life is never taken for another's.

Each body is one message's for ever, so whatever is done with it is seen to be done with that one. The rules: L1 a dead letter is the message
that its sequence was given to, and was given up; L2 what was given up has a dead letter, or is counted as lost; L3 what the last life's topic
holds was done or given up; L4 an offset is settled by who had the message of that life at it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from penstock.consumers.handlers.results import ConsumeResult
from penstock.consumers.membership import Subscription
from penstock.consumers.simple import SimpleConsumer, SimpleOptions
from penstock.coordinator.groups.record import DeliveryOrder, GroupExists, GroupRecord
from penstock.coordinator.operators.operators import Operators
from penstock.coordinator.queues.cell import QueueCell
from penstock.log.errors import CallError, InternalError, PenstockError, TopicDeleted, TopicExists, TopicNotFound
from penstock.log.lake import LogLake
from penstock.log.message.message import Message, MessageView
from penstock.log.message.message_type import MessageType
from penstock.log.topic.settings import TopicSettings
from tests.simulation.consumers.plot import TOPIC
from tests.simulation.consumers.records import Line
from tests.simulation.consumers.witness import Witness
from tests.simulation.consumers.world import _DLQ_SEQUENCE, _PROMPT, Consuming
from tests.simulation.faults import Call, Fault, FaultPlan
from tests.simulation.process import SimProcess
from tests.simulation.simulated import log_uniform

GROUP = "billing"
_LETTERS = f"%DLQ%{GROUP}"
_EXPECTED = frozenset(
    {"topic_not_found", "topic_deleted", "topic_exists", "group_not_found", "group_deleted", "group_exists", "group_in_use"}
)
"""Errors of calls that deletions explain; and of receipt handles, below."""
_REFUSED = frozenset({"receipt_expired", "already_settled", "receipt_outdated", "receipt_ahead", "foreign_receipt"})
_KINDS = ("good", "good", "good", "good", "slow", "fails", "bad", "bad")


@dataclass(frozen=True, slots=True)
class _Wrote:
    """A cell that was written, and the life of the topic that it is of; None: of a queue that the topic has no more."""

    line: Line
    before: QueueCell
    after: QueueCell
    life: int | None


@dataclass(slots=True)
class _Told:
    """What was seen, in order."""

    events: list[_Wrote | bytes] = field(default_factory=list)
    """Bytes: a message that was done, or is about to be acknowledged, from here on."""
    given_up: set[bytes] = field(default_factory=set)
    """A handler rejected these, or a receiver let them expire."""
    bodies: dict[tuple[int, int, int], bytes] = field(default_factory=dict)
    """By life, queue and offset."""


class _Outage:
    """Dead letters cannot be written while it lasts; what else goes wrong another plan says."""

    def __init__(self, plan: FaultPlan | None) -> None:
        self.on = False
        self.plan = plan

    def decide(self, call: Call) -> Fault | None:
        if self.on and call.verb == "put" and "dlq." in call.key:
            return Fault.UNAVAILABLE
        return None if self.plan is None else self.plan.decide(call)


class _LivesWitness(Witness):
    """Knows of which life every generation is."""

    def __init__(self, told: _Told, *args: Any) -> None:
        super().__init__(*args)
        self._told = told
        self._life_of: dict[tuple[int, int], int] = {}
        self._cells_at_begin: dict[int, frozenset[int]] = {}

    def _saw_record(self, group: str, record: GroupRecord) -> None:
        super()._saw_record(group, record)
        for position in record.positions.values():
            self._cells_at_begin.setdefault(position.life, frozenset(queue for _, _, queue in self.cells))
            for queue, generation in enumerate(position.generations):
                self._life_of[queue, generation] = position.life

    def life_of(self, queue: int, cell: QueueCell) -> int | None:
        """The topic's life that a cell is of."""
        return self._life_of.get((queue, cell.generation))

    def had_cell(self, queue: int, life: int) -> bool:
        """Whether a queue had a cell when the group began a life: whoever begins voids it, if that life has no such queue."""
        return queue in self._cells_at_begin.get(life, ())

    def _saw_cell(self, key: str, body: bytes) -> None:
        line = self._lines[key]
        before = self.cells.get(line, QueueCell())
        super()._saw_cell(key, body)
        after = self.cells[line]
        self._told.events.append(_Wrote(line, before, after, self.life_of(line[2], after)))


class Lives(Consuming):
    """One run of it; of the plot, ``queues`` are the most that a life of the topic has."""

    def __init__(self, seed: int | str, *args: Any, **more: Any) -> None:
        super().__init__(seed, *args, **more)
        self._told = _Told()
        lines: list[Line] = [(GROUP, TOPIC, queue) for queue in range(self.plot.queues)]
        self.witness = self._witness = _LivesWitness(self._told, self.history, self.kernel.loop, lines, self.store.memory)
        self.table.memory = self.witness
        self._outage = _Outage(self._plans[0])
        self.behave = self._behave
        self._sent = 0
        self._letters_lost = False
        """The dead-letter queue itself was deleted."""
        self._settled = False
        """Topic and group live on from here."""
        self._counts_known: dict[int, int] = {}
        self._letters: list[tuple[int, int, bytes]] = []
        """Queue, sequence and body of each that stands."""
        self._life = -1

    def _judged(self) -> list[str]:
        return [*self.history.wrong, *self._judge()]

    async def _main(self) -> None:
        await self._as("founder", self._found)
        self.store.plan, self.table.plan = self._outage, self._plans[1]
        for machine in self.machines:
            machine.start()
        producing = asyncio.ensure_future(self._lives("producer", self._produce))
        receiving = asyncio.ensure_future(self._lives("receiver", self._receive))
        striking = asyncio.ensure_future(self._struck())
        ruling = asyncio.ensure_future(self._lives("ruler", self._rule))
        breaking = asyncio.ensure_future(self._break())
        lives = [life for machine in self.machines if (life := machine.life) is not None]
        done, _ = await asyncio.wait(lives, timeout=self.plot.faults_end_s, return_when=asyncio.FIRST_EXCEPTION)
        for life in done:
            life.result()
        self._calm((striking, breaking))
        self._outage.on = False
        await self._within(self.plot.quiet_s, ruling, "the ruler")
        await self._within(self.plot.quiet_s, producing, "the producer")
        await self._within(self.plot.quiet_s, receiving, "the receiver")
        await self._settle()
        await self._as("looker", self._look)
        await self._all_settled(self.now_s)
        await self._stop_machines()
        self.store.plan = self.table.plan = None
        await self._as("auditor", self._audit)
        self.counts["simulated seconds"] += round(self.now_s)

    def unsettled(self) -> list[str]:
        left = []
        for queue in range(self.plot.queues):
            cell = self.witness.cells.get((GROUP, TOPIC, queue))
            if cell is not None and cell.dead_letters.assigned and not self._is_taken_late(queue):
                left.append(f"queue {queue}: {cell.dead_letters}")
            count = self._counts_known.get(queue, 0)
            if not count:
                continue
            if cell is None or self.witness.is_behind((GROUP, TOPIC, queue)) or self._witness.life_of(queue, cell) != self._life:
                left.append(f"queue {queue} was not taken in this life: {cell}")
            elif cell.settled.floor < count or cell.tries or cell.markers:
                left.append(f"queue {queue}: {cell}")
        return left

    def _is_taken_late(self, queue: int) -> bool:
        """Whether a former owner took a queue that the last life has no more, and that nobody had taken before: a limit of note 0016."""
        return queue not in self._counts_known and not self._witness.had_cell(queue, self._life)

    # --- Who does what ----------------------------------------------------------------------------------------------------------

    def _settings(self, rng: random.Random) -> TopicSettings:
        return TopicSettings(message_type=MessageType.NORMAL, queues=rng.randint(1, self.plot.queues))

    async def _found(self, process: SimProcess) -> None:
        lake, coordination = self.lake(process), self.coordination(process)
        await lake.create_topic(TOPIC, self._settings(self.kernel.rng("founding")))
        await coordination.groups.create(GROUP, self.plot.groups[GROUP].settings)
        await coordination.close()
        await lake.close()

    async def _behave(self, _: SimProcess, message: MessageView) -> object:
        rng, body = self.kernel.rng(f"message/{message.body!r}"), message.body
        kind = body.split()[0]
        await asyncio.sleep(log_uniform(rng, 1.0, 12.0) if kind == b"slow" else log_uniform(rng, *self.plot.work_s))
        if kind == b"bad":
            self._told.given_up.add(body)
            return ConsumeResult.DEAD_LETTER
        if kind == b"fails" and message.delivery_attempt == 1:
            return ConsumeResult.FAILURE
        self._told.events.append(body)
        return ConsumeResult.SUCCESS

    async def _produce(self, process: SimProcess) -> None:
        rng = self.kernel.rng(f"producing/{process.name}")
        lake = self.lake(process)
        last = False
        while not last:
            last = self._settled  # once more, for the life that stays
            with suppress(PenstockError):
                await self._send_some(lake, rng)
            await asyncio.sleep(rng.expovariate(0.7))
        with suppress(PenstockError):
            await lake.close()

    async def _send_some(self, lake: LogLake, rng: random.Random) -> None:
        topic = await lake.topic(TOPIC)
        producer = await lake.producer(TOPIC, options=_PROMPT)
        try:
            if await lake.topic(TOPIC) is not topic:
                return
            sent = []
            for _ in range(rng.randint(1, 8)):
                body = f"{rng.choice(_KINDS)} {self._sent}".encode()
                self._sent += 1
                sent.append((body, producer.send(Message(body))))
            for body, receipt in sent:
                with suppress(PenstockError):
                    result = await receipt
                    if result.queue is not None and result.offset is not None:
                        self._told.bodies[topic.life, result.queue, result.offset] = body
        finally:
            with suppress(PenstockError):
                await producer.close()

    async def _receive(self, process: SimProcess) -> None:
        """A member that takes messages now and then, keeps some handles for long, and lets some messages expire."""
        rng = self.kernel.rng(f"receiving/{process.name}")
        lake, coordination = self.lake(process), self.coordination(process)
        kept: list[MessageView] = []
        while not self.quiet:
            await asyncio.sleep(rng.expovariate(0.3))
            stated = {"delivery_order": self.plot.groups[GROUP].order}
            consumer = SimpleConsumer(
                lake, coordination, group=GROUP, subscriptions={TOPIC: Subscription()}, stated=stated, options=SimpleOptions()
            )
            try:
                await consumer.start()
                for _ in range(rng.randint(1, 6)):
                    found = await consumer.receive(4, timedelta(seconds=10), timedelta(seconds=2))
                    for message in (*found, *kept):
                        await self._answer(consumer, message, kept, rng)
            except PenstockError as error:
                self.check_expected("receiver", error)
            with suppress(PenstockError):
                await consumer.close()
        for work in (coordination.close(), lake.close()):
            with suppress(PenstockError):
                await work

    async def _answer(self, consumer: SimpleConsumer, message: MessageView, kept: list[MessageView], rng: random.Random) -> None:
        if message.body.startswith(b"bad") or rng.random() < 0.2:
            self._told.given_up.add(message.body)
        elif rng.random() < 0.4:
            if message not in kept:
                kept.append(message)
            self._told.given_up.add(message.body)
        else:
            if message in kept:
                kept.remove(message)
            self._told.events.append(message.body)
            try:
                await consumer.ack(message)
            except PenstockError as error:
                if error.kind not in _REFUSED:
                    raise
                self.counts[f"refused: {error.kind}"] += 1

    async def _break(self) -> None:
        rng = self.kernel.rng("breaking")
        while self.plot.orders_every_s:
            await asyncio.sleep(rng.expovariate(1 / 8))
            self._outage.on = True
            self.counts["outage of the dead-letter queue"] += 1
            await asyncio.sleep(log_uniform(rng, 1.0, 15.0))
            self._outage.on = False

    async def _rule(self, process: SimProcess) -> None:
        """Delete and make again."""
        rng = self.kernel.rng(f"ruling/{process.name}")
        lake, coordination = self.lake(process), self.coordination(process)
        operators = Operators(lake, coordination)
        while self.plot.orders_every_s and not self.quiet:
            await asyncio.sleep(rng.expovariate(1 / self.plot.orders_every_s))
            what = rng.choices(["topic", "group", "reset", "letters"], [5, 3, 1, 0.3])[0]
            try:
                if what == "topic":
                    await lake.delete_topic(TOPIC)
                    await asyncio.sleep(rng.choice([0.0, log_uniform(rng, 0.1, 8.0)]))
                    await lake.create_topic(TOPIC, self._settings(rng))
                elif what == "group":
                    await operators.delete(GROUP, force=rng.random() < 0.7)
                    await asyncio.sleep(rng.choice([0.0, log_uniform(rng, 0.1, 8.0)]))
                elif what == "reset":
                    await operators.reset(GROUP, TOPIC, "earliest")
                else:
                    self._letters_lost = True
                    await lake.delete_topic(_LETTERS)
                self.counts[f"made again: {what}"] += 1
            except PenstockError as error:
                self.check_expected("ruler", error)
        while True:
            try:
                with suppress(TopicExists):
                    await lake.create_topic(TOPIC, self._settings(rng))
                settings = self.plot.groups[GROUP].settings
                try:
                    await operators.create(GROUP, settings)
                except GroupExists:
                    await operators.alter(GROUP, max_attempts=settings.max_attempts, retry=settings.retry)
                break
            except PenstockError as error:
                self.check_expected("ruler", error)
                await asyncio.sleep(1.0)
        self._settled = True
        for work in (coordination.close(), lake.close()):
            with suppress(PenstockError):
                await work

    async def _look(self, process: SimProcess) -> None:
        lake = self.lake(process)
        topic = await lake.topic(TOPIC)
        reader = await lake.reader(TOPIC)
        self._life = topic.life
        async for message in reader.messages():
            self._told.bodies[topic.life, message.queue, message.offset] = message.body
        self._counts_known = {queue: following for queue, (_, following) in (await reader.offsets()).items()}
        await lake.close()

    async def _audit(self, process: SimProcess) -> None:
        """The dead letters, by queue and sequence."""
        lake = self.lake(process)
        with suppress(TopicNotFound):
            async for message in (await lake.reader(_LETTERS)).messages():
                queue, sequence = int(message.properties["DLQ_ORIGIN_QUEUE"]), int(message.properties[_DLQ_SEQUENCE])
                self._letters.append((queue, sequence, message.body))
        await lake.close()

    def check_expected(self, who: str, error: PenstockError, *, allowed: bool = False, begun: bool = False) -> None:
        self.counts[f"error: {error.kind}"] += 1
        fine = allowed or error.kind in _EXPECTED or isinstance(error, TopicDeleted)
        if isinstance(error, InternalError) or (isinstance(error, CallError) and not fine):
            self.history.wrong.append(f"{who}: {error.kind}: {error}")

    # --- The judge --------------------------------------------------------------------------------------------------------------

    def _judge(self) -> Iterator[str]:
        told, done = self._told, set[bytes]()
        orderly = self.plot.groups[GROUP].order is DeliveryOrder.ORDERLY
        given: dict[tuple[int, int], bytes | None] = {}
        last: dict[int, QueueCell] = {}
        for event in told.events:
            if isinstance(event, bytes):
                done.add(event)
                continue
            queue, last[event.line[2]] = event.line[2], event.after
            letters = event.after.dead_letters.sequences()
            for offset, sequence in letters:
                body = None if event.life is None else told.bodies.get((event.life, queue, offset))
                given.setdefault((queue, sequence), body)
            if event.life is not None and not orderly:
                yield from self._judge_settled(event, done, {offset for offset, _ in letters})
        seen = set[tuple[int, int]]()
        for queue, sequence, body in self._letters:
            if (queue, sequence) in seen:
                yield f"L1 dead letter {sequence} of queue {queue} stands twice"
            seen.add((queue, sequence))
            if given.get((queue, sequence), b"never given") not in {None, body}:
                yield f"L1 dead letter {sequence} of queue {queue} is {body!r}, and was given to {given.get((queue, sequence))!r}"
            if body not in told.given_up:
                yield f"L1 {body!r} is a dead letter, and nobody gave it up"
        missing = sorted(given.keys() - seen)
        lost = sum(cell.dead_letters.lost for cell in last.values())
        lost += sum(len(cell.dead_letters.assigned) for queue, cell in last.items() if self._is_taken_late(queue))
        self.counts["dead letters"] += len(seen)
        self.counts["lost letters"] += lost
        if len(missing) > lost and not self._letters_lost:
            yield f"L2 these were given up, have no dead letter, and only {lost} are told as lost: {missing}"
        for (life, queue, offset), body in told.bodies.items():
            if life == self._life and body not in done and body not in told.given_up:
                yield f"L3 {body!r} at {queue}/{offset} of the life that stays was neither done nor given up"

    def _judge_settled(self, event: _Wrote, done: set[bytes], letters: set[int]) -> Iterator[str]:
        before = event.before if event.before.generation == event.after.generation else QueueCell()
        for (life, queue, offset), body in self._told.bodies.items():
            if (life, queue) != (event.life, event.line[2]) or not _is_done(event.after, offset) or _is_done(before, offset):
                continue
            if body not in done and offset not in letters:
                yield f"L4 {body!r} at {queue}/{offset} of life {life} was settled, and nobody had done it"


def _is_done(cell: QueueCell, offset: int) -> bool:
    return offset in cell.settled and offset not in cell.tries and offset not in cell.granted
