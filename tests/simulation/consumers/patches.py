"""Ways to remove a guard of the coordinator and its consumers for a while: `mutants` says which guard is which."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from penstock.consumers.dead_letters.copy_writer import Copy, CopyWriter
from penstock.consumers.queues.dead_letter_task import DeadLetterTask
from penstock.consumers.queues.dispatcher import Dispatcher
from penstock.consumers.queues.processor import QueueProcessor
from penstock.consumers.queues.push_processor import PushProcessor
from penstock.consumers.schedule.open_lanes import OpenLanes
from penstock.consumers.schedule.push import PushSchedule
from penstock.consumers.schedule.step import Step
from penstock.coordinator.cells.cells import CellChanged, Cells, StoredCell
from penstock.coordinator.groups.record import GroupRecord
from penstock.coordinator.queues.cell import MessageState, QueueCell, Tries
from penstock.coordinator.queues.codec import decode_cell, encode_cell
from penstock.coordinator.queues.commands import caught_up
from penstock.coordinator.queues.keeper import Holder, QueueKeeper
from penstock.coordinator.queues.offsets import OffsetSet
from penstock.coordinator.rebalance.owned_queues import OwnedQueues
from penstock.coordinator.workers.session import SessionMember
from penstock.coordinator.workers.watch import LeaseWatch
from penstock.coordinator.workers.worker import Worker


def started_first(_: Any) -> Any:
    async def write(self: PushProcessor, step: Step) -> None:
        """Hands out what is granted, and then writes the grant."""
        self._around.worker.started(sum(len(run.messages) for run in step.runs))
        self._hand_out(step.runs)
        self._dead_letters.give_up(step.letters)
        if not step.is_empty:
            await self.keeper.change(step.apply)
        self._dead_letters.wake()

    return write


def unfenced(_: Any) -> Any:
    async def fence(self: LeaseWatch, owner: str) -> bool:
        return self.is_dead(owner)

    return fence


async def giving_up_its_own(
    cells: Cells, holder: Holder, key: str, *, begin: QueueCell, found: StoredCell | None
) -> QueueKeeper | None:
    """`take` that takes an own write of before, which came late, for another's."""
    cell = (decode_cell(found.data, where=key) if found is not None else begin).taken_by(holder.id)
    try:
        stored = await cells.write(key, encode_cell(cell), on=found, deadline_s=holder.until_s)
    except CellChanged as changed:
        if changed.stored is None:
            return None
        stored, standing = changed.stored, decode_cell(changed.stored.data, where=key)
        if (standing.owner, standing.epoch) != (holder.id, cell.epoch):
            return None
        cell = standing
    return QueueKeeper(cells, holder, key, cell, stored)


def looked_at_once(original: Any) -> Any:
    async def settle_doubts(self: OwnedQueues, record: GroupRecord) -> None:
        """Forgets what a first look does not settle."""
        before = dict(self._doubtful)
        await original(self, record)
        for queue in before.keys() & self._doubtful.keys():
            del self._doubtful[queue]

    return settle_doubts


def not_checked(_: Any) -> Any:
    def merged(self: QueueKeeper, changed: Any) -> QueueCell:
        stored = cells_of(changed)
        return replace(stored, epoch=self.cell.epoch, owner=self._holder.id)

    def cells_of(changed: Any) -> QueueCell:
        return decode_cell(changed.stored.data, where="")

    return merged


def blaming(original: Any) -> Any:
    def suspected(tries: Tries, in_flight: int) -> Tries:
        found: Tries = original(tries, in_flight)
        return replace(found, strikes=tries.strikes + 1) if tries.state is MessageState.RUNNING else found

    return suspected


def together(original: Any) -> Any:
    def suspected(tries: Tries, in_flight: int) -> Tries:
        found: Tries = original(tries, in_flight)
        return replace(found, company=max(2, in_flight), strikes=tries.strikes) if tries.state is MessageState.RUNNING else found

    return suspected


def forgetting(original: Any) -> Any:
    def taken_by(self: QueueCell, worker: str) -> QueueCell:
        """What was granted is fresh again."""
        taken: QueueCell = original(replace(self, granted=OffsetSet()), worker)
        return taken

    return taken_by


def beside_others(_: Any) -> Any:
    @asynccontextmanager
    async def alone(self: Worker, member: SessionMember, *, patience_s: float | None = None) -> Any:
        yield not member.ended.is_set()

    return alone


def same_schedule(_: Any) -> Any:
    async def obey(self: QueueProcessor[Any]) -> None:
        """Carries a reset out in the cell, and goes on with what was in flight before."""
        record = self._record
        await self.keeper.change(lambda cell: caught_up(cell, record, self.topic, self.queue))
        self._obeyed = record
        self.schedule.adopt(self.keeper.cell)

    return obey


def same_generation(original: Any) -> Any:
    def reset_to(self: QueueCell, position: int, generation: int) -> QueueCell:
        """Keeps what was in flight, and what was settled."""
        return replace(self, generation=generation)

    return reset_to


def dropping(name: str, empty: Callable[[], Any]) -> Callable[[Any], Any]:
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


def buried_first(original: Any) -> Any:
    async def run(self: DeadLetterTask, keeper: QueueKeeper, feed: Any, *rest: Any) -> None:
        writer = self._writer
        real = writer.write

        async def write(letters: Any, *, lost: Any = (), given: Any = None) -> list[int]:
            last = letters[-1].sequence
            await keeper.change(lambda cell: cell.with_dead_letters_written(last))
            return await real(letters, lost=lost, given=given)

        writer.write = write  # type: ignore[method-assign]
        await original(self, keeper, feed, *rest)

    return run


def at_once(_: Any) -> Any:
    def start(self: Dispatcher, processor: PushProcessor, runs: Any) -> None:
        self.executor.start(processor, runs)

    return start


def side_by_side(original: Any) -> Any:
    def start(self: OpenLanes, lane: Any, runs: Any) -> None:
        """Messages of a lane each in a run of its own, at once."""
        while lane.ready:
            lane.run = None
            kept = lane.take_all()
            lane.ready = (kept.cut(0, 1),)
            original(self, lane, runs)
            lane.put_back(kept.cut(1))

    return start


def unfinished(_: Any) -> Any:
    def drain(self: PushSchedule, step: Step, cell: QueueCell, now_ms: int) -> None:
        """Gives back what is granted though its handlers run."""
        for run in self.running:
            run.cancelled = True
        self.running.clear()
        step.given_back += [offset for first, limit in cell.granted.ranges() for offset in range(first, limit)]
        for offset, tries in cell.tries.items():
            if tries.state is MessageState.RUNNING:
                step.tries[offset] = replace(tries, state=MessageState.WAITING)
        for key, marker in cell.markers.items():
            if marker.tries.state is MessageState.RUNNING:
                step.markers[key] = replace(marker, tries=replace(marker.tries, state=MessageState.WAITING))

    return drain


def nameless(_: Any) -> Any:
    async def last_sequence(self: CopyWriter, known: int = -1) -> int:
        if self._producer is None:
            if self._prepare is not None:
                await self._prepare()
            self._producer = await self._lake.producer(self._topic)
        return -1

    return last_sequence


def without_sequences(original: Any) -> Any:
    def rows(self: CopyWriter, batch: list[Copy]) -> Any:
        table = original(self, batch)
        return table.set_column(table.column_names.index("sequence"), "sequence", [[None] * table.num_rows])

    return rows


def one_name(original: Any) -> Any:
    """All queues' dead letters go under the name of their topic."""
    return lambda *parts: original(*parts[:-1])


def unchanged(_: Any) -> Any:
    return lambda letters: letters


def from_the_first(_: Any) -> Any:
    return lambda life: 0


def unasked(_: Any) -> Any:
    return lambda topic, *, known, life: None


def kept(_: Any) -> Any:
    return lambda cell, since: cell


def not_looked_at(_: Any) -> Any:
    async def check_not_taken(self: CopyWriter, copies: Any, last: int) -> None:
        """Whatever has such a sequence is what it was given to."""

    return check_not_taken
