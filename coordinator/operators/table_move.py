"""A lake's move to another coordination table, begun again after a crash at any point.

The record of the lake decides: up to the one write that names the other table, the former one is the lake's, and any process that writes to it gives
the move up. From that write on the other one is, and every cell of the former is marked, so that a late process is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from ...log.errors import InvalidArgument
from ...log.runtime.runtime import Runtime
from ...log.stores.protocol import ObjectStore
from ..cells.agreement import PROOF_S, table_record
from ..cells.cells import CellChanged, StoredCell
from ..cells.document import WRITE_S, Document
from ..cells.keys import LAKE, REDRIVES, TABLE, TIMERS, WORKERS, worker_key
from ..cells.moved import moved_cell
from ..cells.table_record import Move, TableIdentity, TableRecord, mismatch
from ..workers.lease import MARGIN, decode_heartbeat, encode_heartbeat
from ..workers.liveness import WorkerState, WorkerStatus, watch_workers, workers
from .lake_table import CoordinationInUse, NamedTable

_NAMES = frozenset({TABLE, LAKE})
_STAYS = (WORKERS, TIMERS, REDRIVES)
"""What is of one table: its name, and the heartbeats of its workers. Or always lies in the lake."""
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveReport:
    """What a move has done."""

    record: TableRecord
    moved: bool
    """Whether this call wrote the record. If not, an earlier one had."""
    cells: int
    bytes: int


async def move_table(
    source: str | None, target: str | None, *, store: ObjectStore, runtime: Runtime, tell: Tell = lambda what: None
) -> MoveReport:
    """Move the lake in ``store`` from one table to another (`TableMove`), named as in `open_table`. ``tell`` hears of its steps."""
    async with (
        NamedTable.open(source, store=store, runtime=runtime) as former,
        NamedTable.open(target, store=store, runtime=runtime) as other,
    ):
        return await TableMove(former, other, table_record(store, runtime), runtime, lake=store.url, tell=tell).run()


class TableMove:
    """One run of a move. Raises `CoordinationInUse` when a process lives or begins, and what stores and tables raise: then it may be run again."""

    def __init__(
        self,
        source: NamedTable,
        target: NamedTable,
        record: Document[TableRecord | None],
        runtime: Runtime,
        *,
        lake: str,
        tell: Tell = lambda what: None,
    ) -> None:
        self._source = source
        self._target = target
        self._record = record
        self._runtime = runtime
        self._clock = runtime.clock
        self._lake = lake
        self._tell = tell
        self._id = runtime.new_id()
        self._held_s = 0.0
        """When the last reading was sent that found the move in the record."""

    async def run(self) -> MoveReport:
        """Raises `CoordinationMismatch` when the lake's table is neither of both, and `InvalidArgument` when the target has cells of its own."""
        source_id, found = await self._source.id(), await self._record.read()
        target_id = await self._target.id()
        if source_id is not None and source_id == target_id:
            raise InvalidArgument("both are one table", operation="move", object=self._source.own.url)
        if found is not None:
            if found.former is not None and (found.former.id, found.table.id) == (source_id, target_id):
                return await self._finished(found, moved=False)
            if (error := mismatch(found, self._source.own, source_id, lake=self._lake)) is not None:
                raise error
        await self._check_target()
        await self._source.check_unused(self._runtime)
        source = await self._source.claimed()
        target = await self._target.claimed()
        await self._note(source, target)
        try:
            await self._await_end_of_proofs()
            await self._copy()
        except CoordinationInUse:
            await self._record.change(self._given_up)
            raise
        return await self._finished(await self._decide(target), moved=True)

    async def _check_target(self) -> None:
        await self._target.check_unused(self._runtime)
        for key in await self._keys(self._target):
            stored = await self._target.cells.read(key)
            if stored is not None and not stored.move:
                raise InvalidArgument(
                    "the table that is to take the cells has some of its own",
                    operation="move",
                    object=self._target.own.url,
                    expected="an empty table, or what an earlier move left",
                    observed=key,
                    hint="name another table or prefix, or delete what is in this one",
                )

    async def _note(self, source: TableIdentity, target: TableIdentity) -> None:
        """Note the move. A process that makes or changes a cell of the source later gives the move up, or is in time to be seen."""
        move = Move(id=self._id, to=target)

        def noted(found: TableRecord | None) -> TableRecord | None:
            before = found or TableRecord(table=source, since_ms=self._clock.wall_ms())
            return before if before.table.id != source.id else _with_move(before, move)

        self._held_s = self._clock.monotonic_s()
        after = await self._record.change(noted)
        if after is None or not after.is_moving(self._id):
            raise self._in_use("another table has become the lake's")

    async def _await_end_of_proofs(self) -> None:
        """Wait until no process trusts a look at the record of before the note, and fence those that died."""
        since_s = self._clock.monotonic_s()
        await self._fence()
        left_s = since_s + PROOF_S * (1 + MARGIN) - self._clock.monotonic_s()
        if left_s > 0:
            self._tell(f"waiting {left_s:.0f} s for processes that are not known here")
            await asyncio.sleep(left_s)
        await self._fence()

    async def _fence(self) -> None:
        names = await workers(self._source.cells)
        found = await watch_workers(self._source.cells, self._runtime, names, enough=lambda one: one.state is WorkerState.LIVES)
        for one in found:
            if one.state is WorkerState.LIVES:
                raise self._in_use(f"{one.worker} lives")
            if one.state is WorkerState.EXPIRED:
                await self._fence_dead(one)

    async def _fence_dead(self, dead: WorkerStatus) -> None:
        """End a worker past its lease. One whose clock stood still with its machine believes in that lease, and hears of it at its next heartbeat."""
        key = worker_key(dead.worker)
        stored = await self._source.cells.read(key)
        heartbeat = None if stored is None else decode_heartbeat(stored.data, where=key)
        if heartbeat is None or heartbeat.fenced:
            return
        fenced = replace(heartbeat, fenced=True, fenced_ms=self._clock.wall_ms())
        if heartbeat != dead.heartbeat or not await self._written(self._source, key, encode_heartbeat(fenced), stored):
            raise self._in_use(f"{dead.worker} lives")

    async def _copy(self) -> None:
        """Copy and mark all cells, until a pass over both tables finds them the same and marked."""
        changed = 1
        while changed:
            keys = sorted({*await self._keys(self._source), *await self._keys(self._target)})
            changed = 0
            for key in keys:
                changed += await self._copied(key)
            if changed:
                self._tell(f"copied {changed:,} of {len(keys):,} cells")

    async def _copied(self, key: str) -> bool:
        """Whether a cell had to be copied or marked."""
        await self._hold()
        source, target = await self._source.cells.read(key), await self._target.cells.read(key)
        if source is None:
            if target is not None:
                await self._target.cells.drop(key, on=target)
            return target is not None
        moved = moved_cell(self._id, _bytes_of(source))
        # The copy comes first: a source that is marked has been copied as it is.
        if target is None or target.move != self._id or _bytes_of(target) != _bytes_of(source):
            await self._written(self._target, key, moved, target)
            return True
        if source.move != self._id:
            await self._written(self._source, key, moved, source)
            return True
        return False

    async def _hold(self) -> None:
        sent_s = self._clock.monotonic_s()
        if sent_s - self._held_s > PROOF_S:
            found = await self._record.read()
            if found is None or not found.is_moving(self._id):
                raise self._in_use("a process wrote to the table, or another move began")
            self._held_s = sent_s

    async def _decide(self, target: TableIdentity) -> TableRecord:
        """Write the record. This is the move: before it nothing has moved, and after it all has."""
        since_ms = self._clock.wall_ms()

        def decided(found: TableRecord | None) -> TableRecord | None:
            if found is None or not found.is_moving(self._id):
                return found
            return TableRecord(table=target, since_ms=since_ms, former=found.table)

        after = await self._record.change(decided)
        if after is None or after.table.id != target.id or after.since_ms != since_ms:
            raise self._in_use("a process wrote to the table, or another move began")
        return after

    async def _finished(self, record: TableRecord, *, moved: bool) -> MoveReport:
        """Write the target's cells as they were before the move, which earlier releases can read."""
        count = size_bytes = 0
        void: set[str] = set()
        for key in await self._keys(self._target):
            stored = await self._target.cells.read(key)
            if stored is None:
                continue
            count, size_bytes = count + 1, size_bytes + len(stored.data)
            if stored.move and stored.move not in void:
                # Read after the cell: a move that is not in the record then is over for good.
                now = await self._record.read()
                if now is not None and now.is_moving(stored.move):
                    continue
                void.add(stored.move)
            if stored.move:
                await self._written(self._target, key, stored.data, stored)
        return MoveReport(record=record, moved=moved, cells=count, bytes=size_bytes)

    async def _written(self, table: NamedTable, key: str, data: bytes, on: StoredCell | None) -> bool:
        """False: another wrote the cell."""
        try:
            await table.cells.write(key, data, on=on, deadline_s=self._clock.monotonic_s() + WRITE_S)
        except CellChanged:
            return False
        return True

    async def _keys(self, table: NamedTable) -> list[str]:
        return [key for key in await table.cells.keys("") if key not in _NAMES and not key.startswith(_STAYS)]

    def _given_up(self, found: TableRecord | None) -> TableRecord | None:
        return found if found is None or not found.is_moving(self._id) else found.stayed()

    def _in_use(self, observed: str) -> CoordinationInUse:
        return CoordinationInUse(
            "the lake was not moved to another coordination table",
            operation="move",
            object=self._source.own.url,
            expected="no process at work with the lake",
            observed=observed,
            hint="stop all processes that use the lake, and call again",
        )


def _with_move(record: TableRecord, move: Move) -> TableRecord:
    return TableRecord(table=record.table, since_ms=record.since_ms, former=record.former, move=move)


def _bytes_of(stored: StoredCell) -> bytes:
    return bytes.fromhex(stored.write_id) + stored.data
