"""The metadata of the Iceberg table: one JSON object for every version."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Struct

from ...errors import DataDamaged, ForeignObject
from ...format.forms import decoded
from ...format.stored_json import Number, TimeMs, shown, whole_number
from .columns import IcebergColumns, Json
from .manifests import PARTITION_ID, PARTITION_SPEC

DELTA_VERSION = "penstock.delta-version"
"""A snapshot's Delta version, in its summary."""
WRITE_ID = "penstock.write-id"
"""The property by which a writer recognises its own version."""
_HINT = "only Penstock may write to a topic's table; delete the folder metadata/ while no maintenance runs, and the next round writes it anew"


@dataclass(frozen=True, slots=True)
class IcebergSnapshot:
    """A snapshot in the table's metadata."""

    id: int
    parent_id: int | None
    sequence_number: int
    time_ms: int
    manifest_list: str
    """Relative to the table."""
    summary: dict[str, str]
    schema_id: int

    @property
    def delta_version(self) -> int:
        """The version of the Delta table with the same files."""
        return int(self.summary[DELTA_VERSION])


@dataclass(frozen=True, slots=True)
class IcebergTable:
    """One version of the table's metadata."""

    version: int
    """The number in the object's name."""
    uuid: str
    location: str
    """The URI of the table's folder."""
    updated_ms: int
    last_sequence_number: int
    last_column_id: int
    schemas: tuple[Json, ...]
    """The schemas of the listed snapshots; the last is the current one."""
    name_mapping: list[Json]
    snapshots: tuple[IcebergSnapshot, ...]
    """Oldest first; the last is the current one."""
    write_id: str

    @property
    def current(self) -> IcebergSnapshot:
        return self.snapshots[-1]

    @property
    def schema_id(self) -> int:
        number: int = self.schemas[-1]["schema-id"]
        return number


def schemas_with(schemas: tuple[Json, ...], columns: IcebergColumns, snapshots: tuple[IcebergSnapshot, ...]) -> tuple[Json, ...]:
    needed = {snapshot.schema_id for snapshot in snapshots} - {columns.schema_id}
    return (*(schema for schema in schemas if schema["schema-id"] in needed), columns.schema)


def encode_table(table: IcebergTable) -> bytes:
    current = table.current
    document = {
        "format-version": 2,
        "table-uuid": table.uuid,
        "location": table.location,
        "last-sequence-number": table.last_sequence_number,
        "last-updated-ms": table.updated_ms,
        "last-column-id": table.last_column_id,
        "current-schema-id": table.schema_id,
        "schemas": table.schemas,
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": PARTITION_SPEC}],
        "last-partition-id": PARTITION_ID,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {
            # Engines that would delete files for good leave them alone.
            "gc.enabled": "false",
            "schema.name-mapping.default": json.dumps(table.name_mapping, separators=(",", ":")),
            WRITE_ID: table.write_id,
        },
        "current-snapshot-id": current.id,
        "refs": {"main": {"snapshot-id": current.id, "type": "branch"}},
        "snapshots": [_snapshot_fields(snapshot, table.location) for snapshot in table.snapshots],
        "snapshot-log": [{"snapshot-id": snapshot.id, "timestamp-ms": snapshot.time_ms} for snapshot in table.snapshots],
        "metadata-log": [],
    }
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def _snapshot_fields(snapshot: IcebergSnapshot, location: str) -> Json:
    parent = {} if snapshot.parent_id is None else {"parent-snapshot-id": snapshot.parent_id}
    return {
        "snapshot-id": snapshot.id,
        **parent,
        "sequence-number": snapshot.sequence_number,
        "timestamp-ms": snapshot.time_ms,
        "manifest-list": f"{location}/{snapshot.manifest_list}",
        "summary": snapshot.summary,
        "schema-id": snapshot.schema_id,
    }


class _Form(Struct, frozen=True, rename="kebab"):
    """The fields that Penstock reads; it always writes the others the same."""


class _SnapshotForm(_Form, frozen=True):
    snapshot_id: Number
    sequence_number: Number
    timestamp_ms: TimeMs
    manifest_list: str
    summary: dict[str, str]
    schema_id: Number
    parent_snapshot_id: Number | None = None


class _PropertiesForm(Struct, frozen=True):
    name_mapping: str = msgspec.field(name="schema.name-mapping.default")
    write_id: str = msgspec.field(name=WRITE_ID)


class _TableForm(_Form, frozen=True):
    table_uuid: str
    location: str
    last_sequence_number: Number
    last_updated_ms: TimeMs
    last_column_id: Number
    current_schema_id: Number
    schemas: tuple[dict[str, Any], ...]
    properties: _PropertiesForm
    current_snapshot_id: Number
    snapshots: tuple[_SnapshotForm, ...]


def decode_table(data: bytes, *, version: int, where: str) -> IcebergTable:
    """Raises `DataDamaged`, or `ForeignObject` for another engine's version."""
    try:
        found = decoded(data, _TableForm)
        mapping = decoded(found.properties.name_mapping, list[dict[str, Any]])
        snapshots = tuple(_snapshot_of(form, found.location) for form in found.snapshots)
        if not found.schemas or found.schemas[-1].get("schema-id") != found.current_schema_id:
            raise ValueError(f"the current schema is not the last: {found.current_schema_id}")
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError) as error:
        raise DataDamaged(
            "the object is not the metadata of the Iceberg table", object=where, observed=shown(error), hint=_HINT
        ) from error
    last = snapshots[-1] if snapshots else None
    if last is None or last.id != found.current_snapshot_id or whole_number(last.summary.get(DELTA_VERSION, "")) is None:
        raise ForeignObject(
            "another engine wrote to the Iceberg table",
            object=where,
            expected=f"{DELTA_VERSION} in the summary of the current snapshot",
            observed=shown(last and last.summary),
            hint=_HINT,
        )
    return IcebergTable(
        version=version,
        uuid=found.table_uuid,
        location=found.location,
        updated_ms=found.last_updated_ms,
        last_sequence_number=found.last_sequence_number,
        last_column_id=found.last_column_id,
        schemas=found.schemas,
        name_mapping=mapping,
        snapshots=snapshots,
        write_id=found.properties.write_id,
    )


def _snapshot_of(form: _SnapshotForm, location: str) -> IcebergSnapshot:
    if not form.manifest_list.startswith(f"{location}/"):
        raise ValueError(f"a manifest list outside the table: {form.manifest_list}")
    return IcebergSnapshot(
        form.snapshot_id,
        form.parent_snapshot_id,
        form.sequence_number,
        form.timestamp_ms,
        form.manifest_list.removeprefix(f"{location}/"),
        form.summary,
        form.schema_id,
    )
