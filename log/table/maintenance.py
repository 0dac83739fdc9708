"""Maintains a topic's table and log by steps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta

from ..errors import InternalError, PenstockError, ViewLost
from ..limits import WAIT_MAX, DurationField, field_default, set_durations
from ..paths import TopicPaths, parse_padded
from ..runtime.backoff import pause
from ..runtime.runtime import Runtime
from ..stores.protocol import ObjectStore
from ..topic.settings import RETENTION_MAX, TopicRecord
from .collector import AppendActions, CollectionResult, Collector, HeldJobs, all_held
from .compactor import FAN_IN, TARGET_BYTES, CompactionResult, Compactor
from .comparison.copies import Copies
from .comparison.full import Comparer
from .delta.delta_log import CHECKPOINT_VERSIONS, DeltaLog
from .iceberg.leftovers import collect_metadata
from .iceberg.names import METADATA
from .iceberg.writer import IcebergWriter, IcebergWriteResult
from .publisher import COMMIT_BYTES, Publisher, PublishResult
from .retention import GUARDED, RetentionPolicy, empty_table, retain_once
from .trimmer import Trimmer, TrimResult, read_floor_object

_FIRST_TABLE = "table"
_QUIET_ROUNDS = 60
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class MaintenanceOptions:
    """The intervals and sizes of maintenance."""

    publish_interval: DurationField = field_default(timedelta(seconds=3.6))
    """The default makes 95 of 100 entries visible within 5 s on S3; longer intervals cost fewer requests."""
    quiet_interval: DurationField = field_default(timedelta(seconds=5))
    """The interval for a topic that has been silent for minutes."""
    upkeep_interval: DurationField = field_default(timedelta(seconds=30))
    """The interval of compaction, retention, checkpoints and trimming."""
    quiet_upkeep_interval: DurationField = field_default(timedelta(minutes=10))
    """The same while nothing is published."""
    collect_interval: DurationField = field_default(timedelta(hours=1))
    commit_bytes: int = COMMIT_BYTES
    compact_target_bytes: int = TARGET_BYTES
    compact_fan_in: int = FAN_IN
    checkpoint_versions: int = CHECKPOINT_VERSIONS
    delta_log_kept: DurationField = field_default(timedelta(days=30))
    """Bounds time travel over the table, and the lag of native streams; 2 days at least."""

    def __post_init__(self) -> None:
        intervals = ("publish_interval", "quiet_interval", "upkeep_interval", "quiet_upkeep_interval", "collect_interval")
        set_durations(self, *intervals, most=WAIT_MAX, operation="maintenance")
        set_durations(self, "delta_log_kept", most=RETENTION_MAX, operation="maintenance")


@dataclass(frozen=True, slots=True)
class MaintenanceStatistics:
    """The work of this object since it was made."""

    entries_published: int = 0
    rows_published: int = 0
    bytes_published: int = 0
    commits: int = 0
    lag_ms: int = 0
    """The age of the oldest row of the last commit."""
    files: int = 0
    """Files in the table now."""
    bytes: int = 0
    """Bytes in the table now."""
    files_compacted: int = 0
    rows_expired: int = 0
    floor: int = 0
    entries_trimmed: int = 0
    objects_collected: int = 0
    errors: Mapping[str, str] = field(default_factory=dict)
    """The last errors by step, of steps that failed in their last round."""


async def _no_guards() -> Mapping[int, int]:
    return {}


def _unwatched(step: str, result: object) -> None:
    """Ignore a step: the default."""


class TopicMaintenance:
    """Maintains the topic of ``record``. Any number at once is safe; one is enough. The table of a deleted topic is emptied.

    ``append_actions`` closes and forgets staged jobs. ``retention_guards`` has the offset by queue from which nothing may expire (for ``guarded``).
    ``held_jobs`` names uploads not to be touched, by default all. ``iceberg`` lists the table for Iceberg too. ``on_step`` is called with every step,
    and its result or error.
    """

    def __init__(
        self,
        store: ObjectStore,
        paths: TopicPaths,
        record: TopicRecord,
        runtime: Runtime,
        append_actions: AppendActions,
        options: MaintenanceOptions | None = None,
        *,
        retention_guards: Callable[[], Awaitable[Mapping[int, int]]] = _no_guards,
        guarded: timedelta = GUARDED,
        held_jobs: HeldJobs = all_held,
        iceberg: bool = False,
        on_step: Callable[[str, object], None] = _unwatched,
    ) -> None:
        self.options = options or MaintenanceOptions()
        self.record = record
        self._store = store
        self._paths = paths
        self._runtime = runtime
        self._guards = retention_guards
        self._guarded = guarded
        self._on_step = on_step
        self._delta = DeltaLog(store, paths, record.table, runtime)
        copies = Copies()
        self._publisher = Publisher(
            store, paths, record, runtime, delta=self._delta, copies=copies, commit_bytes=self.options.commit_bytes
        )
        self._compactor = Compactor(
            store,
            self._delta,
            runtime,
            target_bytes=self.options.compact_target_bytes,
            fan_in=self.options.compact_fan_in,
            bloom=record.settings.bloom_columns,
        )
        self._comparer = Comparer(store, paths, runtime, incarnation=record.incarnation, copies=copies)
        self._trimmer = Trimmer(store, paths, runtime)
        self._collector = Collector(store, paths, self._delta, runtime, append_actions, held_jobs=held_jobs)
        self._iceberg = IcebergWriter(store, runtime, self._delta) if iceberg else None
        self._checkpointed = -1
        self._statistics = MaintenanceStatistics()

    def statistics(self) -> MaintenanceStatistics:
        return self._statistics

    async def run_once(self) -> MaintenanceStatistics:
        """Run every step once, publishing to the log's end. An error does not stop the other steps."""
        for name, step in self.steps().items():
            await self._attempt(name, step)
        return self._statistics

    async def run_forever(self, stop: asyncio.Event) -> None:
        """Publish and maintain until ``stop`` is set. A failed step (`statistics`) is tried again."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._publish_forever(stop))
            group.create_task(self._keep_up_forever(stop))

    def steps(self) -> dict[str, Callable[[], Awaitable[object]]]:
        """The steps by name, in order; each may run at any time, concurrently."""
        listed = {} if self._iceberg is None else {"iceberg": self.list_for_iceberg}
        if self.record.deleted:
            return {"publish": self.publish, "empty": self.empty, **listed, "trim": self.trim, "collect": self.collect}
        return {
            "publish": self.publish,
            "compact": self.compact,
            "retain": self.retain,
            **listed,
            "checkpoint": self.checkpoint,
            "trim": self.trim,
            "collect": self.collect,
        }

    # --- steps

    async def publish(self) -> PublishResult:
        """Publish to the log's end. Returns the sum of all rounds."""
        total = PublishResult()
        while True:
            done = await self._publisher.publish_once()
            total = PublishResult(
                total.entries + done.entries,
                total.rows + done.rows,
                total.files + done.files,
                total.bytes + done.bytes,
                max(total.lag_ms, done.lag_ms),
                done.caught_up,
            )
            if done.entries:
                now = self._statistics
                self._statistics = replace(
                    now,
                    entries_published=now.entries_published + done.entries,
                    rows_published=now.rows_published + done.rows,
                    bytes_published=now.bytes_published + done.bytes,
                    commits=now.commits + 1,
                    lag_ms=done.lag_ms,
                )
            if done.caught_up:
                return total

    async def compact(self) -> CompactionResult:
        done = await self._compactor.compact_once()
        self._statistics = replace(self._statistics, files_compacted=self._statistics.files_compacted + done.files)
        return done

    async def retain(self) -> int:
        guards = await self._guards()
        policy = RetentionPolicy.of(self.record.settings)
        rows = await retain_once(self._store, self._delta, self._runtime, policy, guards=guards, guarded=self._guarded)
        self._statistics = replace(self._statistics, rows_expired=self._statistics.rows_expired + rows)
        return rows

    async def empty(self) -> int:
        """Remove all rows of a deleted topic."""
        return await empty_table(self._store, self._delta, self._runtime)

    async def list_for_iceberg(self) -> IcebergWriteResult:
        return IcebergWriteResult() if self._iceberg is None else await self._iceberg.write_once(self._publisher.schema)

    async def checkpoint(self) -> None:
        """Write a due checkpoint of the table, and clean up versions before old ones."""
        snapshot = await self._delta.refresh()
        self._statistics = replace(self._statistics, files=len(snapshot.all_files), bytes=snapshot.size_bytes)
        due = snapshot.version // self.options.checkpoint_versions
        if snapshot.exists and due > self._checkpointed // self.options.checkpoint_versions:
            await self._delta.write_checkpoint()
            self._checkpointed = snapshot.version
            await self._delta.clean_up(kept_ms=self.options.delta_log_kept // _MILLISECOND)

    async def trim(self) -> TrimResult:
        """Compare, delete what a floor has covered for an hour, and raise the floor."""
        snapshot = await self._delta.refresh()
        floor = await read_floor_object(self._store, self._paths)
        if snapshot.published < 0 or not self._trimmer.has_stood(floor, await self._store.clock_ms()):
            return TrimResult(floor.number)
        self._collector.has_stood(floor)
        with suppress(ViewLost):  # another's trimming overtook the comparison, which starts again from the floor
            while await self._comparer.compare_once(snapshot, floor.number):
                pass
        comparer = self._comparer
        done = await self._trimmer.trim_once(
            published=snapshot.published, compared=comparer.compared, states=comparer.checkpoint_states, whole=comparer.whole
        )
        now = self._statistics
        self._statistics = replace(now, floor=done.floor, entries_trimmed=now.entries_trimmed + done.entries)
        return done

    async def collect(self) -> CollectionResult:
        """Delete unneeded objects, those of older lives too."""
        done = await self._collector.collect_once()
        if self._iceberg is not None:
            done = replace(done, iceberg=await collect_metadata(self._store, self._delta.root, self._runtime))
        older = [DeltaLog(self._store, self._paths, folder, self._runtime) for folder in await self._older_tables()]
        for table in older:
            await empty_table(self._store, table, self._runtime)
            collector = Collector(self._store, self._paths, table, self._runtime, _append_nothing)
            done = replace(done, table_files=done.table_files + await collector.collect_table())
        for table in older:  # last, as it needs fastavro, and fails where metadata is damaged
            if await self._store.list(table.root + METADATA, max_keys=1):
                await IcebergWriter(self._store, self._runtime, table).write_once()
                done = replace(done, iceberg=done.iceberg + await collect_metadata(self._store, table.root, self._runtime))
        objects = done.table_files + done.handed + done.job_objects + done.iceberg
        self._statistics = replace(self._statistics, objects_collected=self._statistics.objects_collected + objects)
        return done

    async def _older_tables(self) -> list[str]:
        mine = _table_number(self.record.table)
        folders = await self._store.list_folders(self._paths.root)
        return [folder for folder in folders if mine is not None and (n := _table_number(folder)) is not None and n < mine]

    # --- loops

    async def _publish_forever(self, stop: asyncio.Event) -> None:
        quiet, listed_commits = 0, -1
        async with asyncio.TaskGroup() as group:
            listing: asyncio.Task[None] | None = None  # beside the publications, which it must not hold up
            while not stop.is_set():
                before = self._statistics.commits
                await self._attempt("publish", self.publish)
                commits = self._statistics.commits
                quiet = quiet + 1 if commits == before else 0
                is_due = self._iceberg is not None and (commits != listed_commits or "iceberg" in self._statistics.errors)
                if is_due and (listing is None or listing.done()):
                    listed_commits = commits
                    listing = group.create_task(self._attempt("iceberg", self.list_for_iceberg))
                interval = self.options.publish_interval if quiet < _QUIET_ROUNDS else self.options.quiet_interval
                await pause(stop, interval.total_seconds())

    async def _keep_up_forever(self, stop: asyncio.Event) -> None:
        collected_s = self._runtime.clock.monotonic_s()
        kept_up_s, kept_up_commits = float("-inf"), -1
        while not stop.is_set():
            now_s, commits = self._runtime.clock.monotonic_s(), self._statistics.commits
            if commits != kept_up_commits or now_s - kept_up_s >= self.options.quiet_upkeep_interval.total_seconds():
                kept_up_s, kept_up_commits = now_s, commits
                await self._keep_up(stop)
            if self._runtime.clock.monotonic_s() - collected_s >= self.options.collect_interval.total_seconds():
                collected_s = self._runtime.clock.monotonic_s()
                await self._attempt("collect", self.collect)
            await pause(stop, self.options.upkeep_interval.total_seconds())

    async def _keep_up(self, stop: asyncio.Event) -> None:
        for name, step in self.steps().items():
            if name not in {"publish", "collect"} and not stop.is_set():
                await self._attempt(name, step)

    async def _attempt(self, name: str, step: Callable[[], Awaitable[object]]) -> None:
        error: PenstockError | None = None
        result: object
        try:
            result = await step()
        except PenstockError as known:
            result = error = known
        except Exception as unknown:  # noqa: BLE001 - out of memory, or a bug: nobody would see a loop that ended
            result = error = InternalError(
                "a step of the maintenance failed", operation=name, object=self._paths.root, observed=repr(unknown)
            )
            error.__cause__ = unknown
        # The errors are read now and not before: the other loop may have noted one meanwhile.
        errors = {other: text for other, text in self._statistics.errors.items() if other != name}
        self._statistics = replace(self._statistics, errors=errors if error is None else {**errors, name: str(error)})
        self._on_step(name, result)


async def _append_nothing(actions: object) -> None:
    """Do nothing: tables of former lives have no jobs."""


def _table_number(folder: str) -> int | None:
    if folder == _FIRST_TABLE:
        return 0
    prefix, dash, number = folder.partition("-")
    if prefix != _FIRST_TABLE or not dash:
        return None
    padded_number = parse_padded(number)
    return padded_number if padded_number is not None else int(number) if number.isascii() and number.isdecimal() else None
