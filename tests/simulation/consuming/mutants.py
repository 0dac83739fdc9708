"""The coordinator and its consumers with one guard removed, from the tests' side: runs without faults do not need it, the sweep does."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from penstock.consumers import blocked
from penstock.consumers.burial import Burial
from penstock.consumers.engine import QueueEngine
from penstock.consumers.older import OlderHandlers
from penstock.consumers.open_lanes import OpenLanes
from penstock.consumers.queue_life import QueueLife
from penstock.consumers.schedule import Schedule
from penstock.consumers.step import Step
from penstock.coordinator import cell as cells
from penstock.coordinator import lease
from penstock.coordinator.cell import QueueCell, State, Tries
from penstock.coordinator.cells import Cells, Stored
from penstock.coordinator.commands import caught_up
from penstock.coordinator.keeper import QueueKeeper
from penstock.coordinator.keys import QUEUES
from penstock.coordinator.offsets import OffsetSet
from penstock.coordinator.session import Member, Session
from penstock.coordinator.tables import CellVersion
from penstock.coordinator.watch import Watch
from penstock.coordinator.worker import Worker
from penstock.log.errors import StoreUnavailable
from tests.simulation.patches import Patch, always, attribute, both, everywhere
from tests.simulation.table import SimTableClient


@dataclass(frozen=True, kw_only=True, slots=True)
class Mutant:
    """One guard less."""

    guard: str
    """What it lacks."""
    rule: str
    """Of `judge`, that needs the guard first of all."""
    patch: Patch
    scenario: str
    seeds: tuple[int, ...] = ()
    """Of the scenario, that caught it when this was written."""
    calm: bool = True
    """Whether a run without faults goes right without it. (The judge sees some guards work, faults or not.)"""


# --- Ways to remove them ------------------------------------------------------------------------------------------------------------


def _blind(original: Any) -> Any:
    async def put(self: SimTableClient, key: str, data: bytes, *, expected: CellVersion | None) -> CellVersion:
        if not key.startswith(QUEUES):
            return await original(self, key, data, expected=expected)

        async def effect(memory: Any) -> CellVersion:
            stands = memory._cells.get(key)
            return await memory.put(key, data, expected=stands.version if stands is not None else None)

        return await self._connection.call("put", key, effect, data, conditional=True)

    return put


def _believing(original: Any) -> Any:
    async def write(self: Cells, key: str, data: bytes, *, on: Stored | None, deadline_s: float) -> Stored:
        """Takes a write without an answer for carried out."""
        if not key.startswith(QUEUES) or on is None:
            return await original(self, key, data, on=on, deadline_s=deadline_s)
        write_id = self._runtime.new_id()
        try:
            version = await self._table.put(key, bytes.fromhex(write_id) + data, expected=on.version)
        except StoreUnavailable:
            return Stored(data, on.version, write_id)
        except Exception:  # noqa: BLE001  # a conflict: whatever stands there, it goes on with it
            return await original(self, key, data, on=on, deadline_s=deadline_s)
        return Stored(data, version, write_id)

    return write


def _started_first(_: Any) -> Any:
    async def write(self: QueueEngine, step: Step) -> None:
        """Hands out what is granted, and then writes the grant."""
        self._around.worker.started(sum(len(run.messages) for run in step.runs))
        self._hand_out(step.runs)
        if not step.is_empty:
            await self.keeper.change(step.apply)
        for letter in step.letters:
            self._burial.give_up(letter)

    return write


def _unfenced(_: Any) -> Any:
    async def fence(self: Watch, owner: str) -> bool:
        return self.is_dead(owner)

    return fence


def _not_checked(_: Any) -> Any:
    def merged(self: QueueKeeper, changed: Any) -> QueueCell:
        stored = cells_of(changed)
        return replace(stored, epoch=self.cell.epoch, owner=self._holder.id)

    def cells_of(changed: Any) -> QueueCell:
        from penstock.coordinator.cell_codec import decode_cell

        return decode_cell(changed.stored.data, where="")

    return merged


def _blaming(original: Any) -> Any:
    def suspected(tries: Tries, in_flight: int) -> Tries:
        found: Tries = original(tries, in_flight)
        return replace(found, strikes=tries.strikes + 1) if tries.state is State.RUNNING else found

    return suspected


def _together(original: Any) -> Any:
    def suspected(tries: Tries, in_flight: int) -> Tries:
        found: Tries = original(tries, in_flight)
        return replace(found, company=max(2, in_flight), strikes=tries.strikes) if tries.state is State.RUNNING else found

    return suspected


def _forgetting(original: Any) -> Any:
    def taken_by(self: QueueCell, worker: str) -> QueueCell:
        """What was granted is fresh again."""
        taken: QueueCell = original(replace(self, granted=OffsetSet()), worker)
        return taken

    return taken_by


def _beside_others(_: Any) -> Any:
    @asynccontextmanager
    async def alone(self: Worker, member: Member, *, patience_s: float | None = None) -> Any:
        yield not member.ended.is_set()

    return alone


def _same_schedule(_: Any) -> Any:
    async def obey(self: QueueLife[Any]) -> None:
        """Carries a reset out in the cell, and goes on with what was in flight before."""
        record = self._record
        await self.keeper.change(lambda cell: caught_up(cell, record, self.topic, self.queue))
        self._obeyed = record
        self.schedule.adopt(self.keeper.cell)

    return obey


def _same_generation(original: Any) -> Any:
    def reset_to(self: QueueCell, position: int, generation: int) -> QueueCell:
        """Keeps what was in flight, and what was settled."""
        return replace(self, generation=generation)

    return reset_to


def _dropping(name: str, empty: Callable[[], Any]) -> Callable[[Any], Any]:
    """Steps that leave something out of the cell."""

    def make(original: Any) -> Any:
        def apply(self: Step, cell: QueueCell) -> QueueCell:
            kept = getattr(self, name)
            setattr(self, name, empty())
            try:
                return original(self, cell)
            finally:
                setattr(self, name, kept)

        return apply

    return make


def _buried_first(original: Any) -> Any:
    async def run(self: Burial, keeper: QueueKeeper, feed: Any) -> None:
        writer = self._writer
        real = writer.write

        async def write(letters: Any) -> None:
            last = letters[-1].sequence
            await keeper.change(lambda cell: cell.with_buried(last))
            await real(letters)

        writer.write = write  # type: ignore[method-assign]
        await original(self, keeper, feed)

    return run


def _at_once(_: Any) -> Any:
    def start(self: OlderHandlers, engine: QueueEngine, runs: Any) -> None:
        self._executor.start(engine, runs)

    return start


def _side_by_side(original: Any) -> Any:
    def start(self: OpenLanes, lane: Any, runs: Any) -> None:
        """Messages of a lane each in a run of its own, at once."""
        while lane.ready:
            lane.run = None
            kept = lane.ready
            lane.ready = type(kept)([kept.popleft()])
            original(self, lane, runs)
            lane.ready = kept

    return start


def _unfinished(_: Any) -> Any:
    def drain(self: Schedule, step: Step, cell: QueueCell) -> None:
        """Gives back what is granted though its handlers run."""
        for run in self.running:
            run.cancelled = True
        self.running.clear()
        step.given_back += [offset for first, limit in cell.granted.ranges() for offset in range(first, limit)]
        for offset, tries in cell.tries.items():
            if tries.state is State.RUNNING:
                step.tries[offset] = replace(tries, state=State.WAITING)
        for key, marker in cell.markers.items():
            if marker.tries.state is State.RUNNING:
                step.markers[key] = replace(marker, tries=replace(marker.tries, state=State.WAITING))

    return drain


MUTANTS: dict[str, Mutant] = {
    "conditional": Mutant(
        guard="a cell is written on the version that was read",
        rule="C9",
        patch=attribute(SimTableClient, "put", _blind),
        scenario="pauses",
        seeds=(1, 3),
    ),
    "read-back": Mutant(
        guard="a write without an answer is read back",
        rule="C7",
        patch=attribute(Cells, "write", _believing),
        scenario="orderly",
        seeds=(3,),
    ),
    "durable-attempts": Mutant(
        guard="attempts are durable before the handler starts",
        rule="C7",
        patch=attribute(QueueEngine, "_write", _started_first),
        scenario="orderly",
        seeds=(0,),
        calm=False,
    ),
    "deadline": Mutant(
        guard="an owner past its deadline starts nothing",
        rule="C9",
        patch=both(
            attribute(Session, "_check_deadline", lambda _: always(None)),
            attribute(Member, "until_s", lambda _: property(lambda self: -math.inf if self._over else math.inf)),
            attribute(Member, "may_start", lambda _: lambda self: not self._over),
        ),
        scenario="pauses",
        seeds=(0, 1),
    ),
    "whole-lease": Mutant(
        guard="a taker waits for the whole lease",
        rule="C9",
        patch=everywhere(lease.is_expired, lambda sighting, now_s: now_s > sighting.since_s + 0.42 * sighting.lease_ms / 1000),
        scenario="pauses",
        seeds=(1,),
    ),
    "fence": Mutant(
        guard="a dead worker's heartbeat is fenced before its queues are taken",
        rule="C9",
        patch=attribute(Watch, "fence", _unfenced),
        scenario="pauses",
        seeds=(0, 1),
    ),
    "before-every-handler": Mutant(
        guard="the lease is asked before every handler",
        rule="C9",
        patch=both(
            attribute(QueueEngine, "until_s", lambda _: property(lambda self: math.inf)),
            attribute(QueueEngine, "_abandon", lambda _: always(None)),
        ),
        scenario="pauses",
        seeds=(7,),
    ),
    "owner": Mutant(
        guard="who finds another owner in its cell has lost it",
        rule="C9",
        patch=attribute(QueueKeeper, "_merged", _not_checked),
        scenario="pauses",
        seeds=(3, 8),
    ),
    "suspects": Mutant(
        guard="what was in flight in the dead is suspect",
        rule="C7",
        patch=attribute(QueueCell, "taken_by", _forgetting),
        scenario="orderly",
        seeds=(0, 1),
    ),
    "strike-alone": Mutant(
        guard="a death is a strike only for who was alone",
        rule="C8",
        patch=everywhere(cells._suspected, _blaming(cells._suspected)),
        scenario="orderly",
        seeds=(0, 1),
    ),
    "halving": Mutant(
        guard="suspects run in smaller and smaller company",
        rule="C10",
        patch=everywhere(cells._suspected, _together(cells._suspected)),
        scenario="neighbours",
        seeds=(1, 2),
    ),
    "solo": Mutant(
        guard="who is to run alone runs alone in its process",
        rule="C8",
        patch=attribute(Worker, "alone", _beside_others),
        scenario="neighbours",
        seeds=(0, 1),
    ),
    "generation": Mutant(
        guard="a reset forgets what was in flight, and what was settled",
        rule="C6",
        patch=attribute(QueueCell, "reset_to", _same_generation),
        scenario="resets",
        seeds=(0, 1),
    ),
    "reset-in-memory": Mutant(
        guard="an owner forgets with the cell",
        rule="C1",
        patch=attribute(QueueLife, "_obey", _same_schedule),
        scenario="resets",
        seeds=(0, 1),
    ),
    "listed": Mutant(
        guard="messages of blocked groups that are passed over are listed",
        rule="C6",
        patch=attribute(Step, "apply", _dropping("listed", list)),
        scenario="orderly",
        seeds=(1, 3),
    ),
    "waiting": Mutant(
        guard="a failed message is in the waiting list",
        rule="C1",
        patch=attribute(Step, "apply", _dropping("tries", dict)),
        scenario="concurrent",
        seeds=(0, 1),
    ),
    "markers": Mutant(
        guard="a blocked group has a marker",
        rule="C4",
        patch=attribute(Step, "apply", _dropping("markers", dict)),
        scenario="orderly",
        seeds=(0, 1),
    ),
    "caught-up": Mutant(
        guard="a marker stays until its group has caught up",
        rule="C1",
        patch=everywhere(blocked._has_caught_up, always(True)),
        scenario="narrow",
        seeds=(1, 2),
    ),
    "buried": Mutant(
        guard="a dead letter stays assigned until it is durable",
        rule="C8",
        patch=attribute(Burial, "run", _buried_first),
        scenario="resets",
        seeds=(4, 7),
    ),
    "older-handlers": Mutant(
        guard="nothing of a group starts while an older handler of it runs",
        rule="C4",
        patch=attribute(OlderHandlers, "start", _at_once),
        scenario="pauses",
        seeds=(1, 2),
    ),
    "one-by-one": Mutant(
        guard="a message group's messages run one by one",
        rule="C4",
        patch=attribute(OpenLanes, "start", _side_by_side),
        scenario="orderly",
        seeds=(0, 1),
        calm=False,
    ),
    "drain": Mutant(
        guard="a queue is released when nothing of it runs",
        rule="C7",
        patch=attribute(Schedule, "_drain", _unfinished),
        scenario="deploys",
        seeds=(0, 1),
    ),
}
