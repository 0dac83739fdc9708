"""Undoes commits of other engines to a topic's table, at which every reader stops.

Penstock never commits behind one, so they are the newest versions.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from ...errors import DataDamaged, NewerFormatError, RetryError
from ...stores.protocol import ObjectStore, delete_all
from .delta_log import DELTA_LOG, LAST_CHECKPOINT, DeltaLog, version_of


@dataclass(frozen=True, slots=True)
class ForeignCommits:
    """The newest versions of a table, by other engines."""

    operations: dict[int, str]
    """Operation and engine by version."""
    missing: tuple[str, ...] = ()
    """Files gone since, which prevent an undo."""

    @property
    def first(self) -> int:
        return min(self.operations)


async def find_foreign(store: ObjectStore, delta: DeltaLog) -> ForeignCommits | None:
    """The commits of others at which readers stop, or which removed files. Raises `DataDamaged` or `NewerFormatError` if readers stop at something
    else.
    """
    try:
        await delta.refresh()
    except (DataDamaged, NewerFormatError):
        if not (operations := await _newest_of_others(store, delta)):
            raise
    else:
        if not (operations := await _newest_of_others(store, delta, down_to="remove")):
            return None
    before = await delta.before(min(operations))
    there = {info.key.removeprefix(delta.root) for info in await store.list(delta.root)}
    return ForeignCommits(operations, tuple(sorted(before.paths - there)))


async def undo_foreign(store: ObjectStore, delta: DeltaLog, found: ForeignCommits) -> None:
    """Remove these commits, the newest first, so that the rest is a table at every moment. Raises `DataDamaged` for missing files, and `RetryError`
    if the log has changed.
    """
    if found.missing:
        raise DataDamaged(
            "the table cannot be what it was: files that it had are gone", object=delta.root, observed=", ".join(found.missing[:5])
        )
    if await find_foreign(store, delta) != found:
        raise RetryError(
            "others have committed to the table meanwhile",
            operation="repair",
            object=delta.root,
            hint="end what writes to it, and run the repair again",
        )
    listed = [info.key for info in await store.list(delta.root + DELTA_LOG)]
    theirs = {key: version for key in listed if (version := version_of(key)) is not None and version >= found.first}
    commits = sorted((key for key in theirs if key.endswith(".json")), key=lambda key: theirs[key], reverse=True)
    await delete_all(store, [delta.root + LAST_CHECKPOINT, *(key for key in theirs if key not in commits)])
    for key in commits:
        await store.delete(key)
    delta.forget()


async def _newest_of_others(store: ObjectStore, delta: DeltaLog, *, down_to: str = "") -> dict[int, str]:
    listed = [info.key for info in await store.list(delta.root + DELTA_LOG) if info.key.endswith(".json")]
    versions = {version: key for key in listed if (version := version_of(key)) is not None}
    found: dict[int, str] = {}
    kept: dict[int, str] = {}
    for version in sorted(versions, reverse=True):
        data = (await store.get(versions[version])).data
        said = _said(data)
        if said is None:
            break
        found[version] = said
        if f'"{down_to}"'.encode() in data or not down_to:
            kept = dict(found)
    return kept


def _said(commit: bytes) -> str | None:
    try:
        actions = [json.loads(line) for line in commit.splitlines() if line.strip()]
        infos = [action["commitInfo"] for action in actions if "commitInfo" in action]
    except (ValueError, RecursionError, TypeError, KeyError):
        return None
    info = next((one for one in infos if isinstance(one, dict)), {})
    if not actions or isinstance(info.get("penstockWriteId"), str):
        return None
    return f"{info.get('operation', 'unknown')} by {info.get('engineInfo', 'an unknown engine')}"[:100]
