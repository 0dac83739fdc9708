"""SimpleConsumers amid faults: processes that crash, pause and lose answers, handles passed on between them, deliveries left to expire.

What must hold: an acknowledged message never comes back; while a message is invisible nobody else is given it, and of its message group
nothing later; attempts rise; no handle is good that was outdated by a reset, expired, or ahead of an earlier message of its group when it
was used; and in the end everything is acknowledged. After a reset all that begins anew. All that holds while the topic gets more queues, too.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TypeAlias

from penstock.coordinator.cells.cells import WRITE_ID_BYTES
from penstock.coordinator.cells.keys import group_key
from penstock.coordinator.groups.codec import decode_group
from penstock.coordinator.queues.receipt_handle import ReceiptHandle, ReceiptRefused
from penstock.coordinator.tables import CellVersion
from penstock.log import MessageView
from penstock.log.errors import PenstockError
from tests.consumers.receiving import Member, Scene
from tests.simulation.faults import Fault, RandomFaults
from tests.simulation.process import Crashed

QUEUES = 3
MESSAGES = 120
INVISIBLE_S = 12.0
SLACK_S = 0.05
"""Invisible times are whole milliseconds, and counted from before the write."""


Delivery: TypeAlias = tuple[str, int]
"""A body, and how many resets there were before it was given."""


class Play:
    """One run. Calm: nothing fails, all is acknowledged in time and in order, and nobody resets the group. ``grows``: the numbers of queues that the
    topic gets, one after the other.
    """

    def __init__(self, seed: int | str, *, calm: bool = False, grows: tuple[int, ...] = ()) -> None:
        self.calm = calm
        self.grows = grows
        self.scene = Scene(seed, queues=QUEUES)
        self.kernel = self.scene.kernel
        self.rng = self.scene.kernel.rng("players")
        self.plan = RandomFaults.swarm(self.scene.kernel.rng, rate=0.04, without=(Fault.SUSPEND_BEFORE, Fault.SUSPEND_AFTER))
        self.invoked: set[Delivery] = set()
        """Whose acknowledgement was sent."""
        self.acked: dict[Delivery, float] = {}
        """Confirmed, and when."""
        self.until_s: dict[Delivery, float] = {}
        """When a message may be given again, at the earliest."""
        self.expires_s: dict[tuple[Delivery, int], float] = {}
        """Until when each attempt may be acknowledged, at the latest."""
        self.attempts: Counter[Delivery] = Counter()
        self.doubtful: Counter[Delivery] = Counter()
        """Acknowledgements that are under way, or of which nobody knows what became."""
        self.handles: list[tuple[str, str]] = []
        """(body, handle) passed on to whoever likes to try it, early or late, once or again."""
        self.wrong: list[str] = []
        self.counts: Counter[str] = Counter()
        self.members: dict[str, Member] = {}
        self._resets: list[int] = []
        """The generations that resets of all queues began."""
        self._witness_resets()

    def run(self) -> list[str]:
        """Play it, and say what is wrong."""
        self.scene.play(self._script)
        return self.wrong

    def _witness_resets(self) -> None:
        memory = self.scene.table.memory
        put = memory.put

        async def witnessed(key: str, data: bytes, *, expected: CellVersion | None) -> CellVersion:
            version = await put(key, data, expected=expected)
            positions = decode_group(data[WRITE_ID_BYTES:], where=key).positions if key == group_key("audit") else {}
            for position in positions.values():
                if position.generations[0] not in self._resets:  # some generations of later queues are those in which they came
                    self._resets.append(position.generations[0])
            return version

        memory.put = witnessed  # type: ignore[method-assign]

    def _round(self, generation: int) -> int:
        """How many resets there were before this generation of some queue."""
        return bisect_right(self._resets, generation)

    async def _script(self) -> None:
        producer = self.scene.member("producer")
        order = [f"{'abcdefgh'[self.rng.randrange(8)]}{n:03}" for n in range(MESSAGES)]
        self.bodies = order
        await producer.send(*order[: MESSAGES // 2])
        self.plan.active = not self.calm
        self.scene.table.plan = self.plan
        self.scene.table.network = replace(self.scene.table.network, late_s=(0.5, 30.0), pause_s=(0.1, 20.0))
        lives = [asyncio.ensure_future(self._machine(f"m{n}")) for n in range(3)]
        left = order[MESSAGES // 2 :]
        for queues in self.grows:
            now, left = left[:15], left[15:]
            await producer.send(*now)
            await self.scene.let_pass(self.rng.choice((0.0, 5.0, 20.0)))
            await producer.run(producer.lake.alter_topic("orders", queues=queues))
            self.scene.settings = replace(self.scene.settings, queues=queues)
            self.counts["growth"] += 1
        await producer.send(*left)
        others = [] if self.calm else [asyncio.ensure_future(self._nemesis()), asyncio.ensure_future(self._operate())]
        await self.scene.let_pass(120)
        for other in others:
            other.cancel()
        self.plan.active = False
        try:
            async with asyncio.timeout(600):
                while not await self.scene.is_settled(MESSAGES):
                    await self.scene.let_pass(1)
        except TimeoutError:
            self.wrong.append(f"never settled; not confirmed: {sorted(set(order) - {body for body, _ in self.acked})[:10]}")
        last = self._round(max(cell.generation for cell in (await self.scene.cells()).values()))
        if lost := set(order) - {body for body, resets in self.invoked if resets == last}:
            self.wrong.append(f"settled, though never acknowledged: {sorted(lost)}")
        for life in lives:
            life.cancel()
        await asyncio.wait(lives)

    async def _nemesis(self) -> None:
        while True:
            await self.scene.let_pass(self.rng.expovariate(1 / 15))
            process = self.rng.choice(list(self.members.values())).process
            if not process.crashed:
                self.rng.choice((process.crash, partial(process.pause, self.rng.uniform(1, 20))))()

    async def _operate(self) -> None:
        """Reset the group now and then, to its beginning."""
        while True:
            await self.scene.let_pass(self.rng.uniform(10, 60))
            operator = self.scene.member("operator")
            with suppress(PenstockError, Crashed):
                try:
                    await operator.run(operator.operators.reset("audit", "orders", "earliest"))
                except asyncio.CancelledError:
                    operator.process.crash()  # nobody would hear what became of it
                    raise
                self.counts["reset"] += 1

    async def _machine(self, name: str) -> None:
        while True:
            member = self.members[name] = self.scene.member(name)
            try:
                await member.run(self._work(member))
            except Crashed:
                self.counts["crash"] += 1
            except PenstockError as error:
                self.counts[f"ended: {error.kind}"] += 1
                member.process.crash()  # an alive consumer that nobody asks would keep its queues
            await self.scene.let_pass(self.rng.uniform(0.5, 5))

    async def _work(self, member: Member) -> None:
        consumer = await member.consume_here()
        while True:
            found = await consumer.receive(self.rng.choice((1, 5, 32)), timedelta(seconds=INVISIBLE_S), timedelta(seconds=5))
            self._given(found)
            for message in found:
                await self._settle(member, message)
            for _ in range(self.rng.randrange(6)):
                if self.handles:
                    self.counts["acked beside"] += 1
                    await self._ack(member, *self.rng.choice(self.handles))

    async def _settle(self, member: Member, message: MessageView) -> None:
        body, handle = message.body.decode(), message.receipt_handle
        chance = self.rng.random()
        calm = not self.plan.active
        if chance < 0.1 and not calm:
            self.counts["expired"] += 1
        elif chance < 0.3 and not calm:
            self.handles.append((body, handle))
        elif chance < 0.4 and not calm:
            await self._change(member, body, handle, self.rng.choice((0.0, 20.0)))
        else:
            await self._ack(member, body, handle)

    async def _ack(self, member: Member, body: str, handle: str) -> None:
        delivery = (body, self._round(ReceiptHandle.decode(handle).generation))
        why_not = await self._why_not(body, handle)
        self.invoked.add(delivery)
        self.doubtful[delivery] += 1
        try:
            await member.consumer.ack(handle)
        except ReceiptRefused as refused:
            self.doubtful[delivery] -= 1
            self.counts[refused.kind] += 1
            if refused.kind == "already_settled":
                self.acked.setdefault(delivery, self.scene.now_s)
        else:
            self.doubtful[delivery] -= 1
            self.acked.setdefault(delivery, self.scene.now_s)
            if ahead := self._ahead_of(delivery, [delivery]):
                why_not.append(f"{ahead} are before it")
            self.wrong += [f"{body} was acknowledged, although {why}" for why in why_not]

    def _ahead_of(self, delivery: Delivery, together: Collection[Delivery]) -> list[str]:
        """Earlier messages of its group that nobody tried to acknowledge since the same reset, but for these."""
        body, resets = delivery
        earlier = [other for other in self.bodies[: self.bodies.index(body)] if other[0] == body[0]]
        return [other for other in earlier if (other, resets) not in self.invoked and (other, resets) not in together]

    async def _why_not(self, body: str, text: str) -> list[str]:
        """Why a handle must be refused that is used now."""
        handle = ReceiptHandle.decode(text)
        generation, resets, found = handle.generation, self._round(handle.generation), []
        cell = await self.scene.cell(handle.queue)
        if cell.generation > generation:
            found.append(f"it was given in generation {generation}, and this is {cell.generation}")
        expires_s = self.expires_s[(body, resets), handle.attempt]
        may_be_done = (body, resets) in self.acked or self.doubtful[body, resets]
        if self.scene.now_s > expires_s + SLACK_S and not may_be_done:
            found.append(f"it expired at {expires_s:.3f}, and this is {self.scene.now_s:.3f}")
        return found

    async def _change(self, member: Member, body: str, handle: str, seconds: float) -> None:
        together = self._together(body, self._round(ReceiptHandle.decode(handle).generation))
        for other in together:
            if seconds == 0.0:  # it ends for all that was received together
                self.until_s[other] = 0.0
            else:
                attempt = (other, self.attempts[other])
                self.expires_s[attempt] = max(self.expires_s[attempt], self.scene.now_s + seconds)
        try:
            await member.consumer.change_invisible_duration(handle, timedelta(seconds=seconds))
        except ReceiptRefused as refused:
            self.counts[refused.kind] += 1
        else:
            self.counts["extended" if seconds else "ended at once"] += 1

    def _together(self, body: str, resets: int) -> list[Delivery]:
        return [other for other in self.until_s if other[0][0] == body[0] and other[1] == resets]

    def _given(self, messages: list[MessageView]) -> None:
        now_s = self.scene.now_s
        handles = [ReceiptHandle.decode(message.receipt_handle) for message in messages]
        resets = [self._round(handle.generation) for handle in handles]
        deliveries = [(message.body.decode(), since) for message, since in zip(messages, resets, strict=True)]
        for message, handle, delivery in zip(messages, handles, deliveries, strict=True):
            body = delivery[0]
            if delivery in self.acked:
                self.wrong.append(f"{body} comes back at {now_s:.3f}, acknowledged at {self.acked[delivery]:.3f}")
            if delivery not in self.invoked and now_s + SLACK_S < self.until_s.get(delivery, 0.0):
                self.wrong.append(f"{body} is given at {now_s:.3f}, though invisible until {self.until_s[delivery]:.3f}")
            if message.delivery_attempt <= self.attempts[delivery]:
                self.wrong.append(f"{body} is given as attempt {message.delivery_attempt} after {self.attempts[delivery]}")
            self.counts["again"] += message.delivery_attempt > 1
            self.attempts[delivery] = message.delivery_attempt
            if ahead := self._ahead_of(delivery, deliveries):
                self.wrong.append(f"{body} is given at {now_s:.3f} before {ahead}")
            assert handle.offset == message.offset
        for delivery in deliveries:
            self.until_s[delivery] = now_s + INVISIBLE_S - 5.0  # counted from the grant, which may be a paused process's
            self.expires_s[delivery, self.attempts[delivery]] = now_s + INVISIBLE_S
