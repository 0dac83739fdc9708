"""Delta's actions: the content of a commit, as JSON lines.

Facts about queues are `txn` actions, which checkpoints keep: the last published entry, the start and end of each queue, and lost offsets. The table
is partitioned by queue.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from ...errors import DataDamaged, ForeignObject
from ...format.forms import converted, decoded
from ...format.stored_json import Number, TimeMs, shown, whole_number
from ...limits import NUMBER_MAX, QUEUES_MAX, TIME_MAX_MS
from ...message.message import RARE, VALUE
from .segments import TableFile
from .table_metadata import Action, DeltaForm, Int64, Protocol, TableMetadata, Texts, check_protocol, fields_of
from .table_schema import UNTYPED, TableForm

PUBLISHED = "penstock"
"""The `txn` whose version is the last published entry."""
_ENGINE = "Penstock"
PARTITION_COLUMNS = ["queue"]


class RemoveFile(DeltaForm, frozen=True):
    """The removal of a file."""

    path: str
    deletion_timestamp: TimeMs | None = None


class Txn(DeltaForm, frozen=True):
    """A version that an application states for itself."""

    app_id: str
    version: Int64


class CommitInfo(DeltaForm, frozen=True):
    """The origin of a commit. Unknown values are ignored."""

    timestamp: object = None
    penstock_write_id: object = None

    @property
    def time_ms(self) -> int:
        return self.timestamp if isinstance(self.timestamp, int) and 0 <= self.timestamp <= TIME_MAX_MS else 0


class _Add(DeltaForm, frozen=True):
    path: str
    partition_values: Texts
    size: Number
    modification_time: TimeMs
    stats: str
    tags: Texts


class _StoreTime(Struct, frozen=True):
    store_timestamp: str


class _Stats(DeltaForm, frozen=True):
    num_records: Number
    min_values: _StoreTime
    max_values: _StoreTime


Logged: TypeAlias = TableFile | RemoveFile | Txn | Protocol | TableMetadata | CommitInfo
F = TypeVar("F")


def start_txn(queue: int) -> str:
    """The version is the first offset that retention has left."""
    return f"{PUBLISHED}/queue/{queue}/start"


def end_txn(queue: int) -> str:
    """The version is the offset after the last published one."""
    return f"{PUBLISHED}/queue/{queue}/end"


def lost_txn(queue: int, first_offset: int) -> str:
    """The version is the exclusive end of a range of lost offsets."""
    return f"{PUBLISHED}/queue/{queue}/lost/{first_offset}"


def parse_lost(app_id: str) -> tuple[int, int] | None:
    """(queue, first offset) of a `lost_txn`."""
    parts = app_id.split("/")
    if len(parts) != 5 or (parts[0], parts[1], parts[3]) != (PUBLISHED, "queue", "lost"):
        return None
    queue, first_offset = whole_number(parts[2]), whole_number(parts[4])
    return None if queue is None or first_offset is None else (queue, first_offset)


def commit_info(*, operation: str, write_id: str, time_ms: int, blind_append: bool) -> Action:
    return {
        "commitInfo": {
            "timestamp": time_ms,
            "operation": operation,
            "operationParameters": {},
            "isBlindAppend": blind_append,
            "engineInfo": _ENGINE,
            "penstockWriteId": write_id,
        }
    }


def protocol(form: TableForm = UNTYPED) -> Action:
    return {"protocol": fields_of(form.protocol)}


def metadata(table_id: str, time_ms: int, form: TableForm = UNTYPED) -> Action:
    configuration: Texts = {**form.configuration}
    partitions = tuple(PARTITION_COLUMNS)
    of_new = TableMetadata(table_id, form.schema_string, partitions, configuration=configuration, created_time=time_ms)
    return {"metaData": fields_of(of_new)}


def txn(app_id: str, version: int) -> Action:
    return {"txn": {"appId": app_id, "version": version}}


def add(file: TableFile, *, data_change: bool) -> Action:
    return {"add": add_fields(file, data_change=data_change)}


def add_fields(file: TableFile, *, data_change: bool) -> dict[str, Any]:
    stats = {
        "numRecords": file.rows,
        "minValues": {"offset": file.first_offset, "store_timestamp": _iso(file.store_first_ms)},
        "maxValues": {"offset": file.limit_offset - 1, "store_timestamp": _iso(file.store_last_ms)},
        "nullCount": {"offset": 0, "store_timestamp": 0},
    }
    return {
        "path": file.path,
        "partitionValues": {"queue": str(file.queue)},
        "size": file.size_bytes,
        "modificationTime": file.modified_ms,
        "dataChange": data_change,
        "stats": json.dumps(stats, separators=(",", ":")),
        "tags": {
            "base_offset": str(file.first_offset),
            "end_offset": str(file.limit_offset),
            **({"columns": " ".join(file.more_columns)} if file.more_columns else {}),
        },
    }


def remove(file: TableFile, *, time_ms: int, data_change: bool) -> Action:
    return {
        "remove": {
            "path": file.path,
            "deletionTimestamp": time_ms,
            "dataChange": data_change,
            "extendedFileMetadata": True,
            "partitionValues": {"queue": str(file.queue)},
            "size": file.size_bytes,
        }
    }


def parse_add(fields: object, *, where: str) -> TableFile:
    """Raises `ForeignObject` for another writer's."""
    try:
        found = converted(fields, _Add)
        stats = decoded(found.stats, _Stats)
        file = TableFile(
            path=found.path,
            queue=_whole(found.partition_values.get("queue")),
            first_offset=_whole(found.tags.get("base_offset")),
            limit_offset=_whole(found.tags.get("end_offset")),
            rows=stats.num_records,
            size_bytes=found.size,
            store_first_ms=_ms(stats.min_values.store_timestamp),
            store_last_ms=_ms(stats.max_values.store_timestamp),
            modified_ms=found.modification_time,
            more_columns=tuple((found.tags.get("columns") or "").split()),
        )
        if not _makes_sense(file):
            raise ValueError(f"{file}")
        return file
    except (msgspec.MsgspecError, RecursionError, ValueError, OverflowError) as error:
        raise ForeignObject(
            "the table names a file that Penstock did not add",
            object=where,
            observed=f"{shown(fields.get('path') if isinstance(fields, dict) else fields)}: {shown(error)}",
            hint="only Penstock may commit to a topic's table: `penstock repair TOPIC` undoes what another writer (OPTIMIZE, DELETE, …) did",
        ) from error


def _makes_sense(file: TableFile) -> bool:
    folder, _, name = file.path.partition("/")
    return (
        file.queue < QUEUES_MAX
        and folder == f"queue={file.queue}"
        and name not in {"", ".", ".."}
        and "/" not in name
        and name.isprintable()
        and file.limit_offset <= NUMBER_MAX
        and 0 < file.rows <= file.limit_offset - file.first_offset
        and file.store_first_ms <= file.store_last_ms
        and set(file.more_columns) <= {*RARE, VALUE}
    )


def _whole(text: str | None) -> int:
    number = None if text is None else whole_number(text)
    if number is None:
        raise ValueError(f"no number: {text}")
    return number


def encode_commit(actions: Iterable[Action]) -> bytes:
    return "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions).encode()


def decode_commit(data: bytes, *, where: str) -> list[Logged]:
    """The actions of a commit, whose lines end with a line feed only. Raises `DataDamaged`, `ForeignObject` for others' adds, or `NewerFormatError`
    for an unknown protocol.
    """
    try:
        lines: list[object] = [msgspec.json.decode(line) for line in data.split(b"\n") if line.strip()]
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise _no_commit(where, error) from error
    if not lines:
        raise _no_commit(where, f"{len(data)} bytes")
    return [logged for line in lines for logged in parse_action(line, where=where)]


def parse_action(action: object, *, where: str) -> Iterator[Logged]:
    """Raises as `decode_commit`."""
    if not isinstance(action, dict) or not action:
        raise _no_commit(where, action)
    for kind, fields in action.items():
        if fields is None:
            continue
        match kind:
            case "add":
                yield parse_add(fields, where=where)
            case "remove":
                yield _parsed(fields, RemoveFile, where)
            case "txn":
                yield _checked_txn(_parsed(fields, Txn, where), where)
            case "metaData":
                yield _parsed(fields, TableMetadata, where)
            case "protocol":
                found = _parsed(fields, Protocol, where)
                check_protocol(found, where=where)
                yield found
            case "commitInfo":
                yield CommitInfo() if not isinstance(fields, dict) else _parsed(fields, CommitInfo, where)


def _checked_txn(found: Txn, where: str) -> Txn:
    if found.version < 0 and found.app_id.split("/")[0] == PUBLISHED:
        raise DataDamaged("a position of the table is below zero", object=where, observed=f"{shown(found.app_id)}: {found.version}")
    return found


def _parsed(fields: object, form: type[F], where: str) -> F:
    try:
        return converted(fields, form)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _no_commit(where, error) from error


def _no_commit(where: str, observed: object) -> DataDamaged:
    return DataDamaged(
        "the object is not a Delta commit",
        object=where,
        observed=shown(observed),
        hint="put the object back as it was; rows that are not published yet are safe in the log",
    )


def write_id_of(actions: Iterable[Logged]) -> str | None:
    """The write id of a Penstock commit."""
    found = next((action.penstock_write_id for action in actions if isinstance(action, CommitInfo)), None)
    return found if isinstance(found, str) else None


@dataclass(frozen=True, slots=True)
class CommitContent:
    """A commit without its version and times, which each try sets anew."""

    operation: str
    adds: tuple[TableFile, ...] = ()
    removes: tuple[TableFile, ...] = ()
    txns: Mapping[str, int] | None = None
    data_change: bool = True
    removed_ms: int = 0
    """The store's clock, for the collector."""

    def actions(self, *, write_id: str, time_ms: int, before: tuple[Action, ...] = ()) -> list[Action]:
        stamped = [replace(file, modified_ms=time_ms) for file in self.adds] if self.data_change else self.adds
        blind = bool(self.adds) and not self.removes
        return [
            commit_info(operation=self.operation, write_id=write_id, time_ms=time_ms, blind_append=blind),
            *before,
            *(txn(app_id, version) for app_id, version in (self.txns or {}).items()),
            *(remove(file, time_ms=self.removed_ms, data_change=self.data_change) for file in self.removes),
            *(add(file, data_change=self.data_change) for file in stamped),
        ]


def _iso(time_ms: int) -> str:
    time = datetime.fromtimestamp(time_ms // 1000, UTC).replace(microsecond=time_ms % 1000 * 1000)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _ms(text: str) -> int:
    time = datetime.fromisoformat(text)
    if time.tzinfo is None or time.year < 1970:
        raise ValueError(f"no time of the table: {text}")
    return int(time.timestamp()) * 1000 + time.microsecond // 1000
