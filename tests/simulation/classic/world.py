"""Gateways and Kafka's clients in one group: killed, stopped, cut off, and of two minds about who coordinates."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from penstock.coordinator.cells.cells import WRITE_ID_BYTES
from penstock.coordinator.cells.keys import positions_key
from penstock.coordinator.classic.positions import CommittedPositions, decode_positions
from penstock.log.errors import PenstockError
from tests.consumers.receiving import Scene
from tests.simulation.classic.clients import GROUP, TOPIC, KafkaMember
from tests.simulation.classic.front import ServedGateway
from tests.simulation.classic.judge import GroupJudge
from tests.simulation.faults import Fault, RandomFaults
from tests.simulation.process import Crashed

QUEUES = 6
TROUBLES_S = 150.0
HEALED_S = 240.0
"""A gateway that died is noticed in 35 s, what a member that is gone holds is free after its session, and who does not join is waited for."""
FORMED_S = 30.0
RESET_S = 15.0
"""A look each 5 s, and the members' next calls."""


class ClassicGroups:
    """One run. ``rate`` 0: nothing fails. ``deaths``: nothing fails but gateways, and all members stay; ``stops``: and those only stop
    for a while, one after the other.

    ``resets``: an operator resets the group. ``slow``: a fifth of the table's answers take long.
    """

    def __init__(
        self,
        seed: int | str,
        *,
        rate: float = 0.02,
        deaths: bool = False,
        stops: bool = False,
        resets: bool = False,
        overtaken: bool = False,
        slow: bool = False,
    ) -> None:
        self.scene = Scene(seed, queues=QUEUES)
        self.kernel = self.scene.kernel
        self.counts = self.kernel.counts
        self.rng = self.kernel.rng("world")
        self.queues = QUEUES
        self.calm = not rate
        self.deaths = deaths or stops
        self.stops = stops
        self.resets = resets
        plan_rate = 0.0 if self.deaths else rate
        self.plan = RandomFaults.swarm(self.kernel.rng, rate=plan_rate, without=(Fault.SUSPEND_BEFORE, Fault.SUSPEND_AFTER))
        if overtaken:
            self.plan = RandomFaults({Fault.OVERTAKEN: plan_rate}, self.kernel.rng)
        if slow:
            self.scene.table.network = replace(self.scene.table.network, very_slow=0.2)
        self.gateways = {name: ServedGateway(self, name) for name in ("g0", "g1", "g2")}
        self.judge = GroupJudge()
        self.members: dict[str, KafkaMember] = {}
        self.has_troubles = False

    @property
    def now_s(self) -> float:
        return self.scene.now_s

    async def pass_s(self, seconds: float) -> None:
        await self.scene.let_pass(seconds)

    def run(self) -> list[str]:
        """Play it, and say what is wrong."""
        self.scene.play(self._script)
        return self.judge.wrong

    async def _script(self) -> None:
        self.scene.table.plan = self.plan
        self.scene.table.network = replace(self.scene.table.network, late_s=(0.5, 30.0), pause_s=(0.1, 20.0))
        self.plan.active = False
        lives = [asyncio.ensure_future(gateway.live()) for gateway in self.gateways.values()]
        await self.pass_s(1)
        lives += [asyncio.ensure_future(self._members(f"c{n}")) for n in range(4)]
        await self.pass_s(FORMED_S)
        formed = {one.generation for one in self.members.values()}
        self.plan.active = self.has_troubles = not self.calm
        others = [] if self.calm else [asyncio.ensure_future(self._nemesis())]
        if self.resets:
            others.append(asyncio.ensure_future(self._operate()))
        await self.pass_s(TROUBLES_S)
        for other in others:
            other.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        self.plan.active = self.has_troubles = False
        await self._heal()
        for life in lives:
            if life.done():
                life.result()
        if not self._is_whole():
            told = {name: (one.is_stable, one.generation, one.queues) for name, one in self.members.items()}
            self.judge.wrong.append(f"C4 {HEALED_S:g} s after the last fault the members do not share the partitions: {told}")
        await self.pass_s(10)
        if self.resets and not self.judge.wrong:
            await self._check_reset()
        if self.deaths and {one.generation for one in self.members.values()} != formed:
            self.judge.wrong.append(
                f"C3 only gateways ended, and generation {formed} did not stay: {sorted(self.judge.generations)}"
            )
        for life in lives:
            life.cancel()
        await asyncio.wait(lives)
        await self._end()

    async def _heal(self) -> None:
        until_s = self.now_s + HEALED_S
        while not self._is_whole() and self.now_s < until_s:
            await self.pass_s(1)

    def _is_whole(self) -> bool:
        stable = [one for one in self.members.values() if one.is_stable and one.coordinator]
        shared = sorted(queue for one in stable for queue in one.queues)
        return len(stable) == len(self.members) and len({one.generation for one in stable}) == 1 and shared == [*range(QUEUES)]

    async def _end(self) -> None:
        key = positions_key(GROUP, TOPIC)
        stored = await self.scene.table.memory.get(key)
        found = CommittedPositions() if stored is None else decode_positions(stored.data[WRITE_ID_BYTES:], where=key)
        self.judge.left({queue: one.offset for queue, one in found.queues.items()})

    async def _members(self, name: str) -> None:
        """One member after the other; the last one stays. Half of them are static."""
        instance = name if self.rng.random() < 0.5 else None
        number = 0
        while True:
            number += 1
            member = self.members[name] = KafkaMember(self, f"{name}.{number}", instance=instance)
            may_end = self.has_troubles and not self.deaths
            until_s = self.now_s + self.rng.uniform(10, 60) if may_end else self.now_s + 1e6
            if not self.has_troubles and not self.calm and not self.deaths and self.rng.random() < 0.5:
                until_s = self.now_s + FORMED_S + self.rng.uniform(1, 40)
            await member.live(until_s, leaves=self.rng.random() < 0.5)
            await self.pass_s(self.rng.uniform(0.2, 15))

    async def _nemesis(self) -> None:
        while True:
            await self.pass_s(self.rng.expovariate(1 / (25 if self.deaths else 10)))
            life = self.gateways[self.rng.choice(sorted(self.gateways))].life
            if life is None or life.process.crashed or not life.is_open:
                continue
            chance = self.rng.random()
            if self.stops:
                if any(one.life is not None and one.life.process.awake_s > self.now_s for one in self.gateways.values()):
                    continue  # who looks for its coordinator at another one that is stopped is out for longer than its session
                life.process.pause(self.rng.uniform(0.5, 50.0))
            elif chance < 0.4:
                life.process.crash()
            elif chance < 0.7 and not self.deaths:
                life.process.pause(self.rng.uniform(0.5, 50.0))
            else:
                life.process.call(life.leaving.set)

    async def _operate(self) -> None:
        """Reset the group now and then."""
        while True:
            await self.pass_s(self.rng.uniform(20, 60))
            operator = self.scene.member("operator")
            self.judge.reset(self.now_s)
            with suppress(PenstockError, Crashed):
                try:
                    await operator.run(operator.operators.reset(GROUP, TOPIC, "earliest"))
                except asyncio.CancelledError:
                    operator.process.crash()
                    raise
                finally:
                    self.judge.reset(self.now_s)
                self.counts["reset"] += 1

    async def _check_reset(self) -> None:
        """One more, when nothing fails."""
        before = max(self.judge.generations)
        self.judge.reset(self.now_s)
        operator = self.scene.member("operator")
        await operator.run(operator.operators.reset(GROUP, TOPIC, "earliest"))
        await self.pass_s(RESET_S)
        await self._heal()
        generations = {one.generation for one in self.members.values()}
        if not self._is_whole() or min(generations) <= before or any(self.judge.begun_at.values()):
            self.judge.wrong.append(f"C5 a reset did not count: {before}, then {generations} at {self.judge.begun_at}")
