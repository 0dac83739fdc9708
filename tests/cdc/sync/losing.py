"""Takes the lease of a sync that runs in this process, as another process does that takes it for dead."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from penstock.cdc.sync.options import Moment
from penstock.coordinator.cells.cells import CellChanged
from penstock.coordinator.cells.keys import worker_key
from penstock.coordinator.lakes import LakePlace, lakes
from penstock.coordinator.workers.lease import decode_heartbeat, encode_heartbeat
from penstock.coordinator.workers.worker import LeaseLost

_WRITE_S = 60.0
_IN_A_ROW_MAX = 3
"""A run takes a few more."""


def lose_lease(lake: str) -> None:
    """Returns once the worker of this process knows that it lost it."""
    opened = lakes.open(LakePlace.of(lake))

    async def lose() -> None:
        coordination = await opened.coordination()
        key = worker_key(coordination.worker.id)
        stored = await coordination.cells.read(key)
        while stored is not None:
            fenced = encode_heartbeat(replace(decode_heartbeat(stored.data, where=key), fenced=True))
            deadline_s = opened.lake.runtime.clock.monotonic_s() + _WRITE_S
            try:
                await coordination.cells.write(key, fenced, on=stored, deadline_s=deadline_s)
            except CellChanged as changed:  # it beat meanwhile
                stored = changed.stored
            else:
                break
        with suppress(LeaseLost):  # its next heartbeat finds that
            await (await coordination.worker.join("")).leave()

    opened.run(lose)


def has_lease(lake: str) -> bool:
    """Whether the worker of this process lives."""
    opened = lakes.open(LakePlace.of(lake))

    async def look() -> bool:
        return bool((await opened.coordination()).worker.id)

    return opened.run(look)


def commits(into: Path) -> int:
    """Of all targets."""
    return len(list(into.glob("*/_delta_log/*.json")))


@dataclass
class Loses:
    """Loses the lease at each of these points, once or ``always``, then has ``meanwhile`` happen, and sees that nothing is committed before
    there is another lease.
    """

    lake: str
    into: Path
    points: Collection[tuple[str, Moment]]
    always: bool = False
    under_way: int = 0
    """How many other merges may be beyond their look at the lease."""
    meanwhile: Callable[[], object] = lambda: None
    lost: list[tuple[str, Moment]] = field(default_factory=list)
    begun: int = 0
    """How often a batch was looked for."""
    _in_a_row: int = 0
    _commits: int | None = None
    """When the lease was lost; None: there is one."""

    def reached(self, step: str, moment: Moment, what: str = "") -> None:
        point = (step, moment)
        self.begun += point == ("read", "before")
        if point == ("progress", "after"):
            self._in_a_row = 0
        if self._commits is not None:
            late = commits(self.into) - self._commits
            assert 0 <= late <= self.under_way, f"committed without a lease before {moment} {step} {what}"
            if not has_lease(self.lake):
                return
            self._commits = None
        if point in self.points and (self.always or (point not in self.lost and self._in_a_row < _IN_A_ROW_MAX)):
            self.lost.append(point)
            self._in_a_row += 1
            lose_lease(self.lake)
            self.meanwhile()
            self._commits = commits(self.into)
