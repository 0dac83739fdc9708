"""Lists and recalls the waiting messages of a topic's timers, in any process."""

from __future__ import annotations

from contextlib import aclosing

import pyarrow as pa
import pyarrow.compute as pc

from ...log.errors import DataDamaged, UnknownOutcome
from ...log.lake import LogLake
from ...log.produce.delays import QUEUE
from ...log.read.reader import Reader
from ...log.runtime.runtime import Clock
from ...log.stores.protocol import ObjectMissing
from ..cells.cells import CellChanged, Cells
from .cell.cell import TimerCell
from .cell.selection import FOREVER, WaitingIndex, within
from .cell.state import DeliveredBounds, DuePosition, TimerState, not_recallable
from .options import TimerOptions
from .runs.memtable import TimedRows
from .runs.recalls import RecallObjects
from .runs.run_files import OpenRun, next_unloaded, run_key

_GROUP_BYTES = TimerOptions().group_bytes
_ROWS_AT_ONCE = 50_000


async def read_timer_state(cells: Cells, clock: Clock, topic: str, log_incarnation: str) -> TimerState:
    return await TimerCell(cells, clock, topic, log_incarnation).read()


async def recall(
    cells: Cells, clock: Clock, topic: str, log_incarnation: str, due: DuePosition, *, lake: LogLake | None = None
) -> None:
    """Recall a message that waits in the timer log. Raises `NotRecallable`, `LimitExceeded`, and `UnknownOutcome`: then try again. The caller checks
    that the message exists. With ``lake`` an old recall is recognised too.
    """
    cell = TimerCell(cells, clock, topic, log_incarnation)
    gone = None if lake is None else RecallObjects(lake.store, lake.runtime, topic, log_incarnation)
    state, is_repeated = await cell.read(), False
    while True:
        is_recalled = due in state.recalled
        if gone is not None and not is_recalled:
            await gone.keep_to(state.recalls)  # read for the state that is changed below, as the player moves recalls meanwhile
            is_recalled = gone.has(due)
        if is_repeated and (is_recalled or state.settled.within(due)):
            raise UnknownOutcome(
                "the message was recalled or let go, and the cell does not tell which, nor whether by this call",
                operation="recall",
                object=cell.key,
                hint="recall it again: as long as its time is not over, the error says which it was",
            )
        if is_recalled:
            raise not_recallable(again=True)
        try:
            await cell.write(state.with_recalled(due))
            return
        except CellChanged:
            state, is_repeated = cell.state, True


async def waiting(
    lake: LogLake,
    cells: Cells,
    topic: str,
    *,
    from_us: int | None = None,
    until_us: int | None = None,
    limit: int | None = None,
    message_id: str | None = None,
) -> pa.Table:
    """The waiting rows of the timer log, in delivery order: those due from ``from_us`` on, before ``until_us``.

    ``limit`` takes the first ones, ``message_id`` those with this id. Messages on their way or recalled are not included. Raises `TopicNotFound` and
    `DataDamaged`.
    """
    _, log = await lake.timer_log(topic)
    life = log.record.incarnation
    cell = TimerCell(cells, lake.runtime.clock, topic, life)
    while True:
        state = await cell.read()
        recalls = RecallObjects(lake.store, lake.runtime, topic, life)
        wanted = _Wanted(state, recalls, FOREVER if until_us is None else DuePosition(until_us, -1), from_us, limit, message_id)
        try:
            await recalls.keep_to(state.recalls)
            await _add_runs(lake, topic, life, wanted)
        except ObjectMissing as error:
            if await cell.read() == state:
                raise DataDamaged("a run of timers is missing", operation="list waiting messages", object=error.object) from error
            continue  # it was merged, perhaps long ago if this process slept meanwhile
        source = Reader(log).read(queue=QUEUE, start=state.gathered)
        async with aclosing(source):
            async for batch in source:
                wanted.add(batch)
        return wanted.table()


class _Wanted:
    def __init__(
        self,
        state: TimerState,
        recalls: RecallObjects,
        until: DuePosition,
        from_us: int | None,
        limit: int | None,
        message_id: str | None,
    ) -> None:
        self.state = state
        self._recalls = recalls
        self._message_id = message_id
        self._until = until
        self.begin = DuePosition(-1 if from_us is None else from_us, -1)
        self._limit = limit
        self._rows = TimedRows()

    @property
    def end(self) -> DuePosition:
        if self._limit is None or len(self._rows) < self._limit or not len(self._rows):
            return self._until
        here = self._ordered()
        last = min(len(here), self._limit) - 1
        return DuePosition(int(here.time_us[last]), int(here.offset[last]) + 1)

    def add(self, batch: pa.RecordBatch) -> None:
        if self._message_id is not None:
            batch = batch.filter(pc.equal(batch.column("message_id"), self._message_id))
        rows = TimedRows()
        rows.add(batch)
        chosen = self._chosen(rows.waiting)
        for one in rows.take(chosen).to_batches():
            self._rows.add(one)
        if self._limit is not None and len(self._rows) > self._limit + _ROWS_AT_ONCE:
            self._rows = self._first()

    def table(self) -> pa.Table:
        chosen = self._ordered()
        return self._rows.take(WaitingIndex(chosen.time_us[: self._limit], chosen.offset[: self._limit]))

    def _first(self) -> TimedRows:
        rows = TimedRows()
        for batch in self.table().to_batches():
            rows.add(batch)
        return rows

    def _chosen(self, here: WaitingIndex) -> WaitingIndex:
        inside = within(here, DeliveredBounds(FOREVER.offset, DuePosition(self._until.time_us, self._until.offset - 1)))
        early = within(here, DeliveredBounds(FOREVER.offset, self.begin))
        return self._recalls.without(here.only(inside & ~early & ~within(here, self.state.bounds)), self.state)

    def _ordered(self) -> WaitingIndex:
        return self._rows.waiting.within(DeliveredBounds(FOREVER.offset, FOREVER))


async def _add_runs(lake: LogLake, topic: str, life: str, wanted: _Wanted) -> None:
    runs = [
        await OpenRun.open(lake.store, lake.runtime, run_key(topic, life, run.name), run, whole_bytes_max=_GROUP_BYTES)
        for run in wanted.state.runs
    ]
    for run in runs:
        run.pass_over(max(wanted.state.bounds.due, wanted.begin))
    while (following := next_unloaded(runs)) is not None and following.next is not None and following.next < wanted.end:
        await following.load()
        for batch in following.rows.take(following.rows.waiting).to_batches():
            wanted.add(batch)
        following.rows = TimedRows()
