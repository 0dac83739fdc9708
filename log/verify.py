"""`penstock verify`: reads everything a topic has and reports what is wrong. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from .errors import DataDamaged
from .format.checkpoint import decode_checkpoint
from .format.entry import read_header
from .format.fold import FoldedEntry, fold
from .format.sealed import check_seal, read_rows
from .format.state import TopicState
from .limits import MIB
from .message.message import MESSAGE_SCHEMA
from .paths import TopicPaths
from .runtime.runtime import Runtime
from .stores.protocol import ObjectMissing, ObjectStore
from .table.comparison.ranges import Agreement
from .table.delta.delta_log import DeltaLog
from .table.delta.segments import TableFile
from .table.delta.snapshot import Snapshot
from .tail.arrivals import entry_bytes
from .tail.damage import entry_numbers, find_resumption, of_the_log
from .tail.entry_rows import entry_pieces
from .tail.salvage import lost_between, salvage
from .tail.view import read_floor
from .topic.records import read_record
from .topic.settings import TopicRecord

_CHECKED_SCHEMA = pa.schema([MESSAGE_SCHEMA.field(name) for name in ("queue", "offset", "store_timestamp")])
_ENDED = "it was deleted, and that was broken off (`penstock topic delete` ends it), or the entry was made up"
_COMPARED_BYTES = 32 * MIB
"""The entries compared at once, and so the precision of a difference."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault or, as "lost", a range known to be lost."""

    kind: str
    """damaged, missing, foreign, checkpoint, offsets, statistics, different, repair, ended or lost."""
    object: str
    message: str
    queue: int | None = None
    first_offset: int | None = None
    limit_offset: int | None = None
    """Exclusive."""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The result of a verification."""

    topic: str
    entries: int = 0
    checkpoints: int = 0
    log_rows: int = 0
    table_files: int = 0
    table_rows: int = 0
    compared_rows: int = 0
    """Rows that are in both log and table."""
    findings: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong; ranges named as lost are not."""
        return all(finding.kind == "lost" for finding in self.findings)


async def verify(store: ObjectStore, paths: TopicPaths, record: TopicRecord, runtime: Runtime) -> VerifyReport:
    """Check every entry, staged object, checkpoint and table file of a topic, and log against table.

    Reads all bytes of the topic once, and those of the table that are also in the log once more. Entries are in memory one piece at
    a time. Others may go on writing and trimming.

    Raises only what the store raises; damage is a finding.
    """
    return await _Verification(store, paths, record, runtime).run()


class _Verification:
    def __init__(self, store: ObjectStore, paths: TopicPaths, record: TopicRecord, runtime: Runtime) -> None:
        self._store = store
        self._paths = paths
        self._record = record
        self._runtime = runtime
        self._delta = DeltaLog(store, paths, record.table, runtime, keep_removes=False)
        self._snapshot = Snapshot(record.table)
        self._findings: list[Finding] = []
        self._report = VerifyReport(paths.topic)
        self._table_readable = True
        self._agreement = self._new_agreement()
        self._taken_bytes = 0
        self._ends: tuple[int, ...] = ()
        self._floor = 0
        self._numbers: frozenset[int] | None = None

    async def run(self) -> VerifyReport:
        # The floor is read before the table: entries below it are in every table that is read later.
        floor_readable = await self._read_floor()
        try:
            self._snapshot = await self._delta.refresh()
        except DataDamaged as error:
            self._table_readable = False
            self._damaged(error)
        self._agreement = self._new_agreement()
        await self._foreign_objects()
        if floor_readable:
            await self._log()
        for queue in sorted({*range(self._record.settings.queues), *self._snapshot.files}):
            await self._queue_files(queue, self._snapshot.files.get(queue, ()))
        self._queue_ends()
        return replace(self._report, findings=tuple(self._findings))

    # --- the log

    async def _log(self) -> None:
        floor = self._floor
        state = await self._start()
        if state is None:
            return
        self._check_trimmed(floor, state)
        last = await self._last_entry(after=state.entry)
        if self._snapshot.published > last:
            self._find("missing", self._paths.log, f"the table has entries up to {self._snapshot.published}, the log up to {last}")
        self._note_ends(state)
        while state is not None and state.entry < last:
            state = await self._entry(state)
            if state is not None:
                self._note_ends(state)
        await self._compare()
        await self._checkpoints_ahead(last)
        if state is not None:
            await self._check_end(state)

    async def _check_end(self, state: TopicState) -> None:
        """Report a log that ended the topic, or began another, while its settings exist."""
        if state.alive and self._is_mine(state):
            return
        found = await read_record(self._store, self._paths)
        if found is not None and not found[0].deleted and found[0].incarnation == self._record.incarnation:
            said = "ended the topic" if not state.alive else "is of another topic"
            self._find("ended", self._paths.settings, f"its settings stand, and its log {said} by entry {state.entry}: {_ENDED}")

    async def _read_floor(self) -> bool:
        try:
            self._floor = max(self._floor, await read_floor(self._store, self._paths))
        except DataDamaged as error:
            self._damaged(error)
            return False
        return True

    async def _is_trimmed(self, entry: int) -> bool:
        """Whether the floor has passed an entry meanwhile: it may be gone, and is not reported."""
        await self._read_floor()
        return entry <= self._floor

    async def _start(self) -> TopicState | None:
        """The state at the floor, or else at the first later checkpoint that can be read."""
        while self._floor:
            floor, self._numbers = self._floor, None
            unreadable: list[Finding] = []
            for number in sorted({floor, *(number for number in await self._checkpoint_numbers() if number > floor)}):
                where = self._paths.checkpoint(number)
                try:
                    state: TopicState | None = await self._checkpoint(number)
                    break
                except (DataDamaged, ObjectMissing) as error:
                    unreadable.append(Finding("checkpoint", where, f"the log cannot be read from here: {error.message}"))
            else:
                state = None
            if not unreadable or not await self._is_trimmed(floor + 1):
                self._findings += unreadable
                return state
        return TopicState()

    async def _last_entry(self, *, after: int) -> int:
        numbers = await entry_numbers(self._store, self._paths, after=after)
        if not numbers:
            await self._read_floor()
        return max(numbers, default=max(after, self._floor))

    async def _checkpoints_ahead(self, last: int) -> None:
        listed = await self._store.list(self._paths.checkpoints, after=self._paths.checkpoint(last))
        ahead = [info.key for info in listed if (number := self._paths.checkpoint_entry(info.key)) is not None and number > last]
        newest = await self._last_entry(after=last) if ahead else last
        for key in ahead:
            if (self._paths.checkpoint_entry(key) or 0) > newest:
                self._find("checkpoint", key, f"the log ends at entry {newest}, before it")

    def _check_trimmed(self, floor: int, state: TopicState) -> None:
        published = self._snapshot.published
        if self._table_readable and self._is_mine(state) and floor > max(published, state.created_entry):
            reaches = f"the table has entries up to {published} only" if self._snapshot.exists else "there is no table"
            self._find("missing", self._delta.root, f"the log is trimmed up to entry {floor}, and {reaches}")

    def _note_ends(self, state: TopicState) -> None:
        if state.entry == self._snapshot.published and self._is_mine(state):
            self._ends = state.next_offsets

    def _is_mine(self, state: TopicState) -> bool:
        return state.incarnation == self._record.incarnation

    async def _entry(self, state: TopicState) -> TopicState | None:
        """The state after the next entry, or after unreadable ones. None where the log does not go on."""
        number = state.entry + 1
        where = self._paths.entry(number)
        try:
            data = (await self._store.get(where)).data
            folded = fold(state, read_header(data, where=where, number=number), where=where)
        except ObjectMissing as error:
            if await self._is_trimmed(number):
                return await self._start()
            return await self._around(state, number, error)
        except DataDamaged as error:
            return await self._around(state, number, error)
        if folded.is_repair:
            self._check_repair(state, folded.state, where)
        await self._rows(folded, data)
        await self._check_checkpoint(folded.state)
        return folded.state

    def _check_repair(self, before: TopicState, after: TopicState, where: str) -> None:
        """Report a repair of entries that can all be read: nothing was lost."""
        known = "all entries before it can be read; it was made up, or what it led around was put back since, and they come to {}"
        if (after.incarnation, after.alive, after.queues) != (before.incarnation, before.alive, before.queues):
            self._find("repair", where, "the repair makes another topic of it: " + known.format(f"{before.queues} queues"))
            return
        for queue, (offset, repaired) in enumerate(zip(before.next_offsets, after.next_offsets, strict=True)):
            if repaired > offset:
                self._find("repair", where, f"the repair passes over offsets: {known.format(offset)}", queue, offset, repaired)
            elif repaired < offset:
                self._find("repair", where, f"the repair gives offsets out again: {known.format(offset)}", queue, repaired, offset)

    async def _around(self, state: TopicState, number: int, error: DataDamaged | ObjectMissing) -> TopicState | None:
        """Report a damaged entry, and go on where every process would."""
        where = self._paths.entry(number)
        self._find("missing" if isinstance(error, ObjectMissing) else "damaged", where, error.message)
        damage = error if isinstance(error, DataDamaged) else DataDamaged(error.message, object=where)
        try:
            resumption = await find_resumption(self._store, self._paths, number, damage)
            salvaged = await salvage(self._store, self._paths, state, resumption.state)
        except DataDamaged:
            if await self._is_trimmed(number):
                return await self._start()
            self._find("damaged", where, "the log does not go on behind it: run `penstock repair`")
            return None
        for folded, data in salvaged:
            await self._rows(folded, data)
        if await self._is_trimmed(number):
            return await self._start()
        for queue, first, limit in lost_between(state, resumption.state, [folded for folded, _ in salvaged]):
            self._find("lost", where, "these offsets cannot be read in the log", queue, first, limit)
        return resumption.state

    async def _rows(self, folded: FoldedEntry, data: bytes) -> None:
        published = folded.number <= self._snapshot.published and self._is_mine(folded.state)
        rows = 0
        try:
            async for piece in entry_pieces(self._store, self._paths, self._runtime, folded, data):
                rows += piece.table.num_rows
                for lost in piece.lost if piece.lost and not await self._is_trimmed(folded.number) else ():
                    reason = f"a staged object: {lost.reason}"
                    self._find("damaged", lost.object, reason, lost.queue, lost.first_offset, lost.limit_offset)
                if published:
                    await self._agreement.take(piece.table)
        except DataDamaged as error:
            self._damaged(error)
        self._report = replace(self._report, entries=self._report.entries + 1, log_rows=self._report.log_rows + rows)
        if published:
            self._taken_bytes += entry_bytes(folded, data)
        if self._taken_bytes >= _COMPARED_BYTES:
            await self._compare()

    def _new_agreement(self) -> Agreement:
        return Agreement(self._store, self._paths, self._runtime, self._snapshot)

    async def _compare(self) -> None:
        agreement, self._agreement, self._taken_bytes = self._agreement, self._new_agreement(), 0
        try:
            compared = await agreement.finish()
        except ObjectMissing as error:
            if not await self._is_taken_out(error.object):
                self._find("missing", error.object or self._delta.root, error.message)
            return
        except DataDamaged as error:
            self._damaged(error)
            return
        self._report = replace(self._report, compared_rows=self._report.compared_rows + compared.rows)
        for difference in compared.differences:
            self._find(
                "different",
                self._delta.root,
                f"the log has {difference.log_rows} rows, the table {difference.table_rows}, and they are not equal",
                difference.queue,
                difference.first_offset,
                difference.limit_offset,
            )

    async def _check_checkpoint(self, state: TopicState) -> None:
        try:
            found = await self._checkpoint(state.entry)
        except ObjectMissing:
            return
        except DataDamaged as error:
            self._find("checkpoint", self._paths.checkpoint(state.entry), error.message)
            return
        self._report = replace(self._report, checkpoints=self._report.checkpoints + 1)
        if found.digest != state.digest:
            self._find("checkpoint", self._paths.checkpoint(state.entry), "it is not what the log folds to")

    async def _checkpoint(self, number: int) -> TopicState:
        if number not in await self._checkpoint_numbers():
            raise ObjectMissing("there is no such checkpoint", object=self._paths.checkpoint(number))
        key = self._paths.checkpoint(number)
        return decode_checkpoint((await self._store.get(key)).data, where=key)

    async def _checkpoint_numbers(self) -> frozenset[int]:
        if self._numbers is None:
            listed = await self._store.list(self._paths.checkpoints)
            self._numbers = frozenset(n for info in listed if (n := self._paths.checkpoint_entry(info.key)) is not None)
        return self._numbers

    async def _foreign_objects(self) -> None:
        listed = [info.key for info in await self._store.list(self._paths.log)]
        numbers = [number for key in listed if (number := self._paths.entry_number(key)) is not None]
        entries = {number for number in numbers if number <= self._floor}
        entries.update(of_the_log([number for number in numbers if number > self._floor], after=self._floor))
        for key in listed:
            ours = self._paths.entry_number(key) in entries or self._paths.checkpoint_entry(key) is not None
            if not ours and key != self._paths.floor:
                self._find("foreign", key, "not an object of Penstock's; it is left alone")

    # --- the table

    async def _queue_files(self, queue: int, files: Sequence[TableFile]) -> None:
        behind = self._snapshot.start(queue)
        for file in files:
            if file.first_offset < behind:
                self._find("offsets", file.path, "it overlaps the file before it", queue, file.first_offset, behind)
            holes = [(behind, file.first_offset)] if file.first_offset > behind else []
            self._holes(queue, [*holes, *await self._file(file)], file.path)
            behind = max(behind, file.limit_offset)
        if behind < self._snapshot.end(queue):
            self._holes(queue, [(behind, self._snapshot.end(queue))], self._delta.root)

    async def _file(self, file: TableFile) -> list[tuple[int, int]]:
        """Check one file against the table's log. Returns the gaps between its offsets."""
        where = self._delta.root + file.path
        try:
            data = (await self._store.get(where)).data
            check_seal(data, where=where)
            rows = read_rows(data, where=where, columns=_CHECKED_SCHEMA.names)
        except ObjectMissing as error:
            if not await self._is_taken_out(where):
                self._find("missing", where, error.message, file.queue, file.first_offset, file.limit_offset)
            return []
        except DataDamaged as error:
            self._find("damaged", where, error.message, file.queue, file.first_offset, file.limit_offset)
            return []
        if not rows.schema.equals(_CHECKED_SCHEMA) or any(column.null_count for column in rows.columns):
            has = ", ".join(f"{field.name}: {field.type}" for field in rows.schema) or "none of them"
            message = f"a sealed file that is none of a table's: of queue, offset and store_timestamp it has {has}"
            self._find("foreign", where, message, file.queue, file.first_offset, file.limit_offset)
            return []
        offsets = rows.column("offset").to_numpy()
        times_ms = rows.column("store_timestamp").cast(pa.int64()).to_numpy() // 1000
        steps = np.diff(offsets)
        self._report = replace(
            self._report, table_files=self._report.table_files + 1, table_rows=self._report.table_rows + len(offsets)
        )
        stated = (file.rows, file.first_offset, file.limit_offset, file.store_first_ms, file.store_last_ms, file.size_bytes)
        observed = (len(offsets), *_ends(offsets), int(times_ms[0]), int(times_ms[-1]), len(data)) if len(offsets) else (0,)
        if stated != observed:
            self._find("statistics", where, f"the table says {stated}, the file {observed}", file.queue)
        if len(steps) and (steps.min() < 1 or np.diff(times_ms).min() < 0):
            self._find("offsets", where, "its rows are out of order", file.queue)
        if set(rows.column("queue").unique().to_pylist()) != {file.queue}:
            self._find("offsets", where, "it has rows of another queue", file.queue)
        return [(int(offsets[at]) + 1, int(offsets[at + 1])) for at in np.flatnonzero(steps > 1)]

    async def _is_taken_out(self, key: str | None) -> bool:
        try:
            newest = await self._delta.refresh()
        except DataDamaged:
            return False
        return key not in {self._delta.root + path for path in newest.paths}

    def _holes(self, queue: int, holes: Sequence[tuple[int, int]], where: str) -> None:
        """Report offsets without rows, except where the table names them as lost."""
        lost = self._snapshot.lost(queue)
        for first, limit in holes:
            named = [(max(first, a), min(limit, b)) for a, b in lost if a < limit and b > first]
            if sum(b - a for a, b in named) == limit - first:
                self._find("lost", where, "named as lost", queue, first, limit)
            else:
                self._find("offsets", where, "offsets have no rows, and are not named as lost", queue, first, limit)

    def _queue_ends(self) -> None:
        for queue, end in enumerate(self._ends):
            if self._snapshot.end(queue) != end:
                self._find("offsets", self._delta.root, f"the table ends at {self._snapshot.end(queue)}, the log at {end}", queue)

    # --- findings

    def _damaged(self, error: DataDamaged) -> None:
        self._find("damaged", error.object or self._paths.root, str(error))

    def _find(
        self, kind: str, object: str, message: str, queue: int | None = None, first: int | None = None, limit: int | None = None
    ) -> None:
        self._findings.append(Finding(kind, object, message, queue, first, limit))


def _ends(offsets: np.ndarray[tuple[int], np.dtype[np.int64]]) -> tuple[int, int]:
    return int(offsets[0]), int(offsets[-1]) + 1
