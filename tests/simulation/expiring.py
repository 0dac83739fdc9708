"""Credentials that expire for all of a service and are renewed after a while: until then it refuses every call."""

from __future__ import annotations

import random
from collections.abc import Callable

from penstock.log.errors import AccessLost, PermissionDenied
from penstock.log.limits import REFUSAL_TIMEOUT
from tests.simulation.faults import Call, Fault, FaultPlan, RandomFaults
from tests.simulation.world import log_uniform

_ANSWERED_S = 30.0
"""After so long a call was answered, or nobody waits for it."""


class Expiring(RandomFaults):
    """Refuses now and then; what happens meanwhile else another plan decides."""

    def __init__(
        self,
        rng: random.Random,
        now_s: Callable[[], float],
        *,
        every_s: float,
        for_s: tuple[float, float],
        others: FaultPlan | None,
    ) -> None:
        super().__init__({}, random.Random)
        self._rng, self._now_s, self._every_s, self._for_s, self._others = rng, now_s, every_s, for_s, others
        self._begins_s = self._ends_s = 0.0
        self._longest_s = 0.0
        self._allowed: dict[tuple[str, str, str], float] = {}
        """When each process was allowed each call for the first time, by verb and key."""

    def decide(self, call: Call) -> Fault | None:
        if self.refuses(call):
            return Fault.UNAVAILABLE
        fault = self._others.decide(call) if self._others is not None and self.active else None
        if fault is None:
            self._allowed.setdefault((call.process, call.verb, call.key), self._now_s())
        return fault

    def refuses(self, call: Call) -> bool:
        """Whether it refuses a call now."""
        now_s = self._now_s()
        while now_s >= self._ends_s:
            self._begins_s = self._ends_s + self._rng.expovariate(1 / self._every_s)
            self._ends_s = self._begins_s + log_uniform(self._rng, *self._for_s)
        if not self.active or now_s < self._begins_s:
            return False
        self._longest_s = max(self._longest_s, now_s - self._begins_s)
        return True

    def explains(self, process: str, error: PermissionDenied) -> bool:
        """Whether a process may be told so: of what it was never allowed, or of what has been refused for minutes."""
        if isinstance(error, AccessLost):
            return self._longest_s >= REFUSAL_TIMEOUT.total_seconds()
        allowed_s = self._allowed.get((process, str(error.operation), str(error.object)))
        return allowed_s is None or self._now_s() - allowed_s < _ANSWERED_S
