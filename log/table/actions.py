"""Delta's actions: what a commit of the topic's table says, as JSON lines.

Protocol (1, 2), partitioned by queue, no table features, so that everything that speaks Delta reads it. Small facts about queues
are `txn` actions, which checkpoints keep: the last published entry, where each queue starts and ends, which offsets were lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeAlias

import pyarrow as pa

from ..errors import DataDamaged, ForeignObject, NewerFormatError
from ..messages import MESSAGE_SCHEMA
from .segments import TableFile

PUBLISHED = "penstock"
"""The `txn` whose version is the last published entry."""
_ENGINE = "Penstock"
PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
PARTITION_COLUMNS = ["queue"]
Action: TypeAlias = dict[str, Any]


def start_txn(queue: int) -> str:
    """The `txn` whose version is the first offset that retention has left."""
    return f"{PUBLISHED}/queue/{queue}/start"


def end_txn(queue: int) -> str:
    """The `txn` whose version is the offset behind the last published one."""
    return f"{PUBLISHED}/queue/{queue}/end"


def lost_txn(queue: int, first_offset: int) -> str:
    """The `txn` whose version is where a range of lost offsets ends (exclusive)."""
    return f"{PUBLISHED}/queue/{queue}/lost/{first_offset}"


def parse_lost(app_id: str) -> tuple[int, int] | None:
    """(queue, first offset) of a `lost_txn`, or None for another `txn`."""
    parts = app_id.split("/")
    return (int(parts[2]), int(parts[4])) if len(parts) == 5 and parts[3] == "lost" and parts[0] == PUBLISHED else None


def commit_info(*, operation: str, write_id: str, time_ms: int, blind_append: bool) -> Action:
    """The line by which a writer recognises its own commit."""
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


def protocol() -> Action:
    return {"protocol": PROTOCOL}


def metadata(table_id: str, time_ms: int) -> Action:
    return {
        "metaData": {
            "id": table_id,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": SCHEMA_STRING,
            "partitionColumns": PARTITION_COLUMNS,
            "configuration": {},
            "createdTime": time_ms,
        }
    }


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
        "tags": {"base_offset": str(file.first_offset), "end_offset": str(file.limit_offset)},
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


def parse_add(fields: Mapping[str, Any], *, where: str) -> TableFile:
    """The file an add names. Raises `ForeignObject` when Penstock did not write the add."""
    try:
        stats = json.loads(fields["stats"])
        tags = dict(fields["tags"])
        return TableFile(
            path=fields["path"],
            queue=int(dict(fields["partitionValues"])["queue"]),
            first_offset=int(tags["base_offset"]),
            limit_offset=int(tags["end_offset"]),
            rows=stats["numRecords"],
            size_bytes=fields["size"],
            store_first_ms=_ms(stats["minValues"]["store_timestamp"]),
            store_last_ms=_ms(stats["maxValues"]["store_timestamp"]),
            modified_ms=fields["modificationTime"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ForeignObject(
            "the table names a file that Penstock did not add",
            object=where,
            observed=f"{fields.get('path')}: {error!r}",
            hint="only Penstock may commit to a topic's table; undo what another writer (OPTIMIZE, VACUUM, ...) did",
        ) from error


def encode_commit(actions: Iterable[Action]) -> bytes:
    return "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions).encode()


def decode_commit(data: bytes, *, where: str) -> list[Action]:
    """The actions of a commit. Raises `DataDamaged`, or `NewerFormatError` for a protocol we do not speak."""
    try:
        found = [json.loads(line) for line in data.decode().splitlines() if line.strip()]
    except ValueError as error:
        raise DataDamaged("the object is not a Delta commit", object=where, observed=str(error)) from error
    if not found or not all(isinstance(action, dict) and action for action in found):
        raise DataDamaged("the object is not a Delta commit", object=where, observed=f"{len(data)} bytes")
    for action in found:
        check_protocol(action.get("protocol"), where=where)
    return found


def check_protocol(fields: Mapping[str, Any] | None, *, where: str) -> None:
    if fields is not None and (fields["minReaderVersion"], fields["minWriterVersion"]) != (1, 2):
        raise NewerFormatError(
            "the table has features that Penstock does not write", object=where, expected=PROTOCOL, observed=dict(fields)
        )


def write_id_of(actions: Iterable[Action]) -> str | None:
    """The write id in a commit's `commitInfo`; None when it is not one of ours."""
    return next((a["commitInfo"].get("penstockWriteId") for a in actions if "commitInfo" in a), None)


@dataclass(frozen=True, slots=True)
class Commit:
    """What a commit says, but for its version and its times, which each try sets anew."""

    operation: str
    adds: tuple[TableFile, ...] = ()
    removes: tuple[TableFile, ...] = ()
    txns: Mapping[str, int] | None = None
    data_change: bool = True
    """False when the same rows are only put into other files."""
    removed_ms: int = 0
    """By the store's clock, as the collector judges by it."""

    def actions(self, *, write_id: str, time_ms: int, before: tuple[Action, ...] = ()) -> list[Action]:
        stamped = [replace(file, modified_ms=time_ms) for file in self.adds]
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
    return int(time.timestamp()) * 1000 + time.microsecond // 1000


def _delta_type(kind: pa.DataType) -> str | dict[str, object]:
    if pa.types.is_list(kind):
        return {"type": "array", "elementType": _delta_type(kind.value_type), "containsNull": True}
    if pa.types.is_map(kind):
        key, item = _delta_type(kind.key_type), _delta_type(kind.item_type)
        return {"type": "map", "keyType": key, "valueType": item, "valueContainsNull": True}
    return _PLAIN_TYPES[str(kind)]


_PLAIN_TYPES = {
    "int32": "integer",
    "int64": "long",
    "string": "string",
    "binary": "binary",
    "timestamp[us, tz=UTC]": "timestamp",
}
SCHEMA_STRING = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": field.name, "type": _delta_type(field.type), "nullable": True, "metadata": {}} for field in MESSAGE_SCHEMA
        ],
    },
    separators=(",", ":"),
)
