"""Finds living workers by watching their heartbeats, for operators."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum

from ...log.errors import PenstockError
from ...log.runtime.runtime import Runtime
from ..cells.cells import Cells
from ..cells.keys import WORKERS, worker_key
from .lease import Heartbeat, Sighting, decode_heartbeat, is_expired, sighting_of

_LOOK_S = 0.25
_REMEMBERED_MS = 24 * 3_600_000


class WorkerState(StrEnum):
    """The known state of a worker."""

    LIVES = "lives"
    """Its heart beat while it was watched."""
    SILENT = "silent"
    """Its heart did not beat, and its lease may still run."""
    EXPIRED = "expired"
    """Its heart did not beat for its lease and the margin: others take over."""
    FENCED = "fenced"
    """Others have taken it for dead."""
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """One worker after it was watched."""

    worker: str
    state: WorkerState
    heartbeat: Heartbeat | None

    @property
    def may_live(self) -> bool:
        return self.state in (WorkerState.LIVES, WorkerState.SILENT)


async def workers(cells: Cells) -> list[str]:
    """All workers, dead ones included. May read the whole table."""
    return [key.removeprefix(WORKERS) for key in await cells.keys(WORKERS)]


async def workers_of(cells: Cells, group: str) -> list[str]:
    """The workers with a consumer of this group, dead ones included."""
    found: list[str] = []
    for key, stored in (await cells.read_all([WORKERS], {})).items():
        if isinstance(stored, PenstockError):
            raise stored
        if any(one.group == group for one in decode_heartbeat(stored.data, where=key).members):
            found.append(key.removeprefix(WORKERS))
    return sorted(found)


async def forget_fenced(cells: Cells, runtime: Runtime) -> int:
    """Remove the heartbeats of workers fenced more than a day ago, for late first heartbeats. Returns their number. May read the whole table."""
    until_ms, forgotten = runtime.clock.wall_ms() - _REMEMBERED_MS, 0
    for name in await workers(cells):
        stored = await cells.read(worker_key(name))
        heartbeat = None if stored is None else decode_heartbeat(stored.data, where=worker_key(name))
        if stored is not None and heartbeat is not None and heartbeat.fenced and heartbeat.fenced_ms < until_ms:
            await cells.drop(worker_key(name), on=stored)
            forgotten += 1
    return forgotten


async def watch_workers(
    cells: Cells,
    runtime: Runtime,
    names: Collection[str],
    *,
    patience_s: float = math.inf,
    enough: Callable[[WorkerStatus], bool] = lambda _: False,
) -> list[WorkerStatus]:
    """Watch these workers until each is known to live or not (a lease and a quarter), at most for ``patience_s``, or until ``enough``
    holds for one.
    """
    clock = runtime.clock
    until_s = clock.monotonic_s() + patience_s
    sightings: dict[str, Sighting] = {}
    seen: dict[str, WorkerStatus] = {}
    while True:
        undecided = [name for name in names if name not in seen or seen[name].state is WorkerState.SILENT]
        for name in undecided:
            stored = await cells.read(worker_key(name))
            found = None if stored is None else decode_heartbeat(stored.data, where=worker_key(name))
            before, now_s = sightings.get(name), clock.monotonic_s()
            if found is not None:
                sightings[name] = sighting_of(before, found, now_s)
            seen[name] = WorkerStatus(name, state_of(found, before, sightings.get(name), now_s), found)
            if enough(seen[name]):
                return list(seen.values())
        if all(one.state is not WorkerState.SILENT for one in seen.values()) or clock.monotonic_s() + _LOOK_S > until_s:
            return [seen[name] for name in names]
        await asyncio.sleep(_LOOK_S)


def state_of(found: Heartbeat | None, before: Sighting | None, now: Sighting | None, now_s: float) -> WorkerState:
    if found is None:
        return WorkerState.LEFT
    if found.fenced:  # a worker that leaves fences itself once nobody lives in it
        return WorkerState.FENCED if found.members else WorkerState.LEFT
    if before is not None and now != before:
        return WorkerState.LIVES
    assert now is not None, "it was found"
    return WorkerState.EXPIRED if is_expired(now, now_s) else WorkerState.SILENT
