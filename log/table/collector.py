"""Deletes unneeded objects, never by age alone.

Table files are listed before the snapshot is read, so that a file committed meanwhile is seen as live. An old staged job is first closed by an entry,
so that no later link can count.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..errors import InternalError
from ..format.fold import may_forget
from ..format.header import Action, CloseJob, ForgetJob
from ..format.state import TopicState
from ..limits import JOB_AGE_MAX_MS, VALIDITY_ENTRIES
from ..paths import TopicPaths
from ..runtime.runtime import Runtime
from ..stage.jobs import TRANSACTION_JOBS
from ..stores.protocol import ObjectInfo, ObjectStore, delete_all
from ..tail.damage import read_header_at
from ..tail.view import View
from .delta.delta_log import ORPHAN_AGE_MS, REMOVED_KEPT_MS, DeltaLog
from .delta.snapshot import Snapshot
from .trimmer import LogFloor, Trimmer, read_floor_object

AppendActions: TypeAlias = Callable[[Sequence[Action]], Awaitable[None]]
HeldJobs: TypeAlias = Callable[[Collection[str]], Awaitable[Collection[str]]]
"""Returns the transactions' uploads to leave alone; called after they were listed."""


async def all_held(jobs: Collection[str]) -> Collection[str]:
    """The default, as no transaction can be asked."""
    return jobs


@dataclass(frozen=True, slots=True)
class CollectionResult:
    """Counts of one round."""

    table_files: int = 0
    handed: int = 0
    job_objects: int = 0
    closed: int = 0
    forgotten: int = 0
    iceberg: int = 0


class Collector:
    """Collects one topic and table folder. Every guard is a method."""

    def __init__(
        self,
        store: ObjectStore,
        paths: TopicPaths,
        delta: DeltaLog,
        runtime: Runtime,
        append_actions: AppendActions,
        *,
        held_jobs: HeldJobs = all_held,
    ) -> None:
        if not delta.keeps_removes:
            raise InternalError("a collector that does not know what was taken out lately would delete it under its readers")
        self._store = store
        self._paths = paths
        self._delta = delta
        self._runtime = runtime
        self._append_actions = append_actions
        self._held_jobs = held_jobs
        self._trimmer = Trimmer(store, paths, runtime)
        self._stood = LogFloor()

    def has_stood(self, floor: LogFloor) -> None:
        """Note a floor that had stood long enough before it was raised: in a busy topic none is that old when it is read."""
        self._stood = max(self._stood, floor, key=lambda one: one.number)

    async def collect_once(self) -> CollectionResult:
        table_files = await self.collect_table()
        now_ms = await self._store.clock_ms()
        floor = await read_floor_object(self._store, self._paths)
        if self._trimmer.has_stood(floor, now_ms):
            self.has_stood(floor)
        handed = await self.collect_handed(self._stood)
        objects, closed, forgotten = await self.collect_jobs(self._stood, now_ms)
        return CollectionResult(table_files, handed, objects, closed, forgotten)

    # --- table files

    async def collect_table(self) -> int:
        """Delete table files that no recent snapshot names."""
        now_ms = await self._store.clock_ms()
        listed, snapshot = await self.list_then_snapshot()
        return await delete_all(self._store, self.orphans(listed, snapshot, now_ms))

    async def list_then_snapshot(self) -> tuple[list[ObjectInfo], Snapshot]:
        """The table is read last: otherwise a file committed between the two would be deleted."""
        listed = await self._store.list(f"{self._delta.root}queue=")
        return listed, await self._delta.refresh()

    def orphans(self, listed: Iterable[ObjectInfo], snapshot: Snapshot, now_ms: int) -> list[str]:
        """Listed files older than any pending commit, neither in the table nor lately removed."""
        live = snapshot.paths  # made once: a table has thousands of files, and a LIST as many

        def is_orphan(info: ObjectInfo) -> bool:
            path = info.key.removeprefix(self._delta.root)
            removed_ms = snapshot.removed.get(path)
            return (
                now_ms - info.last_modified_ms > ORPHAN_AGE_MS
                and path not in live
                and (removed_ms is None or now_ms - removed_ms > REMOVED_KEPT_MS)
            )

        return [info.key for info in listed if is_orphan(info)]

    # --- handed objects

    async def collect_handed(self, floor: LogFloor) -> int:
        """Delete handed-over batches, linked or not, whose last possible entry lies below a floor that has stood."""
        listed = await self._store.list(self._paths.handed)
        return await delete_all(self._store, [info.key for info in listed if self.is_past(info.key, floor)])

    def is_past(self, key: str, floor: LogFloor) -> bool:
        parts = self._paths.handed_parts(key)
        return parts is not None and parts[0] + VALIDITY_ENTRIES < floor.number

    # --- staged jobs

    async def collect_jobs(self, floor: LogFloor, now_ms: int) -> tuple[int, int, int]:
        view = View(self._store, self._paths, self._runtime)
        await view.open()
        await view.catch_up()
        state = view.state
        listed = await self._store.list(self._paths.jobs)
        jobs: dict[str, list[ObjectInfo]] = {}
        for info in listed:
            jobs.setdefault(info.key.removeprefix(self._paths.jobs).partition("/")[0], []).append(info)
        held = await self.held({*jobs, *state.closed_jobs})
        deleted = 0
        for job, objects in jobs.items():
            if job not in held and job in state.closed_jobs and await self.may_delete(job, state, floor):
                deleted += await delete_all(self._store, (info.key for info in objects))
        old = [job for job, objects in jobs.items() if job not in held and job not in state.closed_jobs and is_old(objects, now_ms)]
        if not state.alive:  # no entry follows, and rows staged for this life are void in any other
            return deleted + await delete_all(self._store, (info.key for job in old for info in jobs[job])), 0, 0
        forget = [
            ForgetJob(job)
            for job, closed_by in state.closed_jobs.items()
            if job not in held and job not in jobs and may_forget(state.entry + 1, closed_by)
        ]
        if old or forget:
            await self._append_actions((*map(CloseJob, old), *forget))
        return deleted, len(old), len(forget)

    async def held(self, jobs: Collection[str]) -> Collection[str]:
        """The jobs of transactions that may yet be committed."""
        asked = {job for job in jobs if job.startswith(TRANSACTION_JOBS)}
        return await self._held_jobs(asked) if asked else ()

    async def may_delete(self, job: str, state: TopicState, floor: LogFloor) -> bool:
        """Whether no kept entry can have linked this closed job's objects."""
        closed_by = state.closed_jobs[job]
        if closed_by <= floor.number:
            return True
        header = await read_header_at(self._store, self._paths, closed_by)
        return header is not None and CloseJob(job) in header.actions


def is_old(objects: Sequence[ObjectInfo], now_ms: int) -> bool:
    return now_ms - min(info.last_modified_ms for info in objects) > JOB_AGE_MAX_MS
