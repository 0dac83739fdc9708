"""The lease of a sync's driver, and the record of the sync's progress, which only the lease's holder writes."""

from __future__ import annotations

import asyncio
import json
import logging
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace

import msgspec

from ...coordinator.cells.cells import CellChanged, Cells, StoredCell
from ...coordinator.cells.document import Codec, Document
from ...coordinator.cells.keys import role_key
from ...coordinator.coordination import Coordination
from ...coordinator.lakes import OpenLake
from ...coordinator.limits import CELL_STORED_BYTES_MAX
from ...coordinator.queues.cell import QueueCell
from ...coordinator.queues.codec import decode_cell
from ...coordinator.queues.keeper import OwnershipLost, QueueKeeper, take
from ...coordinator.workers.lease import MARGIN
from ...coordinator.workers.worker import LeaseLost, SessionMember
from ...log.errors import (
    CallError,
    DataDamaged,
    InvalidArgument,
    LimitExceeded,
    NewerFormatError,
    OffsetOutOfRange,
    PenstockError,
)
from ...log.format.stored_json import Number, StoredForm, damaged, parse_stored
from ...log.limits import KIB, MIB
from ...log.paths import topic_folder, topic_name
from ...log.runtime.runtime import Runtime
from ..events.sources import TableId, split_selection
from ..fold.fold_result import TableCoverage, TypesReference
from ..targets import TargetProgress

_LOOK_S = 0.3
_FORMAT = 1
_PLAIN_BYTES_MAX = 16 * KIB
"""The size above which a record's JSON is stored deflated, to a quarter."""
_INFLATED_BYTES_MAX = 64 * MIB
"""Far above any record: damaged bytes must not cost their reader all memory."""
_RECORD_BYTES_MAX = CELL_STORED_BYTES_MAX - KIB
"""Less than a table takes, as it takes the write's id too."""
_MAKE_ROOM = "share the tables among several syncs, each with a name and a folder of its own: tables=…, name=…, into=… (--table, --name, --into)"
_WHAT = "the record of a sync"
_SIZE = "~size"
SYNCS = "syncs/"
_GONE = "retention has removed events that the table lacks, since it stopped"

log = logging.getLogger("penstock.cdc")


class SyncInUse(CallError):
    """Another driver runs this sync."""

    kind = "sync_in_use"


@dataclass(frozen=True, slots=True)
class TableStop:
    """The event at which a table stopped."""

    queue: int
    offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class SyncRecord:
    """The progress of a sync."""

    life: int
    into: str
    offsets: Mapping[int, int] = field(default_factory=dict)
    """The offset by queue before which all tables but stopped ones are complete."""
    tables: Mapping[str, TableId] = field(default_factory=dict)
    """Schema and table by folder."""
    stopped: Mapping[str, tuple[TableStop, ...]] = field(default_factory=dict)
    """The first event of each queue that could not be applied, by table as ``schema.table``, with its database where needed."""
    resume: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """The offset by queue before which each stopped table is complete: one queue's stop holds its other queues too."""
    chosen: frozenset[str] | None = None
    """The chosen tables, for which the offsets hold; None: all."""
    truncated: Mapping[TableId, int] = field(default_factory=dict)
    """The highest position of a truncate, by table without a target."""
    progress: Mapping[str, TargetProgress] = field(default_factory=dict)
    """The progress by folder: Delta's cleanup of the log removes the commit that has it from a quiet target."""
    sources: Mapping[str, TableId] = field(default_factory=dict)
    """The sources of stopped tables, by their names in ``stopped``."""
    types: Mapping[str, TypesReference] = field(default_factory=dict)
    """The types that a table's newest event named, by folder."""
    exact: bool = False
    """Whether no target is beyond its progress here.

    Without cuts a driver need not know the progress of targets whose events it skips. A target made again ends it until the
    next cut.
    """
    source_us: int | None = None
    """The source's commit time of the newest change up to the offsets, as far as it is known."""
    uncaptured: Mapping[TableId, TableCoverage] = field(default_factory=dict)
    """The tables that are no longer captured."""
    partial: bool | None = None
    """Whether events may have been removed before the sync read them; None: an earlier release did not note it."""


def sync_group(name: str) -> str:
    """The consumer group of a sync's progress; also its lease's name among the topic's roles."""
    return f"sync-{name}"


def record_key(topic: str, name: str) -> str:
    return f"{SYNCS}{topic_folder(topic)}/{name}"


def size_key(topic: str, name: str) -> str:
    """The key of the record of batches' halvings: no sync's name has a ``~``."""
    return f"{record_key(topic, name)}{_SIZE}"


def encode_record(record: SyncRecord) -> bytes:
    stopped = {table: [asdict(stop) for stop in stops] for table, stops in record.stopped.items()}
    offsets = {str(queue): offset for queue, offset in sorted(record.offsets.items())}
    tables = {name: list(source) for name, source in record.tables.items()}
    document = {
        "format": _FORMAT,
        "life": record.life,
        "into": record.into,
        "offsets": offsets,
        "chosen": None if record.chosen is None else sorted(record.chosen),
        "tables": tables,
        "truncated": [[list(source), position] for source, position in record.truncated.items()],
        "stopped": stopped,
        "progress": {name: progress.document() for name, progress in record.progress.items()},
        "sources": {table: list(source) for table, source in record.sources.items()},
        "resume": {table: {str(queue): offset for queue, offset in places.items()} for table, places in record.resume.items()},
    }
    if record.types:
        document["types"] = {name: list(types) for name, types in record.types.items()}
    if record.uncaptured:
        document["left"] = [[list(source), list(coverage)] for source, coverage in record.uncaptured.items()]
    if record.exact:
        document["exact"] = True
    if record.partial is not None:
        document["partial"] = record.partial
    if record.source_us is not None:
        document["source_us"] = record.source_us
    data = json.dumps(document, separators=(",", ":")).encode()
    return data if len(data) <= _PLAIN_BYTES_MAX else zlib.compress(data)


class _StopForm(StoredForm, frozen=True):
    queue: Number
    offset: Number
    reason: str


class _Form(StoredForm, frozen=True):
    format: int
    life: Number
    into: str
    offsets: dict[Number, Number]
    tables: dict[str, TableId]
    stopped: dict[str, tuple[_StopForm, ...]]
    resume: dict[str, dict[Number, Number]]
    chosen: frozenset[str] | None = None
    truncated: tuple[tuple[TableId, int], ...] = ()
    progress: dict[str, object] = msgspec.field(default_factory=dict)
    sources: dict[str, TableId] = msgspec.field(default_factory=dict)
    types: dict[str, TypesReference] = msgspec.field(default_factory=dict)
    left: tuple[tuple[TableId, TableCoverage], ...] = ()
    exact: bool = False
    partial: bool | None = None
    source_us: int | None = None


def _inflated(data: bytes, *, where: str) -> bytes:
    inflater = zlib.decompressobj()
    try:
        found = inflater.decompress(data, _INFLATED_BYTES_MAX)
    except zlib.error as error:
        raise damaged(_WHAT, error, where=where, operation="sync") from error
    if not inflater.eof or inflater.unused_data:
        raise damaged(_WHAT, "deflated bytes without their end, or with more behind it", where=where, operation="sync")
    return found


def decode_record(data: bytes, *, where: str) -> SyncRecord:
    """The inverse of `encode_record`. Raises `DataDamaged` or `NewerFormatError`."""
    text = data if data.startswith(b"{") else _inflated(data, where=where)
    form = parse_stored(text, _Form, what=_WHAT, where=where, operation="sync")
    try:
        progress = {name: TargetProgress.read(one) for name, one in form.progress.items()}
    except (ValueError, RecursionError) as error:
        raise damaged(_WHAT, error, where=where, operation="sync") from error
    return SyncRecord(
        life=form.life,
        into=form.into,
        offsets=form.offsets,
        tables=form.tables,
        stopped={
            table: tuple(TableStop(one.queue, one.offset, one.reason) for one in stops) for table, stops in form.stopped.items()
        },
        resume=form.resume,
        chosen=form.chosen,
        truncated=dict(form.truncated),
        progress=progress,
        sources=form.sources,
        types=form.types,
        uncaptured=dict(form.left),
        exact=form.exact,
        partial=form.partial,
        source_us=form.source_us,
    )


def _encode_present(record: SyncRecord | None) -> bytes:
    assert record is not None, "a record is never removed"
    data = encode_record(record)
    if len(data) > _RECORD_BYTES_MAX:
        raise LimitExceeded(
            "the sync has more tables than its record has room for",
            operation="sync",
            object=record.into,
            expected=f"a record of at most {_RECORD_BYTES_MAX} bytes",
            observed=f"{len(data)} bytes for {len(record.tables)} targets and {len(record.uncaptured)} tables that are not captured any more",
            hint=_MAKE_ROOM,
        )
    return data


def _decode_halved(data: bytes, *, where: str) -> int:
    return int(data) if data.isdigit() and len(data) <= 2 else 0


_RECORD: Codec[SyncRecord | None] = Codec(_encode_present, decode_record)
_HALVED = Codec(lambda halved: b"%d" % halved, _decode_halved)


async def read_record(cells: Cells, topic: str, name: str) -> SyncRecord | None:
    """The record of a sync."""
    key = record_key(topic, name)
    stored = await cells.read(key)
    return None if stored is None else decode_record(stored.data, where=key)


async def read_records(
    cells: Cells, before: dict[str, StoredCell | PenstockError] | None = None
) -> dict[tuple[str, str], SyncRecord | PenstockError]:
    """The records of a lake's syncs by topic and name, or the error of reading one. ``before`` keeps them for the next call."""
    kept = {} if before is None else before
    now = await cells.read_all([SYNCS], dict(kept))
    kept.clear()
    kept.update(now)
    found: dict[tuple[str, str], SyncRecord | PenstockError] = {}
    for key, stored in sorted(now.items()):
        folder, _, name = key.removeprefix(SYNCS).partition("/")
        if _SIZE in name:
            continue
        try:
            place = (topic_name(folder), name)
        except PenstockError:  # somebody else's
            continue
        try:
            found[place] = stored if isinstance(stored, PenstockError) else decode_record(stored.data, where=key)
        except PenstockError as error:
            found[place] = error
    return found


def check_folder(record: SyncRecord, into: str, name: str) -> None:
    """Raise `InvalidArgument` for another folder than the sync's."""
    if record.into != into:
        raise InvalidArgument(
            "a sync of this name writes elsewhere",
            operation="sync",
            object=name,
            expected=record.into,
            observed=into,
            hint="give this one a name of its own: name=… (--name)",
        )


def covers(chosen: frozenset[str] | None, tables: frozenset[str] | None) -> bool:
    """Whether offsets of some tables hold for others; None: all."""
    if chosen is None:
        return True
    if tables is None:
        return False
    (former, not_former), (asked, not_asked) = split_selection(chosen), split_selection(tables)
    of_all = not former and bool(not_former)
    return (of_all or (asked <= former and bool(asked or not not_asked))) and not_former <= not_asked


def resume_offsets(
    record: SyncRecord, kept: Mapping[int, tuple[int, int]], topic: str
) -> tuple[dict[int, int], dict[str, tuple[TableStop, ...]]]:
    """The offset to go on at, by queue: the first place of all tables, stopped ones included. Also the tables that lack events
    which retention removed.

    ``kept``: the earliest offset and the one after the last, by queue. Raises `OffsetOutOfRange` when all tables lack events.
    """
    position = {queue: record.offsets.get(queue, 0) for queue in kept}
    for queue, (earliest, _) in kept.items():
        if position[queue] < earliest:
            raise OffsetOutOfRange(
                "events were removed by retention before this sync applied them",
                operation="sync",
                object=f"{topic}, queue {queue}",
                expected=f"offset {position[queue]}",
                observed=f"the earliest kept is {earliest}",
                hint="the targets lack changes: let the source send a new snapshot, and sync it under a new name into a new folder",
            )
    lost: dict[str, tuple[TableStop, ...]] = {}
    for table, stops in record.stopped.items():
        places = record.resume[table]
        if any(offset < kept[queue][0] for queue, offset in places.items()):
            lost[table] = tuple(replace(stop, reason=_gone(stop.reason)) for stop in stops)
            continue
        for queue, offset in places.items():
            position[queue] = min(position[queue], offset)
    return position, lost


def _gone(reason: str) -> str:
    return reason if reason.startswith(_GONE) else f"{_GONE}: {reason}"


class SyncLease:
    """The lease of one sync. All methods except `check` are for the lake's event loop."""

    def __init__(self, coordination: Coordination, runtime: Runtime, topic: str, name: str) -> None:
        self._coordination = coordination
        self._cells = coordination.cells
        self._clock = runtime.clock
        self._role = role_key(topic, sync_group(name))
        self._member: SessionMember | None = None
        self._keeper: QueueKeeper | None = None
        self._record = Document(self._cells, self._clock, record_key(topic, name), _RECORD, absent=None)
        self._halved = Document(self._cells, self._clock, size_key(topic, name), _HALVED, absent=0)
        self._warned_full = False
        self.after_death = False

    async def take(self, *, patience_s: float | None = None) -> None:
        """Become the holder. Raises `SyncInUse` after ``patience_s``, by default the time until a dead holder is known as such."""
        await self._coordination.claim()
        worker = self._coordination.worker
        self._member = member = await worker.join("")
        worker.started(1)  # keeps the lease short: a sync's driver is to be replaced soon
        try:
            self._keeper = await self._taken(member, worker.lease_s * (2 + MARGIN) if patience_s is None else patience_s)
        except BaseException:
            worker.finished(1)
            await member.leave()
            raise
        try:
            await self._record.read()
            await self._halved.read()
        except BaseException:
            await self.give_up()
            raise

    async def _taken(self, member: SessionMember, patience_s: float) -> QueueKeeper:
        watch = self._coordination.watch
        until_s = self._clock.monotonic_s() + patience_s
        while True:
            found = await self._cells.read(self._role)
            owner = "" if found is None else decode_cell(found.data, where=self._role).owner
            if owner:
                await watch.look([owner])
            if not owner or (watch.is_dead(owner) and await watch.fence(owner)):
                keeper = await take(self._cells, member, self._role, begin=QueueCell(), found=found)
                if keeper is not None:
                    self.after_death = bool(owner)
                    return keeper
                continue
            if self._clock.monotonic_s() >= until_s:
                raise SyncInUse(
                    "the sync is running elsewhere",
                    operation="sync",
                    object=self._role,
                    observed=f"held by {owner}",
                    hint="stop that one, or give this one a name and a folder of its own; who was killed is replaced within seconds",
                )
            await asyncio.sleep(_LOOK_S)

    def check(self) -> None:
        """Raise `LeaseLost` unless this is the holder for certain. Callable from any thread; does no I/O."""
        member, keeper = self._member, self._keeper
        if member is None or keeper is None or keeper.ended.is_set() or not member.may_start():
            raise LeaseLost(
                "the sync's lease was lost",
                operation="sync",
                object=self._role,
                observed=None if member is None else member.error,
                hint="another driver may go on with it; what was committed stands",
            )

    @property
    def epoch(self) -> int:
        assert self._keeper is not None, "take comes first"
        return self._keeper.epoch

    @property
    def record(self) -> SyncRecord | None:
        return self._record.value

    async def save(self, record: SyncRecord) -> None:
        """Write the record. Raises `LeaseLost` or `OwnershipLost`, and `LimitExceeded` for too many tables."""
        deadline_s = self._record.deadline_s()
        while self._record.value != record:
            if self._keeper is None or self._keeper.ended.is_set():
                raise LeaseLost("the sync's lease was lost", operation="sync", object=self._record.key)
            try:
                await self._record.write(record, deadline_s=deadline_s)
            except CellChanged:
                pass
            except (DataDamaged, NewerFormatError):
                self._record.stored, self._record.value = await self._cells.read(self._record.key), None
            else:
                break
            await self._keeper.look()  # a write of the former holder may have come late; then this one stands above it
        self._warn_of_fullness()

    def _warn_of_fullness(self) -> None:
        size_bytes = 0 if self._record.stored is None else len(self._record.stored.data)
        if size_bytes > _RECORD_BYTES_MAX * 3 // 4 and not self._warned_full:
            self._warned_full = True
            log.warning(
                "the record of the sync (%s) is nearly full, with %d of %d bytes, and the sync ends once it is: %s",
                self._record.key,
                size_bytes,
                _RECORD_BYTES_MAX,
                _MAKE_ROOM,
            )

    @property
    def halved(self) -> int:
        """The last driver's number of halvings; 0 for unreadable text."""
        return self._halved.value

    async def save_halved(self, halved: int) -> None:
        if halved != self._halved.value:
            with suppress(CellChanged):  # another driver wrote it, and holds the sync by now
                await self._halved.write(halved)

    async def give_up(self) -> None:
        keeper, member = self._keeper, self._member
        self._keeper = self._member = None
        if keeper is not None and not keeper.ended.is_set():
            try:
                await keeper.release()
            except OwnershipLost:
                keeper.lose()
        if member is not None:
            self._coordination.worker.finished(1)
            await member.leave()


async def take_lease(opened: OpenLake, topic: str, name: str, *, patience_s: float | None) -> SyncLease:
    """Become the holder of a sync; see `SyncLease.take`."""
    lease = SyncLease(await opened.coordination(), opened.lake.runtime, topic, name)
    await lease.take(patience_s=patience_s)
    return lease
