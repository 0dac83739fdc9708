"""Deletes unused Iceberg metadata.

A dropped manifest never comes back. So objects made for the version of two days ago or earlier, which that version does not name, are of no use.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ...runtime.runtime import Runtime
from ...stores.protocol import ObjectInfo, ObjectStore, delete_all
from ..delta.delta_log import ORPHAN_AGE_MS
from .folder import MetadataFolder
from .names import METADATA, attempt_of, metadata_path, metadata_version


async def collect_metadata(store: ObjectStore, root: str, runtime: Runtime) -> int:
    """Delete the leftovers of the table at ``root``. Raises `DataDamaged`."""
    folder = MetadataFolder(store, root, runtime)
    old_ms = await store.clock_ms() - ORPHAN_AGE_MS
    listed = await store.list(root + METADATA)
    anchor = anchor_of(folder.versions(listed), old_ms)
    if anchor is None:
        return 0
    table = await folder.table(anchor)
    used = {metadata_path(anchor)}
    for snapshot in table.snapshots:
        used |= {snapshot.manifest_list, *(manifest.path for manifest in await folder.manifests(table, snapshot))}
    return await delete_all(store, leftovers(listed, used, root=root, anchor=anchor))


def anchor_of(versions: Mapping[int, ObjectInfo], old_ms: int) -> int | None:
    """The newest version at ``old_ms``, the oldest that readers may use."""
    return max((version for version, info in versions.items() if info.last_modified_ms < old_ms), default=None)


def leftovers(listed: Sequence[ObjectInfo], used: Collection[str], *, root: str, anchor: int) -> list[str]:
    """The listed objects for the anchor's number or lower that are not among its ``used`` paths."""

    def is_left(info: ObjectInfo) -> bool:
        path = info.key.removeprefix(root)
        version, attempt = metadata_version(path), attempt_of(path)
        number = attempt if version is None else version
        return number is not None and number <= anchor and path not in used

    return [info.key for info in listed if is_left(info)]
