"""The leases with one guard removed, by replacing one function from the tests' side, as `mutants` does it with the log.

Every mutant passes a run in which nothing fails, and is caught by a `skirmish`: so the guard is needed, and would be missed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.coordinator.cells.keys import WORKERS
from penstock.coordinator.tables import CellVersion
from penstock.coordinator.tables.memory import MemoryTable
from penstock.coordinator.workers import watch as watch_module
from penstock.coordinator.workers.session import Session, SessionMember
from penstock.coordinator.workers.watch import LeaseWatch
from tests.simulation.mutant import Mutant
from tests.simulation.patches import attribute
from tests.simulation.process import SimClock
from tests.simulation.table import SimTableClient


def _unconditional_heartbeats(put: Callable[..., Any]) -> Callable[..., Any]:
    """A heartbeat is written over whatever stands there, as if leases were kept by a clock alone."""

    async def effect(memory: MemoryTable, key: str, data: bytes) -> CellVersion:
        standing = await memory.get(key)
        return await memory.put(key, data, expected=standing.version if standing is not None else None)

    async def blind(client: SimTableClient, key: str, data: bytes, *, expected: CellVersion | None) -> CellVersion:
        if not key.startswith(WORKERS):
            version: CellVersion = await put(client, key, data, expected=expected)
            return version
        return await client._connection.call("put", key, lambda memory: effect(memory, key, data), data, conditional=True)

    return blind


def _counting_from_the_answer(adopt: Callable[..., None]) -> Callable[..., None]:
    def adopted(session: Session, stored: Any) -> None:
        session._sent_s = dict.fromkeys(session._sent_s, session._clock.monotonic_s())
        adopt(session, stored)

    return adopted


def _fencing_nobody(_: object) -> Callable[..., Any]:
    async def fence(watch: LeaseWatch, owner: str) -> bool:
        return watch.is_dead(owner)

    return fence


def _impatient(_: object) -> Callable[..., bool]:
    """Dead is whose heartbeat was not renewed in a third of the lease and a bit, by the number that was seen."""

    def is_expired(sighting: Any, now_s: float) -> bool:
        return bool(now_s - sighting.since_s > sighting.lease_ms / 1000 * 0.5)

    return is_expired


MUTANTS: dict[str, Mutant] = {
    "revival": Mutant(
        guard="a renewal is conditional on the one before, so that it never writes over a fence",
        patch=attribute(SimTableClient, "put", _unconditional_heartbeats),
        scenario="skirmish",
        seeds=(4, 5, 7),
    ),
    "deadline": Mutant(
        guard="nothing is started past the deadline",
        patch=attribute(SessionMember, "may_start", lambda _: lambda member: not member._over),
        scenario="skirmish",
        seeds=(2, 4, 7),
    ),
    "from-the-answer": Mutant(
        guard="a lease counts from the request",
        patch=attribute(Session, "_adopt", _counting_from_the_answer),
        scenario="far skirmish",
        seeds=(4, 7, 8),
    ),
    "fence": Mutant(
        guard="who takes from the dead fences them first",
        patch=attribute(LeaseWatch, "fence", _fencing_nobody),
        scenario="skirmish",
        seeds=(0, 1),
    ),
    "patience": Mutant(
        guard="who watches waits for the whole lease and the margin",
        patch=attribute(watch_module, "is_expired", _impatient),
        scenario="skirmish",
        seeds=(6, 8),
    ),
    "suspend": Mutant(
        guard="the clock that leases are counted on goes on while the machine is suspended",
        patch=attribute(SimClock, "monotonic_s", lambda _: lambda clock: clock.boot_s + clock._loop.time()),
        scenario="skirmish",
        seeds=(3, 7, 8),
    ),
}
