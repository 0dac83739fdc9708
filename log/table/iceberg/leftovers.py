"""Deletes Iceberg metadata that no version of the last days refers to.

A manifest that the table once dropped never comes back. So what the version of two days ago does not name, and was made for it or for an
earlier one, is of no use to any version since.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ...runtime.runtime import Runtime
from ...stores.protocol import ObjectInfo, ObjectStore, delete_all
from ..delta.delta_log import ORPHAN_AGE_MS
from .folder import MetadataFolder
from .names import METADATA, attempt_of, metadata_path, metadata_version


async def collect_metadata(store: ObjectStore, root: str, runtime: Runtime) -> int:
    """Delete the leftovers of the table at ``root``. Returns how many objects were deleted. Raises `DataDamaged`."""
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
    """The version that was the newest at ``old_ms``: the oldest one that readers may still use. None: there was none."""
    return max((version for version, info in versions.items() if info.last_modified_ms < old_ms), default=None)


def leftovers(listed: Sequence[ObjectInfo], used: Collection[str], *, root: str, anchor: int) -> list[str]:
    """The listed objects that neither the anchor nor a later version needs. ``used`` are the paths that the anchor needs.

    What is made for the anchor's number or a lower one, and is not used, can be of no version any more: its number is taken.
    """

    def is_left(info: ObjectInfo) -> bool:
        path = info.key.removeprefix(root)
        version, attempt = metadata_version(path), attempt_of(path)
        number = attempt if version is None else version
        return number is not None and number <= anchor and path not in used

    return [info.key for info in listed if is_left(info)]
