"""Ways to remove a guard of messages that wait outside of their queue's cell; `spill_mutants` says which guard is which."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from msgspec import structs

from penstock.consumers.queues.spill_task import SpillTask
from penstock.consumers.schedule.tracked_messages import TrackedMessages
from penstock.coordinator.queues.cell import MessageState, QueueCell, Spill, Tries
from penstock.coordinator.queues.keeper import QueueKeeper
from penstock.coordinator.queues.spills import SpillReturn
from penstock.coordinator.registry.spill_objects import WAITING
from penstock.log.errors import PenstockError
from penstock.log.stores.protocol import Version
from tests.simulation.store import SimClient


def not_waited_for(original: Any) -> Any:
    async def put(self: SimClient, key: str, data: Any, *, mode: Any) -> Version:
        if not key.startswith(WAITING):
            return await original(self, key, data, mode=mode)

        async def write() -> None:
            with suppress(PenstockError):
                await original(self, key, data, mode=mode)

        asyncio.ensure_future(write())  # noqa: RUF006 - it ends with its process
        return Version("")

    return put


def deleted_at_once(original: Any) -> Any:
    async def spill(self: SpillTask, keeper: QueueKeeper) -> bool:
        """Takes the rows of what comes back next for taken before the cell says so."""
        for one in keeper.cell.spills[:1]:
            with suppress(PenstockError):
                await self._objects.delete([one.id])
        return await original(self, keeper)

    return spill


def never_counted(original: Any) -> Any:
    def with_returned(cell: QueueCell, returning: Sequence[SpillReturn], generation: int) -> QueueCell:
        """Of an object's rows that came back the last one stays where it was, too, unless the object has no others."""
        after: QueueCell = original(cell, returning, generation)
        last = {one.after: list(one.waiting.items())[-1] for one in returning if one.after is not None}
        return structs.replace(after, spills=tuple(_one_back(one, last[one]) if one in last else one for one in after.spills))

    return with_returned


def _one_back(spill: Spill, last: tuple[int, Tries]) -> Spill:
    offset, tries = last
    return Spill(spill.id, spill.taken - 1, spill.count + 1, tries.due_ms, min(spill.first_offset, offset))


def still_in_the_cell(original: Any) -> Any:
    def with_spilled(cell: QueueCell, spill: Spill, waiting: Mapping[int, Tries], generation: int) -> QueueCell:
        after: QueueCell = original(cell, spill, waiting, generation)
        return structs.replace(after, tries=cell.tries)

    return with_spilled


def not_named(original: Any) -> Any:
    def with_spilled(cell: QueueCell, spill: Spill, waiting: Mapping[int, Tries], generation: int) -> QueueCell:
        after: QueueCell = original(cell, spill, waiting, generation)
        return structs.replace(after, spills=cell.spills)

    return with_spilled


def of_any_generation(original: Any) -> Any:
    def with_returned(cell: QueueCell, returning: Sequence[SpillReturn], generation: int) -> QueueCell:
        """Lets rows come back into a cell that was reset meanwhile."""
        if cell.generation == generation:
            return original(cell, returning, generation)
        return cell.with_all_tries({offset: tries for one in returning for offset, tries in one.waiting.items()})

    return with_returned


def kept_by_a_reset(original: Any) -> Any:
    def reset_to(self: QueueCell, position: int, generation: int) -> QueueCell:
        after: QueueCell = original(self, position, generation)
        return structs.replace(after, spills=self.spills)

    return reset_to


def left_to_the_dead(original: Any) -> Any:
    def taken_by(self: QueueCell, worker: str) -> QueueCell:
        after: QueueCell = original(self, worker)
        return structs.replace(after, spills=())

    return taken_by


def only_in_the_cell(_: Any) -> Any:
    def first_listed(self: QueueCell) -> int | None:
        return min([*self.tries, *(marker.head for marker in self.markers.values())], default=None)

    return property(first_listed)


def run_meanwhile(original: Any) -> Any:
    def spill(self: TrackedMessages, most: int) -> Mapping[int, Tries]:
        """What is about to leave may be run until it has left."""
        waiting: Mapping[int, Tries] = original(self, most)
        kept = {offset: structs.replace(tries, due_ms=0) for offset, tries in waiting.items()}
        self.returned(kept)
        self._leaving.update(waiting)
        return waiting

    return spill


def forgotten_when_unreadable(original: Any) -> Any:
    async def read(self: SpillTask, keeper: QueueKeeper, spill: Spill) -> Any:
        """Goes on without an object that cannot be read."""
        rows = await original(self, keeper, spill)
        if rows is None:
            await keeper.change(lambda cell: structs.replace(cell, spills=tuple(one for one in cell.spills if one != spill)))
        return rows

    return read


def forgetful(original: Any) -> Any:
    def nearest(*given: Any) -> list[SpillReturn]:
        """Messages come back as if they had failed once."""
        found: list[SpillReturn] = original(*given)
        once = [{offset: Tries(MessageState.WAITING, 1, 1, tries.due_ms) for offset, tries in one.waiting.items()} for one in found]
        return [replace(one, waiting=waiting) for one, waiting in zip(found, once, strict=True)]

    return nearest
