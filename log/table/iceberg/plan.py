"""Decides the next version of the Iceberg table from the version before and a Delta snapshot alone.

Manifests with a removed file are written anew, together, others kept; many small ones are merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ...errors import ForeignObject, InternalError
from ...format.stored_json import whole_number
from ..delta.segments import TableFile
from ..delta.snapshot import Snapshot
from ..delta.table_schema import VERSION_PROPERTY
from .columns import UNTYPED_SCHEMA, IcebergColumns
from .manifests import Manifest, ManifestEntry, ManifestStatus, added_entry, first_offset, last_offset
from .table_metadata import DELTA_VERSION, IcebergSnapshot, IcebergTable, schemas_with

MANIFEST_ENTRIES = 1000
"""The most files in a manifest, so that a removal writes little anew."""
MANIFESTS_MERGED = 16
"""Small manifests that are merged into one."""
SNAPSHOTS_KEPT = 10
"""Each listed snapshot adds half a kilobyte to a publication."""
SNAPSHOT_KEPT_MS = 24 * 3600 * 1000
"""The time for which a former snapshot is listed; its files stay longer."""


@dataclass(frozen=True, slots=True)
class IcebergVersion:
    """A version of the Iceberg table, with its current manifests."""

    table: IcebergTable
    manifests: tuple[Manifest, ...]

    @property
    def delta_version(self) -> int:
        return self.table.current.delta_version


@dataclass(frozen=True, slots=True)
class ManifestPlan:
    """The manifests of the next snapshot, and its changes."""

    kept: tuple[Manifest, ...]
    written: tuple[tuple[ManifestEntry, ...], ...]
    operation: str
    summary: Mapping[str, str]


def is_due(listing: IcebergVersion | None, delta: Snapshot, columns: IcebergColumns, *, location: str, now_ms: int) -> bool:
    """Whether the table is behind the Delta table or the topic's schema, was copied, or lists old snapshots."""
    if listing is None:
        return True
    table = listing.table
    return (
        listing.delta_version < delta.version
        or table.schema_id < columns.schema_id
        or table.location != location
        or len(kept_snapshots(table.snapshots, now_ms=now_ms)) < len(table.snapshots)
    )


def is_known(listing: IcebergVersion | None, delta: Snapshot, columns: IcebergColumns) -> bool:
    """Whether the columns of all files are known; files may be of a later schema version."""
    if delta.metadata is None or not delta.files:
        return True
    needed = whole_number(delta.metadata.configuration.get(VERSION_PROPERTY) or "") or UNTYPED_SCHEMA
    return needed <= max(columns.schema_id, UNTYPED_SCHEMA if listing is None else listing.table.schema_id)


def needs_snapshot(listing: IcebergVersion | None, delta: Snapshot, *, location: str) -> bool:
    """Whether the next version has a new snapshot, or only other schemas or lists."""
    return listing is None or listing.delta_version < delta.version or listing.table.location != location


def check_same_table(listing: IcebergVersion, delta: Snapshot) -> None:
    """Raise `ForeignObject` for another Delta table's metadata."""
    if delta.metadata is None:
        raise InternalError("a Delta table without metadata")
    if listing.table.uuid != delta.metadata.id:
        raise ForeignObject(
            "the Iceberg metadata is of another table",
            object=listing.table.location,
            expected=delta.metadata.id,
            observed=listing.table.uuid,
            hint="delete the folder metadata/ of the table while no maintenance runs; the next round writes it anew",
        )


def plan(manifests: Sequence[Manifest], delta: Snapshot, *, snapshot_id: int, sequence_number: int) -> ManifestPlan:
    """The manifests of a snapshot with exactly the files of ``delta``."""
    live = {file.path: file for file in delta.all_files}
    listed = {entry.path: entry for manifest in manifests for entry in manifest.entries if entry.is_live}
    added = [file for path, file in live.items() if path not in listed]
    removed = [entry for path, entry in listed.items() if path not in live]
    gone = {entry.path for entry in removed}
    standing = [manifest for manifest in manifests if any(entry.is_live for entry in manifest.entries)]
    touched = [manifest for manifest in standing if gone and any(entry.path in gone for entry in manifest.entries if entry.is_live)]
    untouched = [manifest for manifest in standing if manifest not in touched] if touched else standing
    small = [manifest for manifest in untouched if len(manifest.entries) < MANIFEST_ENTRIES]
    if len(small) + 1 >= MANIFESTS_MERGED:
        touched += small
        untouched = [manifest for manifest in untouched if len(manifest.entries) >= MANIFEST_ENTRIES]
    existing = [
        replace(entry, status=ManifestStatus.EXISTING)
        for manifest in touched
        for entry in manifest.entries
        if entry.is_live and entry.path not in gone
    ]
    entries = [
        *existing,
        *(replace(entry, status=ManifestStatus.DELETED, snapshot_id=snapshot_id) for entry in removed),
        *(added_entry(file, snapshot_id=snapshot_id, sequence_number=sequence_number) for file in added),
    ]
    return ManifestPlan(tuple(untouched), tuple(chunks(entries)), operation(added, removed), summary(delta, added, removed))


def chunks(entries: Iterable[ManifestEntry]) -> Iterable[tuple[ManifestEntry, ...]]:
    """Entries by queue and offset, in bounded manifests."""
    ordered = sorted(entries, key=lambda entry: (entry.queue, first_offset(entry), entry.path))
    for start in range(0, len(ordered), MANIFEST_ENTRIES):
        yield tuple(ordered[start : start + MANIFEST_ENTRIES])


def operation(added: Sequence[TableFile], removed: Sequence[ManifestEntry]) -> str:
    """Iceberg's name for a change of the files."""
    if not removed:
        return "append"
    if not added:
        return "delete"
    of_added = _spans((file.queue, file.rows, file.first_offset, file.limit_offset - 1) for file in added)
    of_removed = _spans((entry.queue, entry.rows, first_offset(entry), last_offset(entry)) for entry in removed)
    return "replace" if of_added == of_removed else "overwrite"


def _spans(files: Iterable[tuple[int, int, int, int]]) -> dict[int, tuple[int, int, int]]:
    """Rows, first and last offset by queue: equal spans mean equal rows."""
    spans: dict[int, tuple[int, int, int]] = {}
    for queue, rows, first, last in files:
        known_rows, known_first, known_last = spans.get(queue, (0, first, last))
        spans[queue] = (known_rows + rows, min(known_first, first), max(known_last, last))
    return spans


def summary(delta: Snapshot, added: Sequence[TableFile], removed: Sequence[ManifestEntry]) -> dict[str, str]:
    """A snapshot's changes and totals, in Iceberg's words."""
    files = delta.all_files
    numbers = {
        "added-data-files": len(added),
        "added-records": sum(file.rows for file in added),
        "deleted-data-files": len(removed),
        "deleted-records": sum(entry.rows for entry in removed),
    }
    totals = {
        "total-data-files": len(files),
        "total-records": sum(file.rows for file in files),
        "total-files-size": delta.size_bytes,
        DELTA_VERSION: delta.version,
    }
    return {name: str(number) for name, number in numbers.items() if number} | {
        name: str(number) for name, number in totals.items()
    }


def kept_snapshots(snapshots: Sequence[IcebergSnapshot], *, now_ms: int) -> tuple[IcebergSnapshot, ...]:
    """The newest snapshots that were current lately."""
    newest = snapshots[-SNAPSHOTS_KEPT:]
    followed = pairwise(newest)
    return (*(one for one, after in followed if now_ms - after.time_ms <= SNAPSHOT_KEPT_MS), newest[-1])


def next_table(
    before: IcebergTable | None,
    delta: Snapshot,
    columns: IcebergColumns,
    *,
    location: str,
    new: IcebergSnapshot | None,
    now_ms: int,
    write_id: str,
) -> IcebergTable:
    if delta.metadata is None:
        raise InternalError("a Delta table without metadata")
    # The paths of an older place lead to that place, so a table that was copied begins anew.
    old = before.snapshots if before is not None and before.location == location else ()
    snapshots = kept_snapshots((*old, new) if new is not None else old, now_ms=now_ms)
    older = before is not None and before.schema_id > columns.schema_id
    return IcebergTable(
        version=1 if before is None else before.version + 1,
        uuid=delta.metadata.id,
        location=location,
        updated_ms=max(now_ms, snapshots[-1].time_ms, 0 if before is None else before.updated_ms),
        last_sequence_number=snapshots[-1].sequence_number,
        last_column_id=max(columns.last_id, 0 if before is None else before.last_column_id),
        schemas=before.schemas
        if older and before is not None
        else schemas_with(before.schemas if before else (), columns, snapshots),
        name_mapping=before.name_mapping if older and before is not None else columns.name_mapping,
        snapshots=snapshots,
        write_id=write_id,
    )
