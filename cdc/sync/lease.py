"""One driver a sync: a lease like those of queues and roles, and the record of the sync's progress, which only its holder writes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace

import msgspec

from ...coordinator.cells.cells import CellChanged, Cells, StoredCell
from ...coordinator.cells.document import Codec, Document
from ...coordinator.cells.keys import role_key
from ...coordinator.coordination import Coordination
from ...coordinator.lakes import OpenLake
from ...coordinator.queues.cell import QueueCell
from ...coordinator.queues.codec import decode_cell
from ...coordinator.queues.keeper import OwnershipLost, QueueKeeper, take
from ...coordinator.workers.lease import MARGIN
from ...coordinator.workers.worker import LeaseLost, SessionMember
from ...log.errors import CallError, InvalidArgument, OffsetOutOfRange, PenstockError
from ...log.format.stored_json import Number, StoredForm, damaged, parse_stored
from ...log.paths import topic_folder, topic_name
from ...log.runtime.runtime import Runtime
from ..events.sources import TableId, split_selection
from ..fold.fold_result import TableCoverage, TypesReference
from ..targets import TargetProgress

_LOOK_S = 0.3
_FORMAT = 1
_WHAT = "the record of a sync"
_SIZE = "~size"
SYNCS = "syncs/"
"""The folder of the records."""
_GONE = "retention has removed events that the table lacks, since it stopped"


class SyncInUse(CallError):
    """Another driver runs this sync."""

    kind = "sync_in_use"


@dataclass(frozen=True, slots=True)
class TableStop:
    """Where a table stands still, and why."""

    queue: int
    offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class SyncRecord:
    """The progress of a sync, as its holder wrote it last."""

    life: int
    into: str
    offsets: Mapping[int, int] = field(default_factory=dict)
    """The offset by queue before which every table that is not stopped has everything."""
    tables: Mapping[str, TableId] = field(default_factory=dict)
    """Schema and table by folder."""
    stopped: Mapping[str, tuple[TableStop, ...]] = field(default_factory=dict)
    """The first event of each queue that could not be applied, by table as ``schema.table``, with its database before it where that is not
    enough.
    """
    resume: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """The offset by queue before which each stopped table has everything: since one queue stopped it, nothing of the others was applied."""
    chosen: frozenset[str] | None = None
    """The tables that it was run for, and for which the offsets hold; None: all."""
    truncated: Mapping[TableId, int] = field(default_factory=dict)
    """The highest position of a truncate, by table without a target yet."""
    progress: Mapping[str, TargetProgress] = field(default_factory=dict)
    """The progress by folder, as its target has it: Delta's cleanup of the log removes the commit that says so from a quiet target."""
    sources: Mapping[str, TableId] = field(default_factory=dict)
    """The full sources of stopped tables, by their names in ``stopped``: they tell the tables from others."""
    types: Mapping[str, TypesReference] = field(default_factory=dict)
    """The types of a table's columns that its newest event named, by folder."""
    exact: bool = False
    """Whether no target is beyond its progress here. A driver that records no cuts need not know that of targets whose events it passes over.
    Nor is it so once a target was made again, until a cut names all as they are now.
    """
    source_us: int | None = None
    """When the source committed the newest change up to the offsets, as far as events tell."""
    left: Mapping[TableId, TableCoverage] = field(default_factory=dict)
    """The tables that their capture has no more."""
    partial: bool | None = None
    """Whether events of the tables may have been removed before the sync read them; None: an earlier release did not note it."""


def sync_group(name: str) -> str:
    """The consumer group that shows a sync's progress; also the name of its lease among the topic's roles."""
    return f"sync-{name}"


def record_key(topic: str, name: str) -> str:
    return f"{SYNCS}{topic_folder(topic)}/{name}"


def size_key(topic: str, name: str) -> str:
    """The key of the record of how small the sync's batches are: no name of a sync has a ``~``."""
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
    if record.left:
        document["left"] = [[list(source), list(left)] for source, left in record.left.items()]
    if record.exact:
        document["exact"] = True
    if record.partial is not None:
        document["partial"] = record.partial
    if record.source_us is not None:
        document["source_us"] = record.source_us
    return json.dumps(document).encode()


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


def decode_record(data: bytes, *, where: str) -> SyncRecord:
    """The inverse of `encode_record`. Raises `DataDamaged` or `NewerFormatError`."""
    form = parse_stored(data, _Form, what=_WHAT, where=where, operation="sync")
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
        left=dict(form.left),
        exact=form.exact,
        partial=form.partial,
        source_us=form.source_us,
    )


def _encode_present(record: SyncRecord | None) -> bytes:
    assert record is not None, "a record is never removed"
    return encode_record(record)


def _decode_halved(data: bytes, *, where: str) -> int:
    return int(data) if data.isdigit() and len(data) <= 2 else 0


_RECORD: Codec[SyncRecord | None] = Codec(_encode_present, decode_record)
_HALVED = Codec(lambda halved: b"%d" % halved, _decode_halved)


async def read_record(cells: Cells, topic: str, name: str) -> SyncRecord | None:
    """The record that a sync's holder wrote last."""
    key = record_key(topic, name)
    stored = await cells.read(key)
    return None if stored is None else decode_record(stored.data, where=key)


async def read_records(
    cells: Cells, before: dict[str, StoredCell | PenstockError] | None = None
) -> dict[tuple[str, str], SyncRecord | PenstockError]:
    """The records of all syncs of a lake, by topic and name; of one that cannot be read, the error.

    ``before`` keeps what was read for the next call: what has not changed since is not read again.
    """
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
    """Raise `InvalidArgument` for a folder other than the one that the sync has written to."""
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
    """Whether offsets that hold for some tables hold for others, None being all."""
    if chosen is None:
        return True
    if tables is None:
        return False
    (had, not_had), (asked, not_asked) = split_selection(chosen), split_selection(tables)
    of_all = not had and bool(not_had)
    return (of_all or (asked <= had and bool(asked or not not_asked))) and not_had <= not_asked


def resume_offsets(
    record: SyncRecord, kept: Mapping[int, tuple[int, int]], topic: str
) -> tuple[dict[int, int], dict[str, tuple[TableStop, ...]]]:
    """Where reading goes on, by queue: stopped tables are tried again, so it is the first of these places. Also the tables that cannot be
    tried again, because retention removed events that they lack.

    ``kept``: the earliest offset and the one after the last, by queue. Raises `OffsetOutOfRange` when all tables lack some events.
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
    """The hold on one sync. All methods except `check` are for the lake's event loop."""

    def __init__(self, coordination: Coordination, runtime: Runtime, topic: str, name: str) -> None:
        self._coordination = coordination
        self._cells = coordination.cells
        self._clock = runtime.clock
        self._role = role_key(topic, sync_group(name))
        self._member: SessionMember | None = None
        self._keeper: QueueKeeper | None = None
        self._record = Document(self._cells, self._clock, record_key(topic, name), _RECORD, absent=None)
        self._halved = Document(self._cells, self._clock, size_key(topic, name), _HALVED, absent=0)
        self.after_death = False
        """Whether the holder before ended without giving it up."""

    async def take(self, *, patience_s: float | None = None) -> None:
        """Become the holder. Waits ``patience_s`` for another to end, by default as long as it takes to know that one is dead.

        Raises `SyncInUse`.
        """
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
        """Raise `LeaseLost` unless this is the holder for certain. Callable from any thread; asks nobody."""
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
        """The epoch of this hold."""
        assert self._keeper is not None, "take comes first"
        return self._keeper.epoch

    @property
    def record(self) -> SyncRecord | None:
        """The record as it stands."""
        return self._record.value

    async def save(self, record: SyncRecord) -> None:
        """Keep the sync's progress. Raises `LeaseLost` or `OwnershipLost` when another holds it."""
        deadline_s = self._record.deadline_s()
        while self._record.value != record:
            if self._keeper is None or self._keeper.ended.is_set():
                raise LeaseLost("the sync's lease was lost", operation="sync", object=self._record.key)
            try:
                await self._record.write(record, deadline_s=deadline_s)
            except CellChanged:
                await self._keeper.look()  # a write of the former holder may have come late; then this one stands above it

    @property
    def halved(self) -> int:
        """How many times the sync's batches were halved, as the last driver left it; 0 for text that is no such number."""
        return self._halved.value

    async def save_halved(self, halved: int) -> None:
        """Keep the number for the driver after this one."""
        if halved != self._halved.value:
            with suppress(CellChanged):  # another driver wrote it, and holds the sync by now
                await self._halved.write(halved)

    async def give_up(self) -> None:
        """Release the hold, so that others may take it at once."""
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
