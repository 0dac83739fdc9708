"""Writes the Iceberg metadata of one table, behind its Delta log.

A version is one create-if-absent of the next ``v<N>.metadata.json``, after its manifests. So it is seen whole or not at all, one of two writers wins,
and a killed writer leaves nothing to recover.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...errors import RetryError, StoreUnavailable
from ...runtime.runtime import Runtime
from ...schema.topic_schema import TopicSchema
from ...stores.protocol import Conflict, IfMatch, ObjectMissing, ObjectStore, Put, PutMode, Version
from ..delta.delta_log import COMMIT_LIFE_S, DeltaLog
from ..delta.snapshot import Snapshot
from .columns import IcebergColumns, columns_of
from .folder import MetadataFolder
from .location import lake_location
from .manifests import Manifest, encode_manifest, encode_manifest_list
from .names import HINT, hint, list_path, manifest_path, metadata_path
from .plan import IcebergVersion, check_same_table, is_due, is_known, needs_snapshot, next_table, plan
from .table_metadata import IcebergSnapshot, IcebergTable, decode_table, encode_table

_READ_BACKS = 4


@dataclass(frozen=True, slots=True)
class IcebergWriteResult:
    """The state after one round."""

    version: int = 0
    """0: there is no Delta table."""
    delta_version: int = -1
    """The Delta version whose files it lists."""
    versions: int = 0
    """Written by this round."""
    objects: int = 0
    """Written by this round."""
    bytes: int = 0


class IcebergWriter:
    """Keeps one table's Iceberg metadata as new as its Delta log. Any number of writers at once is safe; one is enough.

    ``location`` is the lake's URI for readers (default: from the store's URL).
    """

    def __init__(self, store: ObjectStore, runtime: Runtime, delta: DeltaLog, *, location: str | None = None) -> None:
        self._store = store
        self._runtime = runtime
        self._delta = delta
        self._lake = location
        self._folder = MetadataFolder(store, delta.root, runtime)
        self._lock = asyncio.Lock()
        self._listing: IcebergVersion | None = None
        self._read_s = float("-inf")
        self._hinted: tuple[int, Version] | None = None

    async def write_once(self, schema: TopicSchema | None = None) -> IcebergWriteResult:
        """Bring the metadata to the newest Delta snapshot.

        ``schema`` is the newest known version of the topic's schema. Nothing is written while files are of a later version.

        Raises `MissingDependency` without fastavro, `NotSupported` for a lake that no URI can name, `ForeignObject` when another engine wrote to the
        table, and the store's errors. May be repeated at once.
        """
        async with self._lock:
            delta = await self._delta.refresh()
            if not delta.exists:
                return IcebergWriteResult()
            columns, location = columns_of(schema), self._location()
            if self._listing is None or self._is_stale():
                await self._load()
            done = IcebergWriteResult()
            while is_known(self._listing, delta, columns) and is_due(
                self._listing, delta, columns, location=location, now_ms=self._runtime.clock.wall_ms()
            ):
                done = await self._write(self._listing, delta, columns, location, done)
            await self._write_hint()
            return (
                done
                if self._listing is None
                else replace(done, version=self._listing.table.version, delta_version=self._listing.delta_version)
            )

    def _location(self) -> str:
        lake = lake_location(self._store.url) if self._lake is None else self._lake
        return f"{lake}/{self._delta.root}".rstrip("/")

    def _is_stale(self) -> bool:
        """Whether later versions may have been written and cleaned up."""
        return self._delta.now_s - self._read_s > COMMIT_LIFE_S

    # --- a version

    async def _write(
        self, before: IcebergVersion | None, delta: Snapshot, columns: IcebergColumns, location: str, done: IcebergWriteResult
    ) -> IcebergWriteResult:
        """Try to write the version after ``before``; ``_listing`` is then the newest version."""
        started_s = self._delta.now_s
        if before is not None:
            check_same_table(before, delta)
        number = 1 if before is None else before.table.version + 1
        write_id = self._runtime.new_id()
        listing, objects = await self._prepare(before, delta, columns, location, number, write_id)
        table = listing.table
        data = encode_table(table)
        # Names are fresh, so it does not matter which of them a writer that is killed leaves behind.
        await asyncio.gather(*(self._store.put_large(self._delta.root + path, content) for path, content in objects))
        if await self._create(number, data, write_id, started_s):
            self._listing, self._read_s = listing, started_s
            objects.append((metadata_path(number), data))
            size = sum(len(content) for _, content in objects)
            return replace(done, versions=done.versions + 1, objects=done.objects + len(objects), bytes=done.bytes + size)
        await self._load()
        return done

    async def _prepare(
        self, before: IcebergVersion | None, delta: Snapshot, columns: IcebergColumns, location: str, number: int, write_id: str
    ) -> tuple[IcebergVersion, list[tuple[str, bytes]]]:
        now_ms = self._runtime.clock.wall_ms()
        old = None if before is None else before.table
        manifests = () if before is None else before.manifests
        objects: list[tuple[str, bytes]] = []
        new = None
        if needs_snapshot(before, delta, location=location):
            copied = old is not None and old.location != location
            new, manifests, objects = await self._snapshot(
                old, () if copied else manifests, delta, columns, location, number, write_id, is_first=copied
            )
        table = next_table(old, delta, columns, location=location, new=new, now_ms=now_ms, write_id=write_id)
        return IcebergVersion(table, manifests), objects

    async def _snapshot(
        self,
        old: IcebergTable | None,
        manifests: Sequence[Manifest],
        delta: Snapshot,
        columns: IcebergColumns,
        location: str,
        number: int,
        write_id: str,
        *,
        is_first: bool,
    ) -> tuple[IcebergSnapshot, tuple[Manifest, ...], list[tuple[str, bytes]]]:
        sequence_number = 1 if old is None else old.last_sequence_number + 1
        snapshot_id = self._runtime.random.getrandbits(62) + 1
        parent_id = None if old is None or is_first else old.current.id
        markers = self._runtime.random
        planned = plan(manifests, delta, snapshot_id=snapshot_id, sequence_number=sequence_number)
        written: list[tuple[Manifest, bytes]] = []
        for place, entries in enumerate(planned.written):
            marker = markers.getrandbits(128).to_bytes(16)
            data = await self._runtime.offload(
                lambda entries=entries, marker=marker: encode_manifest(entries, columns, location=location, sync_marker=marker)  # type: ignore[misc]
            )
            path = manifest_path(number, write_id, place)
            written.append((Manifest(path, len(data), sequence_number, snapshot_id, entries), data))
        everything = (*(manifest for manifest, _ in written), *planned.kept)
        data = encode_manifest_list(
            everything,
            location=location,
            snapshot_id=snapshot_id,
            parent_id=parent_id,
            sequence_number=sequence_number,
            sync_marker=markers.getrandbits(128).to_bytes(16),
        )
        path = list_path(number, write_id)
        schema_id = columns.schema_id if old is None else max(columns.schema_id, old.schema_id)
        summary = {"operation": planned.operation, **planned.summary}
        new = IcebergSnapshot(snapshot_id, parent_id, sequence_number, delta.time_ms, path, summary, schema_id)
        objects = [(manifest.path, content) for manifest, content in written]
        return new, everything, [*objects, (path, data)]

    async def _create(self, number: int, data: bytes, write_id: str, started_s: float) -> bool:
        """Try to write version ``number``. False: another writer has. Raises `StoreUnavailable` for an unknown outcome."""
        key = self._delta.root + metadata_path(number)
        for _ in range(_READ_BACKS):
            self._check_life(started_s)
            try:
                await self._store.put(key, data, mode=Put.CREATE)
            except (Conflict, StoreUnavailable):
                try:
                    found = (await self._store.get(key)).data
                except ObjectMissing:
                    continue
                return decode_table(found, version=number, where=key).write_id == write_id
            return True
        raise StoreUnavailable(
            "the outcome of a write is unknown", operation="write Iceberg metadata", object=key, hint="the next try finds out"
        )

    def _check_life(self, started_s: float) -> None:
        """Raise `RetryError` when the number may have been freed meanwhile."""
        if not self._delta.is_in_time(started_s):
            raise RetryError(
                "a version that took over a day was given up", operation="write Iceberg metadata", object=self._delta.root
            )

    async def _write_hint(self) -> None:
        """Let ``version-hint.text`` name the newest version, never an older one."""
        if self._listing is None:
            return
        version, key = self._listing.table.version, self._delta.root + HINT
        for _ in range(_READ_BACKS):
            if self._hinted is not None and self._hinted[0] >= version:
                return
            mode: PutMode = Put.CREATE if self._hinted is None else IfMatch(self._hinted[1])
            try:
                self._hinted = version, await self._store.put(key, hint(version), mode=mode)
            except Conflict:
                self._hinted = await self._folder.hint()

    async def _load(self) -> None:
        read_s = self._delta.now_s
        self._listing = await self._folder.newest(self._listing)
        self._read_s = read_s
        self._hinted = await self._folder.hint()
