"""The folder ``metadata/`` of a table on the store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from ...errors import DataDamaged
from ...runtime.runtime import Runtime
from ...stores.protocol import ObjectInfo, ObjectMissing, ObjectStore, Version
from .manifests import Manifest, decode_manifest, decode_manifest_list
from .names import HINT, METADATA, metadata_path, metadata_version, parse_hint
from .plan import IcebergVersion
from .table_metadata import IcebergSnapshot, IcebergTable, decode_table

_READ_AT_ONCE = 8


class MetadataFolder:
    """The metadata of the table at ``root``, which ends with a slash."""

    def __init__(self, store: ObjectStore, root: str, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime
        self.root = root

    async def newest(self, known: IcebergVersion | None = None) -> IcebergVersion | None:
        """The newest version. Manifests of ``known`` are not read again. Raises `DataDamaged`."""
        versions = self.versions(await self._store.list(self.root + METADATA))
        if not versions:
            return None
        table = await self.table(max(versions))
        read = {} if known is None else {manifest.path: manifest for manifest in known.manifests}
        gate = asyncio.Semaphore(_READ_AT_ONCE)

        async def entries(manifest: Manifest) -> Manifest:
            if manifest.path in read:
                return read[manifest.path]
            key = self.root + manifest.path
            async with gate:
                data = await self._get(key)
            found = await self._runtime.offload(lambda: decode_manifest(data, location=table.location, where=key))
            return replace(manifest, entries=found)

        return IcebergVersion(table, tuple(await asyncio.gather(*map(entries, await self.manifests(table, table.current)))))

    def versions(self, listed: Sequence[ObjectInfo]) -> dict[int, ObjectInfo]:
        numbered = ((metadata_version(info.key.removeprefix(self.root)), info) for info in listed)
        return {version: info for version, info in numbered if version is not None}

    async def table(self, version: int) -> IcebergTable:
        """A listed version. Raises `DataDamaged`."""
        key = self.root + metadata_path(version)
        return decode_table(await self._get(key), version=version, where=key)

    async def manifests(self, table: IcebergTable, snapshot: IcebergSnapshot) -> list[Manifest]:
        """The manifests of a snapshot, without their entries. Raises `DataDamaged`."""
        key = self.root + snapshot.manifest_list
        return decode_manifest_list(await self._get(key), location=table.location, where=key)

    async def hint(self) -> tuple[int, Version] | None:
        with suppress(ObjectMissing):
            found = await self._store.get(self.root + HINT)
            return parse_hint(found.data), found.version
        return None

    async def _get(self, key: str) -> bytes:
        try:
            return (await self._store.get(key)).data
        except ObjectMissing as error:
            raise DataDamaged(
                "an object of the Iceberg metadata is missing",
                object=key,
                hint="delete the folder metadata/ of the table while no maintenance runs; the next round writes it anew",
            ) from error
