"""Gateways, clients of SDKs and native members of one consumer group: killed, stopped and cut off from one another, until all is consumed."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from tests.consumers.receiving import Scene
from tests.simulation.expiring import Expiring
from tests.simulation.faults import Fault, RandomFaults
from tests.simulation.gateways.clients import NativeMember, SdkClient
from tests.simulation.gateways.front import Gateway
from tests.simulation.gateways.judge import Judge
from tests.simulation.process import EPOCH_MS, SimProcess

QUEUES = 4
MESSAGES = 70
TROUBLES_S = 75.0
HEALED_S = 400.0
"""Everything is settled so long after the last fault: a gateway that died is noticed in 32 s, and what it gave to a client that lives is then
renewed for 120 s and invisible for 60 s, though it never arrived. The next client's handler takes up to 100 s."""
STAYS = 0.2
"""So many clients stay to the end, though they began amid troubles: what they lost comes again while they live."""
BEARS_S = 15.0
"""A gateway that is stopped for no longer than this renews in time: it begins 30 s before, and looks each 5 s."""


class Gateways:
    """One run. ``rate`` 0: nothing fails, and clients do not end. ``overtaken``: writes of the table get no answer, and are carried out when
    their writers have read back and decided. ``expiring``: the table refuses everything now and then.
    """

    def __init__(
        self,
        seed: int | str,
        *,
        rate: float = 0.02,
        orderly: bool | None = None,
        steady: bool | None = None,
        overtaken: bool = False,
        expiring: bool = False,
    ) -> None:
        self.scene = Scene(seed, queues=QUEUES)
        self.kernel = self.scene.kernel
        self.rng = self.kernel.rng("gateways")
        self.calm = not rate
        drawn = self.rng.random() < 0.7, self.rng.random() < 0.5
        self.orderly = drawn[0] if orderly is None else orderly
        self.steady = self.calm or (drawn[1] if steady is None else steady)
        """Whether store and table are without faults. Then it is certain what gateways are able to do."""
        plan_rate = 0.0 if self.steady else rate
        self.plan = RandomFaults.swarm(self.kernel.rng, rate=plan_rate, without=(Fault.SUSPEND_BEFORE, Fault.SUSPEND_AFTER))
        if overtaken:
            self.plan = RandomFaults({Fault.OVERTAKEN: plan_rate}, self.kernel.rng)
        if expiring:
            rng, loop = self.kernel.rng("expiring"), self.kernel.loop
            plan = Expiring(rng, lambda: loop.now, every_s=15.0, for_s=(0.5, 10.0), others=self.plan)
            plan.stand_before(self.scene.table)
            self.plan = plan
        self.bodies = [f"{'abcdefgh'[self.rng.randrange(8)]}{n:03}" for n in range(MESSAGES)]
        self.has_troubles = False
        self.lives = itertools.count(1)
        self.gateways = {name: Gateway(self, name) for name in ("g0", "g1", "g2")}
        self.native = NativeMember(self, "n0")
        self.judge = Judge(self)
        self.counts = self.kernel.counts
        self._later: list[asyncio.Task[None]] = []

    # --- What others ask ----------------------------------------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        return self.scene.now_s

    @property
    def now_ms(self) -> int:
        return EPOCH_MS + int(1000 * self.now_s)

    async def pass_s(self, seconds: float) -> None:
        await self.scene.let_pass(seconds)

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside, which must be done before the end."""
        self._later.append(asyncio.ensure_future(work))

    def ahead_of(self, body: str) -> list[str]:
        """The messages before this one in its message group."""
        return [other for other in self.bodies[: self.bodies.index(body)] if other[0] == body[0]]

    def behind(self, body: str) -> list[str]:
        """The messages behind this one in its message group."""
        return [other for other in self.bodies[self.bodies.index(body) + 1 :] if other[0] == body[0]]

    # --- The script ---------------------------------------------------------------------------------------------------------------

    def run(self) -> list[str]:
        """Play it, and say what is wrong."""
        self.scene.play(self._script)
        return self.judge.wrong

    async def _script(self) -> None:
        founder = self.scene.member("founder")
        order = "ORDERLY" if self.orderly else "CONCURRENT"
        await founder.run(founder.coordination.groups.ensure("audit", {"delivery_order": order, "max_attempts": None}))
        producer = self.scene.member("producer")
        await producer.send(*self.bodies[: MESSAGES // 2])
        self.plan.active = self.has_troubles = not self.calm
        self.scene.table.plan = self.plan
        self.scene.table.network = replace(self.scene.table.network, late_s=(0.5, 30.0), pause_s=(0.1, 20.0))
        lives = [asyncio.ensure_future(gateway.live()) for gateway in self.gateways.values()]
        lives.append(asyncio.ensure_future(self.native.live()))
        await self.pass_s(1)
        lives += [asyncio.ensure_future(self._clients(f"p{n}", is_push=True)) for n in range(2)]
        lives.append(asyncio.ensure_future(self._clients("s0", is_push=False)))
        nemesis = None if self.calm else asyncio.ensure_future(self._nemesis())
        for body in self.bodies[MESSAGES // 2 :]:
            await self.pass_s(self.rng.expovariate(MESSAGES / TROUBLES_S))
            await producer.send(body)
        await self.pass_s(max(0.0, TROUBLES_S - self.now_s))
        if nemesis is not None:
            nemesis.cancel()
        self.plan.active = self.has_troubles = False
        healed_s = self.now_s
        while not await self.scene.is_settled(MESSAGES) and self.now_s < healed_s + HEALED_S and not self.judge.wrong:
            await self.pass_s(1)
            for life in lives:
                if life.done():
                    life.result()
        if await self.scene.is_settled(MESSAGES):
            await asyncio.gather(*self._later)
            await self.judge.end()
        elif not self.judge.wrong:
            left = {queue: (cell.settled.floor, cell.tries, cell.markers) for queue, cell in (await self.scene.cells()).items()}
            self.judge.wrong.append(f"G1 not settled {HEALED_S:g} s after the last fault: {left}, held {self.judge.holds}")
        for life in lives:
            life.cancel()
        await asyncio.wait(lives)

    async def _clients(self, name: str, *, is_push: bool) -> None:
        """One client after the other. The last one stays."""
        for number in itertools.count(1):
            client = SdkClient(self, f"{name}.{number}", is_push=is_push)
            stays = not self.has_troubles or self.rng.random() < STAYS
            await client.live(1e6 if stays else self.rng.uniform(15, 60))
            await self.pass_s(self.rng.uniform(0.5, 5))

    async def _nemesis(self) -> None:
        while True:
            await self.pass_s(self.rng.expovariate(1 / 8))
            if self.rng.random() < 0.2:
                self._befall_native()
                continue
            gateway = self.gateways[self.rng.choice(sorted(self.gateways))]
            life = gateway.life
            if life is None or life.process.crashed or not life.is_open:
                continue
            chance = self.rng.random()
            if chance < 0.4:
                life.process.crash()
            elif chance < 0.75:
                self._pause(life.process, life)
            else:
                life.disturbed_s = self.now_s
                life.process.call(life.leaving.set)

    def _pause(self, process: SimProcess, life: Any) -> None:
        began_s = process.awake_s - self.now_s if process.stopped else 0.0
        seconds = self.rng.uniform(0.5, 40.0)
        if seconds + max(0.0, began_s) > BEARS_S:
            self.judge.absent(life)
        process.pause(seconds)

    def _befall_native(self) -> None:
        member = self.native.member
        if member is not None and not member.process.crashed:
            if self.rng.random() < 0.5:
                member.process.crash()
            else:
                member.process.pause(self.rng.uniform(0.5, 30.0))
