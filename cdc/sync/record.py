"""The record of a sync's progress: its content, its encoding, and the place from which reading goes on."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

import msgspec

from ...coordinator.cells.cells import Cells, StoredCell
from ...coordinator.cells.document import Codec
from ...coordinator.cells.inflation import inflated
from ...coordinator.limits import CELL_STORED_BYTES_MAX
from ...log.errors import InvalidArgument, LimitExceeded, OffsetOutOfRange, PenstockError
from ...log.format.stored_json import Number, StoredForm, damaged, parse_stored
from ...log.limits import KIB, MIB
from ...log.paths import topic_folder, topic_name
from ..events.sources import TableId, split_selection
from ..fold.fold_result import TableCoverage, TypesReference
from ..target import TargetProgress

_FORMAT = 1
_PLAIN_BYTES_MAX = 16 * KIB
"""The size above which a record's JSON is stored deflated, to a quarter."""
_INFLATED_BYTES_MAX = 64 * MIB
"""Far above any record: damaged bytes must not cost their reader all memory."""
RECORD_BYTES_MAX = CELL_STORED_BYTES_MAX - KIB
"""Less than a table takes, as it takes the write's id too."""
SHARE_TABLES = "share the tables among several syncs, each with a name and a folder of its own: tables=…, name=…, into=… (--table, --name, --into)"
_WHAT = "the record of a sync"
_SIZE = "~size"
SYNCS = "syncs/"
_GONE = "retention has removed events that the table lacks, since it stopped"


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
    try:
        text = inflated(data, bytes_max=_INFLATED_BYTES_MAX)
    except zlib.error as error:
        raise damaged(_WHAT, error, where=where, operation="sync") from error
    if text is None:
        raise damaged(_WHAT, "deflated bytes without their end, or with more behind it", where=where, operation="sync")
    return text


def decode_record(data: bytes, *, where: str) -> SyncRecord:
    """The inverse of `encode_record`. Raises `DataDamaged` or `NewerFormatError`."""
    text = data if data.startswith(b"{") else _inflated(data, where=where)
    form = parse_stored(text, _Form, what=_WHAT, where=where, operation="sync")
    try:
        progress = {name: TargetProgress.read(document) for name, document in form.progress.items()}
    except (ValueError, RecursionError) as error:
        raise damaged(_WHAT, error, where=where, operation="sync") from error
    return SyncRecord(
        life=form.life,
        into=form.into,
        offsets=form.offsets,
        tables=form.tables,
        stopped={
            table: tuple(TableStop(stop.queue, stop.offset, stop.reason) for stop in stops) for table, stops in form.stopped.items()
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
    if len(data) > RECORD_BYTES_MAX:
        raise LimitExceeded(
            "the sync has more tables than its record has room for",
            operation="sync",
            object=record.into,
            expected=f"a record of at most {RECORD_BYTES_MAX} bytes",
            observed=f"{len(data)} bytes for {len(record.tables)} targets and {len(record.uncaptured)} tables that are not captured any more",
            hint=SHARE_TABLES,
        )
    return data


RECORD_CODEC: Codec[SyncRecord | None] = Codec(_encode_present, decode_record)


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
