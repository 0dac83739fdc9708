"""Decides which whole files a topic no longer keeps, and commits their removal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from ..runtime.runtime import Runtime
from ..stores.protocol import ObjectStore
from ..topic.settings import TopicSettings
from .delta.actions import CommitContent, start_txn
from .delta.delta_log import DeltaLog
from .delta.segments import TableFile

GUARDED = timedelta(days=14)
"""The extra time for messages that consumers still need."""


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """The limits of a queue. None: no limit."""

    age: timedelta | None
    size_bytes: int | None

    @classmethod
    def of(cls, settings: TopicSettings) -> RetentionPolicy:
        return cls(settings.retention, settings.retention_bytes)


def expired_files(
    files: Sequence[TableFile], policy: RetentionPolicy, *, now_ms: int, guard: int | None = None, guarded: timedelta = GUARDED
) -> Sequence[TableFile]:
    """A queue's oldest files, in offset order, that may go.

    A file goes when its newest row was stored, and the file made, longer ago than ``policy.age``, or while the queue holds more than
    ``policy.size_bytes``. The newest file stays. A file with an offset at or above ``guard``, and all files after it, stay unless older than
    ``guarded``.
    """
    surplus = 0 if policy.size_bytes is None else sum(file.size_bytes for file in files) - policy.size_bytes
    oldest_ms = None if policy.age is None else now_ms - policy.age // timedelta(milliseconds=1)
    guarded_ms = guarded // timedelta(milliseconds=1)
    for count, file in enumerate(files):
        stored_ms = _stored_until_ms(file)
        too_old = oldest_ms is not None and stored_ms < oldest_ms
        too_much = surplus > 0 and count < len(files) - 1
        is_guarded = guard is not None and file.limit_offset > guard and now_ms - stored_ms < guarded_ms
        if is_guarded or not (too_old or too_much):
            return files[:count]
        surplus -= file.size_bytes
    return files


def _stored_until_ms(file: TableFile) -> int:
    """The latest store time of its rows; after days of silence store times lag, as they move by one day an entry."""
    return max(file.store_last_ms, file.modified_ms)


async def retain_once(
    store: ObjectStore,
    delta: DeltaLog,
    runtime: Runtime,
    policy: RetentionPolicy,
    *,
    guards: Mapping[int, int] | None = None,
    guarded: timedelta = GUARDED,
) -> int:
    """Remove expired files in one commit. Returns the number of rows.

    ``guards`` has by queue the offset from which nothing younger than ``guarded`` may go. The files stay on the store for 7 days.
    """
    started_s = runtime.clock.monotonic_s()
    snapshot = await delta.refresh()
    now_ms = await store.clock_ms()
    while True:
        gone = {
            q: f
            for q, files in snapshot.files.items()
            if (f := expired_files(files, policy, now_ms=now_ms, guard=(guards or {}).get(q), guarded=guarded))
        }
        if not gone:
            return 0
        if await delta.commit(removal(gone, now_ms), on=snapshot, started_s=started_s):
            return sum(file.rows for files in gone.values() for file in files)
        snapshot = await delta.refresh()


async def empty_table(store: ObjectStore, delta: DeltaLog, runtime: Runtime) -> int:
    """Remove all rows of a deleted topic. Returns their number."""
    started_s = runtime.clock.monotonic_s()
    snapshot = await delta.refresh()
    while snapshot.files:
        if await delta.commit(removal(snapshot.files, await store.clock_ms()), on=snapshot, started_s=started_s):
            return sum(file.rows for file in snapshot.all_files)
        snapshot = await delta.refresh()
    return 0


def removal(gone: Mapping[int, Sequence[TableFile]], now_ms: int) -> CommitContent:
    return CommitContent(
        "DELETE",
        removes=tuple(file for files in gone.values() for file in files),
        txns={start_txn(queue): files[-1].limit_offset for queue, files in gone.items()},
        removed_ms=now_ms,
    )
