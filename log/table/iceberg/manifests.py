"""Iceberg's manifests: Avro files that name data files, and the lists that name a snapshot's manifests."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import ModuleType
from typing import Any

from ...errors import DataDamaged, MissingDependency, install_hint
from ...format.stored_json import shown
from ..delta.segments import TableFile
from .columns import OFFSET_ID, QUEUE_ID, STORE_TIMESTAMP_ID, IcebergColumns, Json

PARTITION_ID = 1000
PARTITION_SPEC = [{"name": "queue", "transform": "identity", "source-id": QUEUE_ID, "field-id": PARTITION_ID}]
_CODEC = "deflate"
_HINT = "delete the folder metadata/ of the table while no maintenance runs; the next round writes it anew"


class ManifestStatus(IntEnum):
    """The change by the manifest's own snapshot."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A data file in a manifest."""

    status: ManifestStatus
    snapshot_id: int
    """The snapshot that added or deleted it."""
    sequence_number: int
    path: str
    """Relative to the table."""
    queue: int
    rows: int
    size_bytes: int
    bounds: Mapping[int, tuple[bytes, bytes]]
    """Lowest and highest values by the column's id."""

    @property
    def is_live(self) -> bool:
        return self.status is not ManifestStatus.DELETED


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest in a manifest list."""

    path: str
    """Relative to the table."""
    size_bytes: int
    sequence_number: int
    snapshot_id: int
    entries: tuple[ManifestEntry, ...]


def added_entry(file: TableFile, *, snapshot_id: int, sequence_number: int) -> ManifestEntry:
    bounds = {
        OFFSET_ID: (_LONG.pack(file.first_offset), _LONG.pack(file.limit_offset - 1)),
        STORE_TIMESTAMP_ID: (_LONG.pack(file.store_first_ms * 1000), _LONG.pack(file.store_last_ms * 1000)),
    }
    return ManifestEntry(
        ManifestStatus.ADDED, snapshot_id, sequence_number, file.path, file.queue, file.rows, file.size_bytes, bounds
    )


def first_offset(entry: ManifestEntry) -> int:
    number: int = _LONG.unpack(entry.bounds[OFFSET_ID][0])[0]
    return number


def last_offset(entry: ManifestEntry) -> int:
    number: int = _LONG.unpack(entry.bounds[OFFSET_ID][1])[0]
    return number


def encode_manifest(entries: Iterable[ManifestEntry], columns: IcebergColumns, *, location: str, sync_marker: bytes) -> bytes:
    metadata = {
        "schema": json.dumps(columns.schema, separators=(",", ":")),
        "schema-id": str(columns.schema_id),
        "partition-spec": json.dumps(PARTITION_SPEC, separators=(",", ":")),
        "partition-spec-id": "0",
        "format-version": "2",
        "content": "data",
    }
    return _encode(_ENTRY_SCHEMA, [_entry_record(entry, location) for entry in entries], metadata, sync_marker)


def encode_manifest_list(
    manifests: Sequence[Manifest],
    *,
    location: str,
    snapshot_id: int,
    parent_id: int | None,
    sequence_number: int,
    sync_marker: bytes,
) -> bytes:
    metadata = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent_id is None else str(parent_id),
        "sequence-number": str(sequence_number),
        "format-version": "2",
    }
    return _encode(_LIST_SCHEMA, [_manifest_record(manifest, location) for manifest in manifests], metadata, sync_marker)


def decode_manifest(data: bytes, *, location: str, where: str) -> tuple[ManifestEntry, ...]:
    """The entries of a manifest. Raises `DataDamaged`."""
    return tuple(_entry_of(record, location, where) for record in _decode(data, where))


def decode_manifest_list(data: bytes, *, location: str, where: str) -> list[Manifest]:
    """The manifests of a list, without their entries. Raises `DataDamaged`."""
    return [_manifest_of(record, location, where) for record in _decode(data, where)]


# --- records


def _entry_record(entry: ManifestEntry, location: str) -> Json:
    return {
        "status": int(entry.status),
        "snapshot_id": entry.snapshot_id,
        "sequence_number": entry.sequence_number,
        "file_sequence_number": entry.sequence_number,
        "data_file": {
            "content": 0,
            "file_path": f"{location}/{entry.path}",
            "file_format": "PARQUET",
            "partition": {"queue": entry.queue},
            "record_count": entry.rows,
            "file_size_in_bytes": entry.size_bytes,
            "null_value_counts": [{"key": column, "value": 0} for column in entry.bounds],
            "lower_bounds": [{"key": column, "value": low} for column, (low, _) in entry.bounds.items()],
            "upper_bounds": [{"key": column, "value": high} for column, (_, high) in entry.bounds.items()],
        },
    }


def _entry_of(record: Json, location: str, where: str) -> ManifestEntry:
    try:
        file = record["data_file"]
        high = {item["key"]: item["value"] for item in file["upper_bounds"]}
        return ManifestEntry(
            ManifestStatus(record["status"]),
            record["snapshot_id"],
            record["sequence_number"],
            _inside(file["file_path"], location),
            file["partition"]["queue"],
            file["record_count"],
            file["file_size_in_bytes"],
            {item["key"]: (item["value"], high[item["key"]]) for item in file["lower_bounds"]},
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(where, error) from error


def _manifest_record(manifest: Manifest, location: str) -> Json:
    def of(status: ManifestStatus) -> list[ManifestEntry]:
        return [entry for entry in manifest.entries if entry.status is status]

    added, existing, deleted = of(ManifestStatus.ADDED), of(ManifestStatus.EXISTING), of(ManifestStatus.DELETED)
    queues = [entry.queue for entry in manifest.entries]
    live = [entry.sequence_number for entry in manifest.entries if entry.is_live]
    return {
        "manifest_path": f"{location}/{manifest.path}",
        "manifest_length": manifest.size_bytes,
        "partition_spec_id": 0,
        "content": 0,
        "sequence_number": manifest.sequence_number,
        "min_sequence_number": min(live, default=manifest.sequence_number),
        "added_snapshot_id": manifest.snapshot_id,
        "added_files_count": len(added),
        "existing_files_count": len(existing),
        "deleted_files_count": len(deleted),
        "added_rows_count": sum(entry.rows for entry in added),
        "existing_rows_count": sum(entry.rows for entry in existing),
        "deleted_rows_count": sum(entry.rows for entry in deleted),
        "partitions": [
            {"contains_null": False, "lower_bound": _INT.pack(min(queues)), "upper_bound": _INT.pack(max(queues))},
        ],
    }


def _manifest_of(record: Json, location: str, where: str) -> Manifest:
    try:
        return Manifest(
            _inside(record["manifest_path"], location),
            record["manifest_length"],
            record["sequence_number"],
            record["added_snapshot_id"],
            (),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(where, error) from error


def _inside(path: str, location: str) -> str:
    if not path.startswith(f"{location}/"):
        raise ValueError(f"not in the table: {path}")
    return path.removeprefix(f"{location}/")


# --- Avro

_LONG, _INT = struct.Struct("<q"), struct.Struct("<i")


def _required(name: str, type_: object, number: int) -> Json:
    return {"name": name, "type": type_, "field-id": number}


def _optional(name: str, type_: object, number: int) -> Json:
    return {"name": name, "type": ["null", type_], "default": None, "field-id": number}


def _map(key_id: int, value: str, value_id: int) -> Json:
    pair = {
        "type": "record",
        "name": f"k{key_id}_v{value_id}",
        "fields": [_required("key", "int", key_id), _required("value", value, value_id)],
    }
    return {"type": "array", "logicalType": "map", "items": pair}


_ENTRY_SCHEMA = {
    "type": "record",
    "name": "manifest_entry",
    "fields": [
        _required("status", "int", 0),
        _optional("snapshot_id", "long", 1),
        _optional("sequence_number", "long", 3),
        _optional("file_sequence_number", "long", 4),
        _required(
            "data_file",
            {
                "type": "record",
                "name": "r2",
                "fields": [
                    _required("content", "int", 134),
                    _required("file_path", "string", 100),
                    _required("file_format", "string", 101),
                    _required(
                        "partition", {"type": "record", "name": "r102", "fields": [_optional("queue", "int", PARTITION_ID)]}, 102
                    ),
                    _required("record_count", "long", 103),
                    _required("file_size_in_bytes", "long", 104),
                    _optional("null_value_counts", _map(121, "long", 122), 110),
                    _optional("lower_bounds", _map(126, "bytes", 127), 125),
                    _optional("upper_bounds", _map(129, "bytes", 130), 128),
                ],
            },
            2,
        ),
    ],
}
_SUMMARY = {
    "type": "record",
    "name": "r508",
    "fields": [
        _required("contains_null", "boolean", 509),
        _optional("lower_bound", "bytes", 510),
        _optional("upper_bound", "bytes", 511),
    ],
}
_LIST_SCHEMA = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        _required("manifest_path", "string", 500),
        _required("manifest_length", "long", 501),
        _required("partition_spec_id", "int", 502),
        _required("content", "int", 517),
        _required("sequence_number", "long", 515),
        _required("min_sequence_number", "long", 516),
        _required("added_snapshot_id", "long", 503),
        _required("added_files_count", "int", 504),
        _required("existing_files_count", "int", 505),
        _required("deleted_files_count", "int", 506),
        _required("added_rows_count", "long", 512),
        _required("existing_rows_count", "long", 513),
        _required("deleted_rows_count", "long", 514),
        _optional("partitions", {"type": "array", "items": _SUMMARY, "element-id": 508}, 507),
    ],
}


def _encode(schema: Json, records: list[Json], metadata: dict[str, str], sync_marker: bytes) -> bytes:
    file = io.BytesIO()
    _fastavro().writer(file, schema, records, codec=_CODEC, metadata=metadata, sync_marker=sync_marker)
    return file.getvalue()


def _decode(data: bytes, where: str) -> list[Json]:
    fastavro = _fastavro()
    try:
        return list(fastavro.reader(io.BytesIO(data)))
    except Exception as error:  # whatever bytes make fastavro raise: it has no error of its own
        raise _damaged(where, error) from error


def _damaged(where: str, error: object) -> DataDamaged:
    return DataDamaged("the object is not one of the table's Iceberg manifests", object=where, observed=shown(error), hint=_HINT)


def _fastavro() -> ModuleType | Any:  # noqa: ANN401 - a module
    """fastavro, which is an extra. Raises `MissingDependency`."""
    try:
        import fastavro
    except ImportError as error:
        raise MissingDependency(
            "Iceberg's manifests are written with fastavro, which is missing",
            operation="list the table for Iceberg",
            hint=install_hint("iceberg"),
        ) from error
    return fastavro
