"""What applications and operators do in a run with timed messages: they send, recall, list, maintain and delete."""

from __future__ import annotations

import asyncio
import itertools
import random
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from penstock.coordinator.cells.cells import Cells
from penstock.coordinator.timers.cell.state import DuePosition, NotRecallable
from penstock.coordinator.timers.waiting_messages import recall, waiting
from penstock.log.errors import ClockSkewError, PenstockError, TopicDeleted, TopicNotFound, UnknownOutcome
from penstock.log.lake import LogLake
from penstock.log.message.message import Message
from penstock.log.message.message_type import MessageType
from penstock.log.produce.accumulator import ProducerOptions
from penstock.log.produce.delays import RecallHandle
from penstock.log.produce.producer import Producer
from penstock.log.produce.receipts import Receipt
from penstock.log.topic.settings import TopicSettings
from tests.simulation.process import SimProcess
from tests.simulation.simulated import log_uniform
from tests.simulation.timers.plot import TOPIC
from tests.simulation.timers.records import Listed, Outcome, Recalled, Sent
from tests.simulation.timers.upkeep import maintain

if TYPE_CHECKING:
    from tests.simulation.timers.world import Timing

PROMPT = ProducerOptions(linger=timedelta(0), delivery_timeout=timedelta(seconds=60))
_DAY_S = 86_400.0
_GONE = (TopicNotFound, TopicDeleted, ClockSkewError)
"""What befalls who writes while the topic is deleted, or on a machine whose clock is wrong."""


class Actors:
    """Those of one world. Each method is one process's work, which begins anew when it crashes."""

    def __init__(self, world: Timing) -> None:
        self._world = world
        self._numbers = itertools.count(1)

    # --- Sending

    async def send_all(self, process: SimProcess) -> None:
        rng, lake = self._world.kernel.rng("sending"), self._world.lake(process)
        while self._left():
            try:
                producer = await lake.producer(TOPIC, options=PROMPT)
            except PenstockError as error:
                self._world.check_expected("sender", error, allowed=isinstance(error, _GONE))
                await asyncio.sleep(1.0)
                continue
            fine = True
            while fine and (left := self._left()) > 0:
                fine = await self._send_some(producer, rng, min(left, rng.randint(*self._world.plot.burst)))
                await asyncio.sleep(rng.expovariate(self._world.plot.messages / 3 / self._world.plot.send_for_s))
            with suppress(PenstockError):
                await producer.close()
            await asyncio.sleep(0.1)
        with suppress(PenstockError):
            await lake.close()

    def _left(self) -> int:
        return self._world.plot.messages - len(self._world.history.sent)

    async def _send_some(self, producer: Producer, rng: random.Random, count: int) -> bool:
        """Whether the producer may go on."""
        receipts: list[tuple[Sent, Receipt]] = []
        fine = True
        for _ in range(count):
            sent = self.new_message(rng)
            self._world.history.sent[sent.body] = sent
            try:
                receipts.append((sent, producer.send(message_of(sent), queue=sent.queue)))
            except PenstockError as error:
                sent.outcome, fine = Outcome.FAILED, False
                self._world.check_expected("sender", error, allowed=isinstance(error, _GONE))
        for sent, receipt in receipts:
            fine &= await self.told(sent, receipt)
        return fine

    async def told(self, sent: Sent, receipt: Receipt) -> bool:
        """Note what became of a send; whether it is stored."""
        try:
            result = await receipt
        except PenstockError as error:
            sent.outcome = Outcome.UNKNOWN if isinstance(error, UnknownOutcome) else Outcome.FAILED
            self._world.check_expected("sender", error, allowed=isinstance(error, _GONE))
            return False
        sent.outcome, sent.told_s, sent.message_id = Outcome.DONE, self._world.now_s, result.message_id
        sent.handle = result.recall_handle or ""
        return True

    def new_message(self, rng: random.Random) -> Sent:
        body = f"message {next(self._numbers)}".encode()
        group = f"g{rng.randrange(4)}" if rng.random() < 0.4 else None
        queue = rng.randrange(self._world.plot.queues) if group is None and rng.random() < 0.3 else None
        properties = {"n": str(rng.randrange(9))} if rng.random() < 0.3 else {}
        return Sent(body, self.due_us(rng), queue, group, properties, self._world.now_s)

    def due_us(self, rng: random.Random) -> int:
        """Some in the past, some now, many at equal times."""
        now_us, plot = self._world.now_us(), self._world.plot
        kinds = list(plot.weights)
        kind = rng.choices(kinds, [plot.weights[one] for one in kinds])[0]
        if kind == "past":
            return max(0, now_us - int(1e6 * log_uniform(rng, 0.01, 100 * _DAY_S)))
        if kind == "now":
            return now_us
        due_us = now_us + int(1e6 * log_uniform(rng, *plot.ahead_s))
        slot_us = int(1e6 * plot.slots_s)
        return due_us if kind == "any" else -(-due_us // slot_us) * slot_us

    # --- Recalling and listing

    async def recall_all(self, process: SimProcess) -> None:
        rng = self._world.kernel.rng(f"recalling/{process.name}")
        lake = self._world.lake(process)
        cells = self._world.cells(process, lake)
        while self._world.plot.recalls_every_s and not self._world.quiet:
            await asyncio.sleep(rng.expovariate(1 / self._world.plot.recalls_every_s))
            known = [sent for sent in self._world.history.sent.values() if sent.handle]
            if not known:
                continue
            near = sorted(known, key=lambda sent: abs(sent.due_us - self._world.now_us()))[:4]
            await self.recall(lake, cells, rng.choice(near if rng.random() < 0.7 else known))
        with suppress(PenstockError):
            await lake.close()

    async def recall(self, lake: LogLake, cells: Cells, sent: Sent) -> Outcome:
        """Call a message back, and note what came of it."""
        asked_s, outcome = self._world.now_s, Outcome.UNKNOWN
        handle = RecallHandle.decode(sent.handle)
        place = len(self._world.history.recalled)
        self._world.history.recalled.append(Recalled(sent.body, asked_s, asked_s, outcome))
        try:
            _, log = await lake.timer_log(TOPIC)
            due = DuePosition(handle.due_us, handle.offset)
            if sent.message_id not in await self._ids_of(log.record.incarnation):
                return outcome  # of another life, which `lake.recall` sees by reading the row
            await recall(cells, lake.runtime.clock, TOPIC, log.record.incarnation, due, lake=lake)
        except NotRecallable:
            outcome = Outcome.FAILED
        except PenstockError as error:
            self._world.check_expected("recaller", error, allowed=isinstance(error, _GONE))
        else:
            outcome = Outcome.DONE
        self._world.counts[f"recall: {outcome}"] += 1
        self._world.history.recalled[place] = Recalled(sent.body, asked_s, self._world.now_s, outcome)
        return outcome

    async def _ids_of(self, incarnation: str) -> set[str]:
        """Of all messages that a life of the timer log ever had."""
        lives = await self._world.waited.read()
        return {row.message_id for life in lives if life.incarnation == incarnation for row in life.rows}

    async def list_all(self, process: SimProcess) -> None:
        rng, lake = self._world.kernel.rng(f"listing/{process.name}"), self._world.lake(process)
        cells = self._world.cells(process, lake)
        while self._world.plot.lists_every_s and not self._world.quiet:
            await asyncio.sleep(rng.expovariate(1 / self._world.plot.lists_every_s))
            limit = rng.choice([None, None, 3])
            until_us = rng.choice([None, self._world.now_us() + int(1e6 * log_uniform(rng, 0.1, 60.0))])
            await self.list_waiting(lake, cells, limit=limit, until_us=until_us)
        with suppress(PenstockError):
            await lake.close()

    async def list_waiting(self, lake: LogLake, cells: Cells, *, limit: int | None = None, until_us: int | None = None) -> None:
        asked_s = self._world.now_s
        try:
            found = await waiting(lake, cells, TOPIC, until_us=until_us, limit=limit)
        except PenstockError as error:
            self._world.check_expected("lister", error, allowed=isinstance(error, _GONE))
            return
        self._world.counts["listed"] += 1
        bodies = found.column("body").to_pylist()
        self._world.history.listed.append(Listed(asked_s, self._world.now_s, bodies, limit, until_us))

    # --- Maintaining, deleting

    async def maintain(self, process: SimProcess) -> None:
        rng, lake = self._world.kernel.rng(f"maintaining/{process.name}"), self._world.lake(process)
        while not self._world.quiet:
            await asyncio.sleep(rng.expovariate(1 / self._world.plot.maintained_every_s))
            for step, error in await maintain(lake, self._world.cells(process, lake)):
                self._world.counts[f"maintenance failed: {step}"] += 1
                self._world.check_expected(f"maintenance, {step}", error, allowed=isinstance(error, _GONE))
        with suppress(PenstockError):
            await lake.close()

    async def delete_all(self, process: SimProcess) -> None:
        rng, lake = self._world.kernel.rng(f"deleting/{process.name}"), self._world.lake(process)
        settings = TopicSettings(message_type=MessageType.DELAY, queues=self._world.plot.queues)
        while self._world.counts["topic created again"] < self._world.plot.deletes:
            await asyncio.sleep(rng.expovariate(1 / self._world.plot.deletes_every_s) if not self._world.quiet else 0.1)
            try:
                if rng.random() < 0.9 and not self._world.quiet:
                    with suppress(TopicNotFound):
                        await lake.delete_topic(TOPIC)
                    await asyncio.sleep(log_uniform(rng, 0.001, 5.0))
                await lake.create_topic(TOPIC, settings)
            except PenstockError as error:
                self._world.check_expected("deleter", error, allowed=isinstance(error, _GONE))
            else:
                self._world.counts["topic created again"] += 1
        with suppress(PenstockError):
            await lake.close()


def message_of(sent: Sent) -> Message:
    return Message(
        sent.body,
        message_group=sent.group,
        properties=sent.properties,
        delivery_timestamp=datetime.fromtimestamp(0, UTC) + timedelta(microseconds=sent.due_us),
    )
