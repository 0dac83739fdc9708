"""SimpleConsumers amid faults: processes that crash, pause and lose answers, handles passed on between them, deliveries left to expire.

What must hold: an acknowledged message never comes back; while a message is invisible nobody else is given it, and of its message group
nothing later; attempts rise; and in the end everything is acknowledged.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from penstock.coordinator.handles import ReceiptHandle, ReceiptRefused
from penstock.log import MessageView
from penstock.log.errors import PenstockError
from tests.consumers.receiving import Member, Scene
from tests.simulation.faults import Fault, RandomFaults
from tests.simulation.process import Crashed

pytestmark = pytest.mark.simulation

QUEUES = 3
MESSAGES = 120
INVISIBLE_S = 12.0
SLACK_S = 0.05
"""Invisible times are whole milliseconds, and counted from before the write."""
COUNTED = ("crash", "receipt_expired", "expired", "acked beside", "again", "extended", "ended at once")


class Play:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.scene = Scene(seed, queues=QUEUES)
        self.rng = self.scene.kernel.rng("players")
        self.plan = RandomFaults.swarm(self.scene.kernel.rng, rate=0.04, without=(Fault.SUSPEND_BEFORE, Fault.SUSPEND_AFTER))
        self.invoked: set[str] = set()
        """Bodies whose acknowledgement was sent."""
        self.acked: dict[str, float] = {}
        """Confirmed, and when."""
        self.until_s: dict[str, float] = {}
        """When a message may be given again, at the earliest."""
        self.attempts: Counter[str] = Counter()
        self.handles: list[tuple[str, str]] = []
        """(body, handle) passed on to whoever picks it up."""
        self.wrong: list[str] = []
        self.counts: Counter[str] = Counter()
        self.members: dict[str, Member] = {}

    def play(self) -> Play:
        self.scene.play(self._script)
        return self

    async def _script(self) -> None:
        producer = self.scene.member("producer")
        order = [f"{'abcdefgh'[self.rng.randrange(8)]}{n:03}" for n in range(MESSAGES)]
        self.bodies = order
        await producer.send(*order[: MESSAGES // 2])
        self.scene.table.plan = self.plan
        self.scene.table.network = replace(self.scene.table.network, late_s=(0.5, 30.0), pause_s=(0.1, 20.0))
        lives = [asyncio.ensure_future(self._machine(f"m{n}")) for n in range(3)]
        await producer.send(*order[MESSAGES // 2 :])
        nemesis = asyncio.ensure_future(self._nemesis())
        await self.scene.let_pass(120)
        nemesis.cancel()
        self.plan.active = False
        try:
            async with asyncio.timeout(600):
                while not await self._is_settled():
                    await self.scene.let_pass(1)
        except TimeoutError:
            self.wrong.append(f"never settled; not confirmed: {sorted(set(order) - self.acked.keys())[:10]}")
        if lost := set(order) - self.invoked:
            self.wrong.append(f"settled, though never acknowledged: {sorted(lost)}")
        for life in lives:
            life.cancel()
        await asyncio.wait(lives)

    async def _is_settled(self) -> bool:
        cells = [await self.scene.cell(queue) for queue in range(QUEUES)]
        return sum(cell.settled.floor for cell in cells) == MESSAGES and not any(cell.tries or cell.markers for cell in cells)

    async def _nemesis(self) -> None:
        while True:
            await self.scene.let_pass(self.rng.expovariate(1 / 15))
            process = self.rng.choice(list(self.members.values())).process
            if not process.crashed:
                self.rng.choice((process.crash, partial(process.pause, self.rng.uniform(1, 20))))()

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
            for _ in range(self.rng.randrange(3)):
                if self.handles:
                    self.counts["acked beside"] += 1
                    await self._ack(member, *self.handles.pop(self.rng.randrange(len(self.handles))))

    async def _settle(self, member: Member, message: MessageView) -> None:
        body, handle = message.body.decode(), message.receipt_handle
        chance = self.rng.random()
        calm = not self.plan.active
        if chance < 0.1 and not calm:
            self.counts["expired"] += 1
        elif chance < 0.2 and not calm:
            self.handles.append((body, handle))
        elif chance < 0.3 and not calm:
            await self._change(member, body, handle, self.rng.choice((0.0, 20.0)))
        else:
            await self._ack(member, body, handle)

    async def _ack(self, member: Member, body: str, handle: str) -> None:
        self.invoked.add(body)
        try:
            await member.consumer.ack(handle)
        except ReceiptRefused as refused:
            self.counts[refused.kind] += 1
            if refused.kind == "already_settled":
                self.acked.setdefault(body, self.scene.now_s)
        else:
            self.acked.setdefault(body, self.scene.now_s)

    async def _change(self, member: Member, body: str, handle: str, seconds: float) -> None:
        if seconds == 0.0:  # it ends for all that was received together
            for other in self._together(body):
                self.until_s[other] = 0.0
        try:
            await member.consumer.change_invisible_duration(handle, timedelta(seconds=seconds))
        except ReceiptRefused as refused:
            self.counts[refused.kind] += 1
        else:
            self.counts["extended" if seconds else "ended at once"] += 1

    def _together(self, body: str) -> list[str]:
        return [other for other in self.until_s if other[0] == body[0]]

    def _given(self, messages: list[MessageView]) -> None:
        now_s = self.scene.now_s
        bodies = [message.body.decode() for message in messages]
        for message, body in zip(messages, bodies, strict=True):
            if body in self.acked:
                self.wrong.append(f"{body} comes back at {now_s:.3f}, acknowledged at {self.acked[body]:.3f}")
            if body not in self.invoked and now_s + SLACK_S < self.until_s.get(body, 0.0):
                self.wrong.append(f"{body} is given at {now_s:.3f}, though invisible until {self.until_s[body]:.3f}")
            if message.delivery_attempt <= self.attempts[body]:
                self.wrong.append(f"{body} is given as attempt {message.delivery_attempt} after {self.attempts[body]}")
            self.counts["again"] += message.delivery_attempt > 1
            self.attempts[body] = message.delivery_attempt
            ahead = [
                other
                for other in self.bodies[: self.bodies.index(body)]
                if other[0] == body[0] and other not in self.invoked and other not in bodies
            ]
            if ahead:
                self.wrong.append(f"{body} is given at {now_s:.3f} before {ahead}")
            assert ReceiptHandle.decode(message.receipt_handle).offset == message.offset
        for body in bodies:
            self.until_s[body] = now_s + INVISIBLE_S - 5.0  # counted from the grant, which may be a paused process's


SEEDS = 5


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nothing_acknowledged_comes_back_and_nothing_is_lost() -> None:
    counts: Counter[str] = Counter()
    for seed in range(SEEDS):
        play = Play(seed).play()
        assert play.wrong == [], f"Play({seed})"
        counts += play.counts
    missing = [what for what in COUNTED if not counts[what]]
    assert not missing, counts
