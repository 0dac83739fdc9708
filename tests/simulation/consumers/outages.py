"""Outages that heal: the whole store, the whole table, or one thing of either is down for a while; then all must go on by itself."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, MutableSequence
from dataclasses import dataclass
from typing import Literal

from penstock.coordinator.cells.keys import GROUPS, WORKERS, queue_key
from tests.simulation.consumers.plot import TOPIC, Plot
from tests.simulation.expiring import Refusing
from tests.simulation.faults import WRITES, Call, Fault, FaultPlan, possible
from tests.simulation.simulated import log_uniform

Service = Literal["store", "table"]
_HOW = (
    (Fault.UNAVAILABLE, False),
    (Fault.UNAVAILABLE, True),
    (Fault.LOST_REQUEST, False),
    (Fault.LOST_ANSWER, False),
    (Fault.LATE_APPLY, False),
)
"""How calls fail meanwhile, and whether they are refused: credentials have expired, for all of a service. Lost answers are of a service that
works and says nothing.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Outage:
    """Whatever is under keys that contain ``part`` is down."""

    name: str
    service: Service
    part: str
    only_writes: bool
    fault: Fault
    refuses: bool

    def hits(self, service: Service, call: Call) -> bool:
        """Whether it makes this call fail."""
        return (
            service == self.service
            and self.part in call.key
            and (call.verb in WRITES or not self.only_writes)
            and possible(self.fault, call)
        )

    @staticmethod
    def drawn(rng: random.Random, plot: Plot) -> Outage:
        """One of the things that can be down, and how."""
        group = rng.choice(list(plot.groups))
        services: dict[str, tuple[Service, str]] = {
            "store": ("store", ""),
            "table": ("table", ""),
            "dead letters": ("store", "dlq."),
            "log": ("store", f"/{TOPIC}/log/"),
            "cell": ("table", queue_key(group, TOPIC, rng.randrange(plot.queues))),
            "record": ("table", GROUPS),
            "heartbeats": ("table", WORKERS),
        }
        name = rng.choice(list(services))
        service, part = services[name]
        only_writes, (fault, refuses) = rng.random() < 0.5, rng.choice(_HOW)
        return Outage(name, service, "" if refuses else part, only_writes, fault, refuses)


class Failing(Refusing):
    """What is down of one service now; of the rest what another plan decides."""

    def __init__(
        self, service: Service, down: MutableSequence[Outage], now_s: Callable[[], float], others: FaultPlan | None
    ) -> None:
        super().__init__(now_s, others)
        self._service = service
        self._down = down

    def decide(self, call: Call) -> Fault | None:
        if not self.active:
            return None
        for outage in self._down:
            if outage.hits(self._service, call):
                return outage.fault
        return None if self._others is None else self._others.decide(call)

    def is_refusing(self, call: Call) -> bool:
        return any(outage.refuses and outage.hits(self._service, call) for outage in self._down)


async def break_down(plot: Plot, down: MutableSequence[Outage], rng: random.Random, counts: Counter[str]) -> None:
    """Let things fail one after the other, now and then two at once."""
    while plot.outages_every_s:
        await asyncio.sleep(rng.expovariate(1 / plot.outages_every_s))
        outages = [Outage.drawn(rng, plot) for _ in range(rng.choice([1, 1, 2]))]
        for outage in outages:
            counts[f"outage: {outage.name}"] += 1
            counts["outage: refused"] += outage.refuses
            down.append(outage)
        await asyncio.sleep(log_uniform(rng, *plot.outage_s))
        for outage in outages:
            down.remove(outage)
