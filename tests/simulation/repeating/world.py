"""Clients that receive through members of a group, as through gateways: answers are lost, and a receive is repeated by its attempt id, here
or at another member, while the first one lives, is paused or died. Others renew, acknowledge and give up by handle.

What is out is judged by the cells in the table, but not by the names of receives in them. What must hold: a receive gives just what is out
to its attempt id, with the same handles, if it finds that; nothing is given to two receives, or taken back from who holds it; what is
acknowledged or given up never comes back; attempts and dead letters are counted right; a message group is settled in order; and in the end
everything is settled.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from penstock.consumers.dead_letters.writer import RECONSUME_TIMES
from penstock.consumers.simple import SimpleConsumer
from penstock.coordinator.queues.cell import QueueCell
from penstock.coordinator.queues.receipt_handle import ReceiptHandle, ReceiptRefused
from penstock.log import MessageView
from penstock.log.errors import PenstockError
from tests.consumers.receiving import Member, Scene, out_until_ms
from tests.simulation.faults import Fault, RandomFaults
from tests.simulation.process import EPOCH_MS, Crashed

QUEUES = 2
MESSAGES = 48
CLIENTS = 3
INVISIBLE_S = 12.0


class Delivery(NamedTuple):
    """One delivery of one message."""

    body: str
    generation: int
    attempt: int

    @property
    def message(self) -> tuple[str, int]:
        return self.body, self.generation


class Given(NamedTuple):
    """What a receive gave once."""

    handle: str
    by: int
    """The number of the consumer."""
    at: int
    """The place among all answers."""


@dataclass
class Attempt:
    """What is known of all receives with one attempt id."""

    given: dict[Delivery, Given] = field(default_factory=dict)
    unseen: int = 0
    """Receives whose answers nobody saw: under way, cancelled, or ended with their process."""


class Repeats:
    """One run. Calm: nothing fails, no answer is lost, all is acknowledged in time and in order."""

    def __init__(self, seed: int | str, *, calm: bool = False) -> None:
        self.calm = calm
        self.scene = Scene(seed, queues=QUEUES)
        self.kernel = self.scene.kernel
        self.rng = self.scene.kernel.rng("clients")
        self.orderly = self.rng.random() < 0.6
        self.plan = RandomFaults.swarm(self.scene.kernel.rng, rate=0.03, without=(Fault.SUSPEND_BEFORE, Fault.SUSPEND_AFTER))
        self.bodies = [f"{'abcdefgh'[self.rng.randrange(8)]}{n:03}" for n in range(MESSAGES)]
        self.members: dict[str, Member] = {}
        self.consumers = 0
        self.number_of: dict[Member, int] = {}
        """The numbers of the consumers."""
        self.attempts: defaultdict[str, Attempt] = defaultdict(Attempt)
        self.answers = 0
        self.asked: dict[tuple[str, int], int] = {}
        """The number of answers when a consumer was asked last what is out to a client."""
        self.owner_of: dict[Delivery, str] = {}
        """The attempt id that each delivery was given to."""
        self.promised_ms: dict[Delivery, int] = {}
        """Until when it is out, as the cell said when it was given, unless somebody did something about it."""
        self.acked: dict[tuple[str, int], float] = {}
        """Confirmed as acknowledged or given up, and when."""
        self.invoked: set[tuple[str, int]] = set()
        self.refused: dict[tuple[str, int], set[int]] = defaultdict(set)
        """Attempts at which a message was, or may have been, given up."""
        self.certain: set[tuple[str, int]] = set()
        """Messages that were given up for certain."""
        self.handles: list[tuple[Delivery, str]] = []
        self.wrong: list[str] = []
        self.counts: Counter[str] = Counter()

    def run(self) -> list[str]:
        """Play it, and say what is wrong."""
        self.scene.play(self._script)
        return self.wrong

    # --- Who takes part -----------------------------------------------------------------------------------------------------------

    async def _script(self) -> None:
        producer = self.scene.member("producer")
        await producer.send(*self.bodies[: MESSAGES // 2])
        self.plan.active = not self.calm
        self.scene.table.plan = self.plan
        self.scene.table.network = replace(self.scene.table.network, late_s=(0.5, 30.0), pause_s=(0.1, 20.0))
        lives = [asyncio.ensure_future(self._machine(f"m{n}")) for n in range(3)]
        await self.scene.let_pass(2)
        lives += [asyncio.ensure_future(self._client(f"c{n}")) for n in range(CLIENTS)]
        await producer.send(*self.bodies[MESSAGES // 2 :])
        others = [] if self.calm else [asyncio.ensure_future(self._nemesis()), asyncio.ensure_future(self._operate())]
        await self.scene.let_pass(60)
        for other in others:
            other.cancel()
        self.plan.active = False
        try:
            async with asyncio.timeout(120):
                while not await self.scene.is_settled(MESSAGES):
                    await self.scene.let_pass(1)
        except TimeoutError:
            cells = await self.scene.cells()
            left = [(one.settled.floor, dict(one.tries), dict(one.markers), one.dead_letters.assigned) for one in cells.values()]
            self.wrong.append(f"never settled, at {self.scene.now_s:.0f} s: {left}")
        await self._judge_letters()
        for life in lives:
            if life.done():
                life.result()
            life.cancel()
        await asyncio.wait(lives)

    async def _machine(self, name: str) -> None:
        while True:
            member = self.scene.member(name)
            try:
                order = "ORDERLY" if self.orderly else "CONCURRENT"
                await member.run(member.consume_here(delivery_order=order, max_attempts=None))
                self.consumers += 1
                self.number_of[member] = self.consumers
                self.members[name] = member
                while True:
                    await member.run(self._look(member))
            except Crashed:
                self.counts["crash"] += 1
            except PenstockError as error:
                self.counts[f"ended: {error.kind}"] += 1
                member.process.crash()
            self.members.pop(name, None)
            await self.scene.let_pass(self.rng.uniform(0.5, 5))

    async def _look(self, member: Member) -> None:
        await asyncio.sleep(1)
        if member.consumer.error is not None:
            raise member.consumer.error

    async def _nemesis(self) -> None:
        while True:
            await self.scene.let_pass(self.rng.expovariate(1 / 15))
            if self.members:
                process = self.rng.choice([self.members[name] for name in sorted(self.members)]).process
                if not process.crashed:
                    self.rng.choice((process.crash, partial(process.pause, self.rng.uniform(1, 20))))()

    async def _operate(self) -> None:
        while self.rng.random() < 0.7:
            await self.scene.let_pass(self.rng.uniform(15, 50))
            operator = self.scene.member("operator")
            with suppress(PenstockError, Crashed):
                await operator.run(operator.operators.reset("audit", "orders", "earliest"))
                self.counts["reset"] += 1

    async def _member(self, last: str | None = None) -> tuple[str, Member]:
        while not self.members:
            await self.scene.let_pass(0.5)
        name = last if last in self.members and self.rng.random() < 0.5 else self.rng.choice(sorted(self.members))
        return name, self.members[name]

    # --- Clients ------------------------------------------------------------------------------------------------------------------

    async def _client(self, client: str) -> None:
        number = 0
        last: tuple[str | None, int] = (None, 0)
        while True:
            number += 1
            attempt, tries = f"{client}-{number}", 0
            while True:
                name, member = await self._member(last[0])
                here = (name, self.number_of[member])
                moved, last = last != here, here
                tries += 1
                receiving = asyncio.ensure_future(self._receive(member, client, attempt, moved=moved))
                loses = self.plan.active and self.rng.random() < 0.35
                await asyncio.wait([receiving], timeout=self.rng.uniform(0.01, 6.0) if loses else None)
                if receiving.done() and receiving.result() is not None and not loses:
                    break
                last = (None, 0) if receiving.done() and receiving.result() is None else last
                self.counts["answer lost"] += 1
                await self.scene.let_pass(self.rng.uniform(0.0, 1.0))
            found = receiving.result()
            assert found is not None, "it was answered"
            self.counts["again at another"] += tries > 1 and moved and bool(found)
            for message in found:
                await self._settle(message)
            if not found:
                await self.scene.let_pass(0.5)

    async def _receive(self, member: Member, client: str, attempt: str, *, moved: bool) -> list[MessageView] | None:
        """One receive at a member, judged when it is answered. None: it was not."""
        known, consumer = self.attempts[attempt], member.consumer
        asks = moved and (self.rng.random() < 0.7 or not self.plan.active)
        cancels_s = self.rng.uniform(0.0, 0.3) if self.plan.active and self.rng.random() < 0.15 else None
        most = self.rng.choice((1, 3, 8))

        async def receive() -> tuple[list[MessageView], Before]:
            if asks:
                asked = self.answers
                await consumer.deliveries(client)
                self.asked[client, self.number_of[member]] = asked
            before = await self._before(member, client)
            wait = timedelta(seconds=3)
            receiving = asyncio.ensure_future(
                consumer.receive(most, timedelta(seconds=INVISIBLE_S), wait, attempt_id=attempt, holder=client)
            )
            if cancels_s is not None:
                await asyncio.wait([receiving], timeout=cancels_s)
                receiving.cancel()
            return await receiving, before

        known.unseen += 1
        try:
            found, before = await member.run(receive())
        except (Crashed, PenstockError, asyncio.CancelledError) as error:
            self.counts[f"not answered: {type(error).__name__}"] += 1
            return None
        known.unseen -= 1
        self.answers += 1
        await self._judge(member, attempt, self.answers, found, before)
        return found

    async def _settle(self, message: MessageView) -> None:
        handle = ReceiptHandle.decode(message.receipt_handle)
        delivery = Delivery(message.body.decode(), handle.generation, handle.attempt)
        chance = self.rng.random()
        if chance < 0.1 and self.plan.active:
            self.counts["left"] += 1
        elif chance < 0.25 and self.plan.active:
            await self._by(delivery, message.receipt_handle, "renew", self.rng.choice((0.0, 20.0, 20.0)))
        elif chance < 0.35:
            await self._by(delivery, message.receipt_handle, "give up")
        else:
            self.handles.append((delivery, message.receipt_handle))
            await self._by(delivery, message.receipt_handle, "ack")
        if self.handles and self.plan.active and self.rng.random() < 0.2:
            await self._by(*self.rng.choice(self.handles), self.rng.choice(("ack", "give up")))

    async def _by(self, delivery: Delivery, handle: str, what: str, seconds: float = 0.0) -> None:
        """Do something about a delivery, through any member."""
        _, member = await self._member()
        consumer = member.consumer
        for other in [other for other in self.promised_ms if self._is_beside(other, delivery)]:
            del self.promised_ms[other]
        settles = what != "renew"
        ahead = self._ahead_of(delivery.message) if settles else []
        if settles:
            self.invoked.add(delivery.message)
        if what == "give up":
            self.refused[delivery.message].add(delivery.attempt)
        if what == "ack":
            work = consumer.ack(handle)
        elif what == "give up":
            work = consumer.dead_letter(handle)
        else:
            work = self._renew(consumer, handle, seconds)
        try:
            await member.run(work)
        except ReceiptRefused as refused:
            self.counts[refused.kind] += 1
            if settles and refused.kind == "already_settled":
                self.acked.setdefault(delivery.message, self.scene.now_s)
        except (Crashed, PenstockError):
            self.counts["in doubt"] += 1
        else:
            self.counts[what] += 1
            if settles:
                self.acked.setdefault(delivery.message, self.scene.now_s)
                if self.orderly and ahead:
                    self.wrong.append(f"{delivery} is settled before {ahead}")
            if what == "give up":
                self.certain.add(delivery.message)

    async def _renew(self, consumer: SimpleConsumer, handle: str, seconds: float) -> None:
        await consumer.change_invisible_duration(handle, timedelta(seconds=seconds))

    def _is_beside(self, one: Delivery, other: Delivery) -> bool:
        """Whether what is done to one delivery may be done to the other, too."""
        return one.generation == other.generation and (one.body[0] == other.body[0] if self.orderly else one.body == other.body)

    def _ahead_of(self, message: tuple[str, int], together: Iterable[tuple[str, int]] = ()) -> list[str]:
        body, generation = message
        settled = {*self.invoked, *together}
        return [
            other for other in self.bodies[: self.bodies.index(body)] if other[0] == body[0] and (other, generation) not in settled
        ]

    # --- The judge ----------------------------------------------------------------------------------------------------------------

    async def _before(self, member: Member, client: str) -> Before:
        """What a receive that begins now is judged by."""
        owned = {queue for _, queue in member.consumer._owner.queues}
        cells = await self.scene.cells()
        known = {queue: member.consumer._membership.generation("orders", queue) for queue in range(QUEUES)}
        return Before(self.scene.now_s, self.answers, self.asked.get((client, self.number_of[member]), -1), cells, known, owned)

    async def _judge(self, member: Member, attempt: str, number: int, messages: list[MessageView], before: Before) -> None:
        known, by = self.attempts[attempt], self.number_of[member]
        cells = await self.scene.cells()
        generations = {queue: member.consumer._membership.generation("orders", queue) for queue in range(QUEUES)}
        still_owned = {queue for _, queue in member.consumer._owner.queues}
        now_ms = EPOCH_MS + int(1000 * self.scene.now_s)
        found: dict[Delivery, str] = {}
        for message in messages:
            handle = ReceiptHandle.decode(message.receipt_handle)
            delivery = Delivery(message.body.decode(), handle.generation, message.delivery_attempt)
            found[delivery] = message.receipt_handle
            if handle.attempt != message.delivery_attempt:
                self.wrong.append(f"{delivery} has a handle of attempt {handle.attempt}")
            if handle.generation < before.generations[handle.queue]:
                self.wrong.append(f"{delivery} of a generation that is known to be over is given to {attempt}")
        expected = {
            delivery: given.handle
            for delivery, given in known.given.items()
            if (given.at <= before.answers or (given.by == by and given.at < number))
            and (queue := (handle := ReceiptHandle.decode(given.handle)).queue) in cells
            and handle.generation >= generations[queue]
            and (given.by == by or given.at <= before.asked or queue in before.owned & still_owned)
            and out_until_ms(before.cells[queue], handle, EPOCH_MS + int(1000 * before.at_s))
            and out_until_ms(cells[queue], handle, now_ms)
        }
        if missing := expected.items() - found.items():
            self.wrong.append(f"{attempt} is not given again what is out to it: {sorted(missing)}, but {sorted(found)}")
        self.counts["again"] += bool(expected)
        self.counts["again in part"] += len(known.given) > len(expected) > 0
        for delivery, text in found.items():
            self._judge_one(delivery, text, attempt, bool(expected), found, before, now_ms)
        for delivery, text in found.items():
            handle = ReceiptHandle.decode(text)
            known.given.setdefault(delivery, Given(text, by, number))
            if (due_ms := out_until_ms(cells[handle.queue], handle, now_ms)) and delivery.message not in self.invoked:
                self.promised_ms.setdefault(delivery, due_ms)

    def _judge_one(
        self,
        delivery: Delivery,
        text: str,
        attempt: str,
        is_again: bool,
        found: dict[Delivery, str],
        before: Before,
        now_ms: int,
    ) -> None:
        known, handle = self.attempts[attempt], ReceiptHandle.decode(text)
        if self.acked.get(delivery.message, before.at_s) < before.at_s:
            self.wrong.append(f"{delivery} comes back to {attempt}, settled at {self.acked[delivery.message]:.3f}")
        if self.owner_of.setdefault(delivery, attempt) != attempt:
            self.wrong.append(f"{delivery} is given to {attempt} and to {self.owner_of[delivery]}")
        if delivery in known.given:
            was_out = out_until_ms(before.cells[handle.queue], handle, EPOCH_MS + int(1000 * before.at_s))
            if not was_out and known.given[delivery].at <= before.answers:
                self.wrong.append(f"{delivery} is given to {attempt} again, though it was not out any more")
            return
        if is_again and not known.unseen:
            self.wrong.append(f"{delivery} is given to {attempt} with what is out to it already")
        for other, until_ms in self.promised_ms.items():
            if other.message == delivery.message and other.attempt < delivery.attempt and now_ms < until_ms - 1:
                self.wrong.append(f"{delivery} is given to {attempt}, though out to {self.owner_of[other]} until {until_ms}")
        if self.orderly and (ahead := self._ahead_of(delivery.message, [other.message for other in found])):
            self.wrong.append(f"{delivery} is given to {attempt} before {ahead}")

    async def _judge_letters(self) -> None:
        """Each message that was given up has one letter in its generation, with the attempts of a delivery that was given up."""
        if not self.refused:
            return
        letters = await self.scene.letters() if self.certain else []
        counts: Counter[str] = Counter()
        for letter in letters:
            body = letter.body.decode()
            counts[body] += 1
            of_body = {number for (other, _), numbers in self.refused.items() if other == body for number in numbers}
            if int(letter.properties[RECONSUME_TIMES]) + 1 not in of_body:
                self.wrong.append(f"the letter of {body} says {letter.properties[RECONSUME_TIMES]}, given up at {sorted(of_body)}")
        for body in self.bodies:
            most = sum(other == body for other, _ in self.refused)
            least = sum(other == body for other, _ in self.certain)
            if not least <= counts[body] <= most:
                self.wrong.append(f"{body} has {counts[body]} letters, and was given up {least} to {most} times")


@dataclass
class Before:
    """How things stood when a receive began."""

    at_s: float
    answers: int
    asked: int
    """The number of answers when the member was asked last what is out to the client; -1: never."""
    cells: dict[int, QueueCell]
    generations: dict[int, int]
    """As the member knew them."""
    owned: set[int]
    """The member's queues."""
