"""Losses of requests that scripts with transactions need: one kind of write at one moment."""

from __future__ import annotations

from tests.simulation.faults import Call, Fault
from tests.simulation.transactions.world import Transacting


class Doubtful:
    """Lets the first write of a member's cell land late, and loses the next ones."""

    def __init__(self) -> None:
        self.first = True
        self.active = True

    def decide(self, call: Call) -> Fault | None:
        if not self.active or call.verb != "put" or not call.key.startswith("transactions/"):
            return None
        first, self.first = self.first, False
        return Fault.LATE_APPLY if first else Fault.LOST_REQUEST


class Losing:
    """Loses every request of one kind for a key that contains ``part``."""

    def __init__(self, part: str, verb: str = "put") -> None:
        self._part, self._verb = part, verb

    def decide(self, call: Call) -> Fault | None:
        return Fault.LOST_REQUEST if call.verb == self._verb and self._part in call.key else None


class Unnoted:
    """Ends a process as it notes what a queue's cell has decided."""

    def __init__(self, world: Transacting) -> None:
        self._world = world

    def decide(self, call: Call) -> Fault | None:
        settled = any(cell.transactions for cell in self._world.ledger.queues.values())
        return Fault.CRASH_BEFORE if settled and call.verb == "put" and call.key.startswith("transactions/") else None
