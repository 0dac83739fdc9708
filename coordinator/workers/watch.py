"""Other workers by their heartbeats: live, over, or to be fenced."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from ...log.errors import RetryError, UnknownOutcome
from ...log.runtime.runtime import Runtime
from ..cells.cells import CellChanged, Cells, StoredCell
from ..cells.keys import worker_key, worker_of
from .lease import (
    BEATS_PER_LEASE,
    LEASE_IDLE_S,
    MARGIN,
    Heartbeat,
    ListedMember,
    Sighting,
    decode_heartbeat,
    encode_heartbeat,
    is_expired,
    sighting_of,
)

_EARLY = 0.9
"""The part of a heartbeat's interval after which the next may come."""
_LOOKS_PER_LEASE = 20
_LOOKS_PER_IDLE_LEASE = 9
_STEP_MAX_S = 0.5
_TICK_S = 0.001
_PATIENCE_S = 2.0
"""The timeout of one request."""
_FORGET_S = 600.0


@dataclass(slots=True)
class _Watched:
    heartbeat: Heartbeat | None = None
    stored: StoredCell | None = None
    sighting: Sighting | None = None
    over: bool = False
    """Whether it is fenced or gone."""
    members_over: set[str] = field(default_factory=set)
    looked_s: float = -math.inf
    look_s: float = -math.inf
    asked_s: float = 0.0
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    def alive(self) -> dict[str, ListedMember]:
        return (
            {f"{self.heartbeat.worker}/{one.number}": one for one in self.heartbeat.members} if self.heartbeat is not None else {}
        )

    def must_be_looked_at(self, asked: Collection[str], now_s: float) -> bool:
        if self.over:
            return False
        return now_s >= self.look_s or not {*self.members_over, *self.alive()}.issuperset(asked)


class LeaseWatch:
    """This process's knowledge of others' leases, shared by its consumers."""

    def __init__(self, cells: Cells, runtime: Runtime) -> None:
        self._cells = cells
        self._clock = runtime.clock
        self._workers: dict[str, _Watched] = {}

    async def look(self, owners: Collection[str]) -> None:
        """Read the due heartbeats of these members' workers, of names older than the call: a member missing in a later heartbeat is over."""
        now_s = self._clock.monotonic_s()
        self._forget(now_s)
        members: dict[str, list[str]] = {}
        for owner in sorted(owners):  # always in the same order, so that a simulated run can be played again
            members.setdefault(worker_of(owner), []).append(owner)
        await asyncio.gather(*(self._look_at(worker, asked) for worker, asked in members.items()))

    def is_dead(self, owner: str) -> bool:
        """Whether a member is over, or its worker may be fenced."""
        watched = self._workers.get(worker_of(owner))
        if watched is None:
            return False
        if watched.over or owner in watched.members_over:
            return True
        return watched.sighting is not None and is_expired(watched.sighting, self._clock.monotonic_s())

    async def fence(self, owner: str) -> bool:
        """Make sure that a dead member never comes back. False: its worker beat again, or the outcome is unknown."""
        watched = self._workers.get(worker_of(owner))
        if watched is None or not self.is_dead(owner):
            return False
        if watched.over or owner in watched.members_over:
            return True
        async with watched.reading:
            if watched.over or watched.heartbeat is None or not self.is_dead(owner):
                return watched.over
            fenced = encode_heartbeat(replace(watched.heartbeat, fenced=True, fenced_ms=self._clock.wall_ms()))
            deadline_s = self._clock.monotonic_s() + _PATIENCE_S
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    await self._cells.write(worker_key(worker_of(owner)), fenced, on=watched.stored, deadline_s=deadline_s)
            except CellChanged as changed:
                self._saw(watched, worker_of(owner), changed.stored, self._clock.monotonic_s())
            except (RetryError, UnknownOutcome, TimeoutError):
                return False
            else:
                watched.over = True
            return watched.over

    def listed(self, owner: str) -> ListedMember | None:
        watched = self._workers.get(worker_of(owner))
        return watched.alive().get(owner) if watched is not None else None

    def beat(self, owner: str) -> int | None:
        """The last read number of a heartbeat. A rise proves life."""
        watched = self._workers.get(worker_of(owner))
        return watched.heartbeat.beat if watched is not None and watched.heartbeat is not None else None

    def due_s(self, owners: Iterable[str]) -> float:
        """The monotonic time of the next look at them; infinite for those that are over."""
        watched = [self._workers.get(worker_of(owner)) for owner in owners]
        return min((-math.inf if one is None else math.inf if one.over else one.look_s for one in watched), default=math.inf)

    async def _look_at(self, worker: str, asked: Collection[str]) -> None:
        watched = self._workers.setdefault(worker, _Watched())
        watched.asked_s = self._clock.monotonic_s()
        if not watched.must_be_looked_at(asked, watched.asked_s):
            return
        async with watched.reading:
            began_s = self._clock.monotonic_s()
            if not watched.must_be_looked_at(asked, began_s):
                return
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    stored = await self._cells.read(worker_key(worker))
            except (RetryError, TimeoutError):
                watched.look_s = self._clock.monotonic_s() + _STEP_MAX_S
                return
            self._saw(watched, worker, stored, began_s)
            watched.members_over.update(set(asked) - watched.alive().keys())

    def _saw(self, watched: _Watched, worker: str, stored: StoredCell | None, began_s: float) -> None:
        now_s = self._clock.monotonic_s()
        found = decode_heartbeat(stored.data, where=worker_key(worker)) if stored is not None else None
        watched.heartbeat, watched.stored = found, stored
        if found is None or found.fenced:
            watched.over, watched.sighting = True, None
            return
        before, watched.sighting = watched.sighting, sighting_of(watched.sighting, found, now_s)
        lease_s = found.lease_ms / 1000
        watched.look_s = now_s + _step_s(lease_s)
        if watched.sighting is not before:
            # The heartbeat was written after the look before this one began, so the next one comes no sooner than a beat after
            # that.
            watched.look_s = max(watched.look_s, watched.looked_s + _EARLY * lease_s / BEATS_PER_LEASE)
        expires_s = watched.sighting.since_s + lease_s * (1 + MARGIN) + _TICK_S
        if now_s < expires_s:
            watched.look_s = min(watched.look_s, expires_s)
        watched.looked_s = began_s

    def _forget(self, now_s: float) -> None:
        for worker in [
            worker for worker, one in self._workers.items() if now_s - one.asked_s > _FORGET_S and not one.reading.locked()
        ]:
            del self._workers[worker]


def _step_s(lease_s: float) -> float:
    """The time between two looks at a due heartbeat; longer for an idle worker."""
    if lease_s >= LEASE_IDLE_S:
        return lease_s / _LOOKS_PER_IDLE_LEASE
    return min(lease_s / _LOOKS_PER_LEASE, _STEP_MAX_S)
