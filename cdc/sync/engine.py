"""The driver's loop: one batch after the other.

    read ─► fold ─► create, add columns ─► merge, target by target ─► progress

The targets' commits decide what is applied, the sync's record only where reading begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Literal

from ...consumers.ranges.admission import OffsetRun, Ranges, admitted, held_back, packed
from ...consumers.ranges.mirror import GroupMirror
from ...consumers.ranges.offsets import StreamOffset, TopicSnapshot
from ...consumers.ranges.planned_columns import PlannedSchema
from ...consumers.ranges.task import ReadTask
from ...consumers.ranges.topic_view import TopicView
from ...coordinator.lakes import lakes
from ...log.errors import InvalidArgument, PenstockError
from ..cuts.cut import Cut
from ..delta.compaction import TargetCompactor
from ..fold.fold_result import FoldResult, RefusedEvent
from ..fold.rejected_events import RejectedEvent, counted
from ..target import (
    Target,
    TargetOwner,
    TargetRefused,
    behind,
)
from .backends.backend import Backend, FoldedBatch, check_done, refusal_of
from .backends.fold_tasks import EVENT, TYPED_EVENT, FoldInput, events_planned
from .batch_sizing import AFTER_DEATH, BatchSizing
from .cut_recorder import CutRecorder
from .lease import SyncLease, take_lease
from .options import BatchReport, PoisonEvent
from .parallel import run_in_parallel
from .plan import SyncPlan
from .record import SyncRecord, check_folder, covers, resume_offsets
from .targets.rejected_table import RejectedTable
from .targets.target_catalog import TargetCatalog, commits_above


class SyncEngine:
    """One sync in one driver. Every method is for one thread at a time."""

    def __init__(self, plan: SyncPlan, backend: Backend) -> None:
        self._plan = plan
        self._read_only_place = plan.place.as_read_only
        self._view = TopicView(self._read_only_place, plan.topic)
        self._mirror = GroupMirror(TopicView(plan.place, plan.topic), plan.topic, f"sync-{plan.name}")
        self._backend = backend
        self._tables = self._backend.tables
        self._cuts = CutRecorder(plan, self._tables)
        self._source_us: int | None = None
        self._exact = True
        """Whether the commit count distinguishes a target from an earlier table of its name."""
        self._compaction = TargetCompactor(self._tables, every=plan.options.compact_every, done=self._cuts.compacted)
        self._lease: SyncLease | None = None
        self._catalog: TargetCatalog | None = None
        self._position: dict[int, int] = {}
        self._batches = 0
        self._standing: TopicSnapshot | None = None
        self._planned: PlannedSchema | None = None
        self._owner: TargetOwner | None = None
        self._record: SyncRecord | None = None
        self._partial = False
        """Whether events may have been removed before this sync read them."""
        self._event_bytes: dict[int, float] = {}
        """The mean size of the last batch's events, by queue."""
        self.halving = BatchSizing(plan, self._save_halved)
        self._telling = Lock()
        self._rejected: RejectedTable | None = None
        self._rejected_events: Sequence[RejectedEvent] = ()

    # --- Beginning and end ------------------------------------------------------------------------------------------------------

    def open(self, *, patience_s: float | None = None, halved: int = 0) -> None:
        """Take the lease, and find the place to go on. Raises `SyncInUse`, `TargetRefused`, and the lake's errors."""
        plan = self._plan
        standing = self._standing = self._view.refresh()
        self._planned = events_planned(self._view.planned_schema(), self._plan.topic)
        opened = lakes.open(plan.place)
        self._lease = opened.run(lambda: take_lease(opened, plan.topic, plan.name, patience_s=patience_s))
        self._owner = TargetOwner(plan.topic, standing.life, plan.name)
        try:
            self._begin(standing)
            self._rejected = RejectedTable(
                self._backend,
                self._own,
                plan.options.rejected,
                by_position=plan.by_position,
                adopt=plan.options.adopt,
                above=commits_above(plan),
            )
            if plan.keeps_rejected:
                self._rejected.find()
            if plan.options.cuts:
                # Looked at once more: the driver before may have gone further than what was seen before the lease was this one's.
                self._standing = self._view.refresh()
                exact = self._exact and self._record is not None and not plan.options.adopt
                self._cuts.begin(
                    self._own,
                    self._standing,
                    self._position,
                    source_us=self._source_us,
                    exact=exact,
                    partial=self._partial,
                )
            self.halving.halve(max(halved, self._lease.halved + (AFTER_DEATH if self._lease.after_death else 0)))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._compaction.close()
        lease, self._lease = self._lease, None
        if lease is not None:
            lakes.open(self._plan.place).run(lease.give_up)

    def _begin(self, standing: TopicSnapshot) -> None:
        earliest = {queue: kept[0] for queue, kept in standing.kept.items()}
        self._position, self._partial = dict(earliest), any(earliest.values())
        record = self._held.record
        self._record = record = record if record is not None and record.life == standing.life else None
        self._catalog = catalog = TargetCatalog(
            self._plan,
            self._backend,
            self._own,
            record,
            earliest=earliest,
            check=self._held.check,
            reached=self._reached,
        )
        if record is None:
            return
        check_folder(record, self._plan.into, self._plan.name)
        self._source_us, self._exact = record.source_us, record.exact
        position, lost = resume_offsets(record, standing.kept, self._plan.topic)
        catalog.check_names()
        again = catalog.forget_gone()
        if not again and covers(record.chosen, self._plan.tables):
            self._position = position
            self._partial = self._partial if record.partial is None else record.partial
        catalog.keep_stopped(record, lost)
        if again:  # a driver after this one cannot see it any more once the targets are there
            self._exact = False
            self._keep_record()

    @property
    def epoch(self) -> int:
        """The epoch of the lease: higher than all before."""
        return self._held.epoch

    @property
    def _held(self) -> SyncLease:
        assert self._lease is not None, "open comes first"
        return self._lease

    @property
    def catalog(self) -> TargetCatalog:
        assert self._catalog is not None, "open comes first"
        return self._catalog

    @property
    def _own(self) -> TargetOwner:
        assert self._owner is not None, "open comes first"
        return self._owner

    # --- One batch --------------------------------------------------------------------------------------------------------------

    def look(self) -> int:
        """Count the events to apply."""
        self._standing = self._view.refresh()
        self._planned = events_planned(self._view.planned_schema(), self._plan.topic)
        if self._standing.life != self._own.life:
            raise InvalidArgument(
                "the topic was deleted and created again", operation="sync", object=self._plan.topic, hint="start the sync again"
            )
        self._position = dict.fromkeys(self._standing.kept, 0) | self._position  # queues that the topic got meanwhile
        self._cuts.set_goal(self._standing, self._position)
        return sum(limit - self._position[queue] for queue, (_, limit) in self._standing.kept.items())

    def step(self, ends: Mapping[int, int] | None = None) -> BatchReport | None:
        """Apply one batch of the events at the last `look`, not beyond ``ends``; None if there are none.

        Raises `PoisonEvent` once all events before such an event are applied, `LeaseLost`, and Spark's errors.
        """
        ranges = self._chosen(ends)
        if not ranges:
            self._cut()
            return None
        clock = lakes.open(self._read_only_place).lake.runtime.clock
        begun_s = clock.monotonic_s()
        self._reached("read", "after")
        try:
            merged, reached, broken = self._apply(ranges)
        except Exception as error:
            if not isinstance(error, PenstockError):
                self.halving.failed(sum(end - start for start, end in ranges.values()))
            raise
        self._position |= reached
        self._save()
        cut = None if broken else self._cut()
        self._batches += 1
        self.halving.halve(self.halving.times - 1)
        events = sum(reached[queue] - start for queue, (start, _) in ranges.items())
        if broken:
            (first, *_) = broken.values()
            raise PoisonEvent.at(first, self._plan.topic)
        lag = sum(limit - self._position[queue] for queue, limit in self.ends().items())
        return BatchReport(
            self._batches,
            events,
            clock.monotonic_s() - begun_s,
            merged,
            lag,
            behind(self.catalog.progress),
            counted(self._rejected_events, "rejected"),
            counted(self._rejected_events, "null"),
            None if cut is None else cut.number,
            self.epoch,
        )

    def ends(self) -> dict[int, int]:
        assert self._standing is not None, "look comes first"
        return {queue: limit for queue, (_, limit) in self._standing.kept.items()}

    @property
    def position(self) -> dict[int, int]:
        return dict(self._position)

    def _chosen(self, ends: Mapping[int, int] | None) -> Ranges:
        self._reached("read", "before")
        standing = self._standing
        assert standing is not None, "look comes first"
        available = {
            queue: (
                self._position[queue],
                min(self._cuts.limit(queue, limit), limit if ends is None else ends.get(queue, limit)),
            )
            for queue, (_, limit) in standing.kept.items()
        }
        available = held_back(available, standing.growths)
        available = {queue: (start, limit) for queue, (start, limit) in available.items() if start < limit}
        if not available:
            return {}
        sizes = self._view.sizes(available)
        known = {queue: (range_, self._event_bytes[queue]) for queue, range_ in available.items() if queue in self._event_bytes}
        pieces = {
            queue: [OffsetRun(start, limit, round(size * (limit - start)))] for queue, ((start, limit), size) in known.items()
        }
        sizes = replace(sizes, pieces={**sizes.pieces, **pieces})
        limits = admitted(available, rows_max=self.halving.events_max, bytes_max=self.halving.bytes_max, sizes=sizes)
        return {queue: (start, limits[queue]) for queue, (start, _) in available.items() if limits[queue] > start}

    def _save_halved(self, times: int) -> None:
        lease = self._held
        lakes.open(self._plan.place).run(lambda: lease.save_halved(times))

    def _apply(self, ranges: Ranges) -> tuple[dict[str, int], dict[int, int], dict[int, RefusedEvent]]:
        """Fold, once more with new tables and columns, then merge. Returns the counts by target, the next event by queue, and
        the refused events.
        """
        broken: dict[int, RefusedEvent] = {}
        reached = {queue: end for queue, (_, end) in ranges.items()}
        bytes_max: int | None = self.halving.bytes_max
        catalog, self._rejected_events = self.catalog, ()
        catalog.begin_batch()
        while ranges:
            self._reached("fold", "before")
            found = self._backend.fold(self._fold_input(ranges, bytes_max), catalog.resolve)
            bytes_max = None  # events that are folded again are within it
            try:
                output = found.summary()
                folded = output.folded
                self._reached("fold", "after")
                ends = {**output.ends, **{queue: refused.place[1] for queue, refused in folded.broken.items()}}
                sizes = {
                    queue: size / count for queue, size in output.sizes.items() if (count := output.ends[queue] - ranges[queue][0])
                }
                self._event_bytes |= sizes
                catalog.note_columns(folded)
                reached |= ends
                broken |= folded.broken
                ranges = {queue: (start, ends[queue]) for queue, (start, _) in ranges.items() if start < ends[queue]}
                if folded.broken:
                    continue
                if catalog.add_missing(folded, self._position) or catalog.widened(folded):
                    continue
                if folded.newest_us is not None:
                    self._source_us = max(self._source_us or folded.newest_us, folded.newest_us)
                self._cuts.applied(folded.newest_us)
                catalog.note_uncaptured(folded)
                return self._merged(found, folded, ranges), reached, broken
            finally:
                found.drop()
        return {}, reached, broken

    def _fold_input(self, ranges: Ranges, bytes_max: int | None) -> FoldInput:
        taken = packed(ranges, tasks_max=self._plan.tasks, sizes=self._view.sizes(ranges))
        tasks = tuple(
            ReadTask(
                place=self._read_only_place,
                topic=self._plan.topic,
                life=self._own.life,
                ranges=one,
                columns=EVENT if self._planned is None else TYPED_EVENT,
                planned=self._planned,
            )
            for one in taken
        )
        plan = self.catalog.batch_fold_plan(one_queue=len(self.ends()) == 1)
        return FoldInput(tasks, plan, 1 if len(tasks) <= 1 else self._plan.tasks, self._plan.steps, bytes_max)

    def _merged(self, found: FoldedBatch, folded: FoldResult, ranges: Ranges) -> dict[str, int]:
        merged, catalog = {}, self.catalog
        if folded.rejected:
            self._keep_rejected(folded.rejected, ranges)
        catalog.note_types(folded)
        targets = catalog.to_merge(folded, self._position, ranges)
        refusals = run_in_parallel(lambda target: self._merge(found, target, folded), targets, self._backend.merges_at_once)
        for target, why in zip(targets, refusals, strict=True):
            if why is not None:
                catalog.not_merged(target, why, self._position, ranges)
                continue
            catalog.merged(target)
            merged[target.name] = folded.counts[target.source]
            self._compaction.merged(target)
        catalog.stop_refused(folded, self._position | {queue: end for queue, (_, end) in ranges.items()})
        return merged

    def _keep_rejected(self, events: Sequence[RejectedEvent], ranges: Ranges) -> None:
        """Write rejected events, before any target passes over them."""
        table, name = self._rejected, self._plan.options.rejected
        assert table is not None, "open comes first"
        self._reached("set aside", "before", name)
        table.make(check=self._held.check)
        self._reached("set aside", "in", name)
        table.write(events, self._position | {queue: end for queue, (_, end) in ranges.items()}, check=self._held.check)
        self._rejected_events = events
        self._reached("set aside", "after", name)

    def _merge(self, found: FoldedBatch, target: Target, folded: FoldResult) -> TargetRefused | None:
        try:
            self._merge_in(found, target, folded)
        except Exception as error:
            if (why := refusal_of(self._tables, target.name, error)) is None:
                raise
            return why
        return None

    def _merge_in(self, found: FoldedBatch, target: Target, folded: FoldResult) -> None:
        self._reached("merge", "before", target.name)
        truncate, moved = folded.truncates.get(target.source), folded.moved.get(target.source)
        with self._compaction.apart(target.name):
            self._held.check()
            old = self._tables.rows(target, list(moved)) if moved else None
            rows, partial = found.rows(target, truncate, old), target.source in folded.partial
            if not self._tables.merge(target, rows, self._own, truncate=truncate, partial=partial, check=self._held.check):
                check_done(self._tables, target, self._own, check=self._held.check)
        self._reached("merge", "after", target.name)

    def _save(self) -> None:
        self._reached("progress", "before")
        self._keep_record()
        self._reached("progress", "in")
        self._mirror.report(StreamOffset(self._own.life, self._position))
        self._reached("progress", "after")

    def _keep_record(self) -> None:
        record = self.catalog.recorded(
            SyncRecord(
                life=self._own.life,
                into=self._plan.into,
                offsets=dict(self._position),
                chosen=self._plan.tables,
                exact=self._plan.options.cuts and self._exact,
                partial=self._partial,
                source_us=self._source_us,
            )
        )
        lease = self._held
        lakes.open(self._plan.place).run(lambda: lease.save(record))

    # --- Cuts -------------------------------------------------------------------------------------------------------------------

    def _cut(self) -> Cut | None:
        if not self._cuts.due(self._position):
            return None
        self._reached("cut", "before")
        cut = self._cuts.record(self.catalog.tables_of_cut(), self._held)
        self._exact = True
        self._reached("cut", "after")
        return cut

    @property
    def newest_cut(self) -> Cut | None:
        return self._cuts.newest

    def _reached(self, step: str, moment: Literal["before", "in", "after"], what: str = "") -> None:
        with self._telling:  # merges tell theirs from several threads
            self._plan.steps.reached(step, moment, what)
