"""Members whose table loses its last commits, with one guard removed."""

from __future__ import annotations

from collections.abc import Callable

from penstock.consumers.membership import Membership
from penstock.consumers.queues import spill_task
from penstock.coordinator.groups.record import GroupRecord
from penstock.coordinator.rebalance.owned_queues import OwnedQueues
from penstock.coordinator.rebalance.recent_writes import RecentWrites
from tests.simulation.mutant import Mutant
from tests.simulation.patches import Patch, always, attribute


def _mutant(guard: str, patch: Patch, *seeds: int) -> Mutant:
    return Mutant(guard=guard, rule="C10", patch=patch, scenario="failovers", seeds=seeds)


def _begun_once(original: Callable[..., GroupRecord]) -> Callable[..., GroupRecord]:
    def extended(self: Membership, record: GroupRecord) -> GroupRecord:
        """Leaves it to those who start anew to begin."""
        return original(self, record) if self._topics.keys() <= record.positions.keys() else record

    return extended


async def _unlooked(*_: object) -> None:
    pass


FAILOVER_MUTANTS = {
    "failover-begins": _mutant(
        "members begin again for their group when the table has lost where it had begun",
        attribute(Membership, "_extended", _begun_once),
        26,
        17,
    ),
    "failover-written": _mutant(
        "an owner looks whether what it wrote last still stands", attribute(RecentWrites, "look", lambda _: _unlooked), 31, 44
    ),
    "failover-released": _mutant(
        "who released a queue looks whether the table has lost that",
        attribute(OwnedQueues, "_doubt_released", lambda _: always(None)),
        18,
    ),
    "failover-spilled": _mutant(
        "an object that the cell names no more stays for a while", attribute(spill_task, "UNNAMED_S", lambda _: 0.0), 86
    ),
}
