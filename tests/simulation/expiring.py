"""Credentials that expire for all of a service and are renewed after a while: until then it refuses what it allowed before."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

from penstock.log.errors import AccessLost, PermissionDenied
from penstock.log.limits import REFUSAL_TIMEOUT
from penstock.log.stores.refusals import Right, right_of
from tests.simulation.faults import Call, Fault, FaultPlan, RandomFaults
from tests.simulation.requests import SimService
from tests.simulation.simulated import log_uniform


class Refusing(RandomFaults):
    """Refuses each process only rights that it has used: without another, it would end, as after a false configuration."""

    def __init__(self, now_s: Callable[[], float], others: FaultPlan | None) -> None:
        super().__init__({}, random.Random)
        self._now_s = now_s
        self._others = others
        self._used: dict[tuple[str, Right], float] = {}
        """When each process used each right last."""

    def stand_before(self, service: SimService[Any]) -> None:
        """Hear what the service answers, and refuse calls in its place."""
        service.heard, service.refuses = self.heard, self.refuses

    def heard(self, call: Call) -> None:
        """A process has got an answer."""
        self._used[call.process, right_of(call.verb, call.key)] = self._now_s()

    def refuses(self, call: Call) -> bool:
        """Whether it refuses a call now."""
        return self.active and (call.process, right_of(call.verb, call.key)) in self._used and self.is_refusing(call)

    def is_refusing(self, call: Call) -> bool:
        """Whether it refuses what it allowed before."""
        raise NotImplementedError

    def explains(self, process: str, error: PermissionDenied) -> bool:
        """Whether a process may be told so: of what it used, and found refused for minutes."""
        used_s = self._used.get((process, right_of(str(error.operation), str(error.object))), math.inf)
        return isinstance(error, AccessLost) and self._now_s() - used_s >= REFUSAL_TIMEOUT.total_seconds()


class Expiring(Refusing):
    """Refuses everything now and then; what happens meanwhile else another plan decides."""

    def __init__(
        self,
        rng: random.Random,
        now_s: Callable[[], float],
        *,
        every_s: float,
        for_s: tuple[float, float],
        others: FaultPlan | None,
    ) -> None:
        super().__init__(now_s, others)
        self._rng, self._every_s, self._for_s = rng, every_s, for_s
        self._begins_s = self._ends_s = 0.0

    def decide(self, call: Call) -> Fault | None:
        if self.refuses(call):
            return Fault.UNAVAILABLE
        return self._others.decide(call) if self._others is not None and self.active else None

    def is_refusing(self, call: Call) -> bool:
        now_s = self._now_s()
        while now_s >= self._ends_s:
            self._begins_s = self._ends_s + self._rng.expovariate(1 / self._every_s)
            self._ends_s = self._begins_s + log_uniform(self._rng, *self._for_s)
        return now_s >= self._begins_s
