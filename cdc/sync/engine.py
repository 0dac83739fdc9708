"""The driver's loop: choose events, fold them in tasks, give targets what they lack, merge, and keep the progress.

    read ─► fold ─► create, add columns ─► merge, target by target ─► progress

The targets' commits decide what is applied; the sync's own record only says where to begin reading.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Literal

from ...consumers.ranges.admission import OffsetRun, Ranges, admitted, packed
from ...consumers.ranges.mirror import GroupMirror
from ...consumers.ranges.offsets import StreamOffset, TopicSnapshot
from ...consumers.ranges.planned_columns import PlannedSchema
from ...consumers.ranges.task import ReadTask
from ...consumers.ranges.topic_view import TopicView
from ...coordinator.lakes import lakes
from ...log.errors import InvalidArgument, PenstockError
from ..changes import NEVER
from ..cuts.alignment import AlignedTable
from ..cuts.cut import Cut
from ..delta.compaction import TargetCompactor
from ..events.sources import TableId, distinct_names, is_selected, merged_declarations, named, of_table
from ..fold.fold_result import FoldResult, RefusedEvent, TableCoverage, TypesReference
from ..fold.observed_columns import ObservedColumns
from ..fold.rejected_events import RejectedEvent, counted
from ..fold.shape import TableShape, new_columns
from ..targets import (
    POSITION,
    ExistingTarget,
    Target,
    TargetColumn,
    TargetOwner,
    TargetProgress,
    TargetRefused,
    behind,
    name_taken,
    target_names,
)
from .backend import Backend, FoldedBatch, check_done, refusal_of
from .batch_sizing import AFTER_DEATH, BatchSizing
from .cut_recorder import CutRecorder
from .error_hints import kept_types_hint, wider_columns, with_hints
from .existing_targets import (
    GONE,
    check_history,
    check_writable,
    folder_of,
    known_target,
    new_target,
    target_gone,
    target_named_otherwise,
)
from .lease import SyncLease, SyncRecord, TableStop, check_folder, covers, decode_record, record_key, resume_offsets, take_lease
from .options import BatchReport, PoisonEvent
from .parallel import run_in_parallel
from .plan import SyncPlan, unmatched
from .rejected_table import RejectedTable
from .scan import EVENT, TYPED_EVENT, BatchScan, events_planned
from .source_types import SourceTypes
from .stalled_tables import StalledTables

log = logging.getLogger("penstock.cdc")


class SyncEngine:
    """One sync in one driver. Every method is for one thread at a time."""

    def __init__(self, plan: SyncPlan, backend: Backend) -> None:
        self._plan = plan
        self._fold_plan = plan.fold_plan()
        self._reading = plan.place.reading
        self._view = TopicView(self._reading, plan.topic)
        self._mirror = GroupMirror(TopicView(plan.place, plan.topic), plan.topic, f"sync-{plan.name}")
        self._backend = backend
        self._tables = self._backend.tables
        self._cutting = CutRecorder(plan, self._tables)
        self._source_us: int | None = None
        """When the source committed the newest change that is applied."""
        self._exact = True
        """Whether the commit count distinguishes a target from an earlier table of the same name."""
        self._compaction = TargetCompactor(self._tables, every=plan.options.compact_every, done=self._cutting.compacted)
        self._source_types = SourceTypes(plan)
        self._lease: SyncLease | None = None
        self._targets: dict[TableId, Target] = {}
        self._names: dict[TableId, str] = {}
        """The folders of tables, also of those without an event in this run: the state there is read when one comes."""
        self._others: dict[TableId, frozenset[str]] = {}
        self._progress: dict[str, TargetProgress] = {}
        """The progress by folder: from the sync's record, and then from this run's merges."""
        self._types: dict[str, TypesReference] = {}
        """The types that a table's newest event named, by folder."""
        self._left: dict[TableId, TableCoverage] = {}
        """The tables that their capture has no more: what they have equals the source at no place."""
        self._stopped = StalledTables()
        self._position: dict[int, int] = {}
        self._batches = 0
        self._standing: TopicSnapshot | None = None
        self._planned: PlannedSchema | None = None
        """The schema of a topic of typed events, as of the last look."""
        self._owner: TargetOwner | None = None
        self._record: SyncRecord | None = None
        """The record as this driver found it; None: there was none for this topic."""
        self._partial = False
        """Whether events of the tables may have been removed before this sync read them."""
        self._earliest: dict[int, int] = {}
        """Where every queue began when this driver did."""
        self._truncated: dict[TableId, int] = {}
        """The highest position of a truncate, by table without a target yet."""
        self._event_bytes: dict[int, float] = {}
        """The mean size of an event of the last batch, by queue."""
        self.halving = BatchSizing(plan, self._save_halved)
        self._bars: dict[TableId, dict[int, RefusedEvent]] = {}
        """The events of this batch that the targets say cannot be applied, by table and queue."""
        self._telling = Lock()
        self._columns: dict[TableId, frozenset[str]] = {}
        """The columns that events of this run had, by table, of tables whose options name columns."""
        self._aside: RejectedTable | None = None
        self._set_aside: Sequence[RejectedEvent] = ()
        """What the batch under way keeps aside."""
        self._unwritable: dict[TableId, dict[str, str]] = {}
        """Columns that a target refuses, by table, with the reason, where events that have them are rejected."""

    # --- Beginning and end ------------------------------------------------------------------------------------------------------

    def open(self, *, patience_s: float | None = None, halved: int = 0) -> None:
        """Take the lease, and find out where to go on. Raises `SyncInUse`, `TargetRefused`, and the lake's errors."""
        plan = self._plan
        standing = self._standing = self._view.refresh()
        self._planned = events_planned(self._view.planned_schema(), self._plan.topic)
        opened = lakes.open(plan.place)
        self._lease = opened.run(lambda: take_lease(opened, plan.topic, plan.name, patience_s=patience_s))
        self._owner = TargetOwner(plan.topic, standing.life, plan.name)
        try:
            self._begin(standing)
            self._aside = RejectedTable(
                self._backend, self._own, plan.options.rejected, guard=plan.guard, adopt=plan.options.adopt, above=self._above()
            )
            if plan.keeps_rejected:
                self._aside.find()
            if plan.options.cuts:
                # Looked at once more: the driver before may have gone further than what was seen before the lease was this one's.
                self._standing = self._view.refresh()
                exact = self._exact and self._record is not None and not plan.options.adopt
                self._cutting.begin(
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
        """Release the lease, so that another driver may go on at once."""
        self._compaction.close()
        lease, self._lease = self._lease, None
        if lease is not None:
            lakes.open(self._plan.place).run(lease.give_up)

    def _begin(self, standing: TopicSnapshot) -> None:
        self._earliest = {queue: kept[0] for queue, kept in standing.kept.items()}
        self._position = dict(self._earliest)
        self._partial = any(self._earliest.values())
        data = self._held.record
        record = None if data is None else decode_record(data, where=record_key(self._plan.topic, self._plan.name))
        if record is None or record.life != standing.life:
            return
        self._record = record
        check_folder(record, self._plan.into, self._plan.name)
        self._names = {source: name for name, source in record.tables.items()}
        self._truncated = dict(record.truncated)
        self._progress = dict(record.progress)
        self._types = dict(record.types)
        self._left = dict(record.left)
        self._source_us, self._exact = record.source_us, record.exact
        position, lost = resume_offsets(record, standing.kept, self._plan.topic)
        self._check_names()
        again = self._made_again()
        if not again and covers(record.chosen, self._plan.tables):
            self._position = position
            self._partial = self._partial if record.partial is None else record.partial
        for table, stops in lost.items():
            schema, _, name = table.rpartition(".")
            self._stopped.keep(record.sources.get(table, TableId(schema or None, name)), stops, record.resume.get(table, {}))
        if again:  # a driver after this one cannot see it any more once the targets are there
            self._exact = False
            self._keep_record()

    def _check_names(self) -> None:
        """Follow targets whose folders were renamed by hand as the options say. Raises `InvalidArgument` for those that were not."""
        for source, name in list(self._names.items()):
            chosen = self._plan.choices.folder(source) if is_selected(self._plan.tables, source) else None
            if chosen is None or chosen == name:
                continue
            if self._tables.exists(name) or chosen in self._names.values():
                raise target_named_otherwise(self._tables.path(name), chosen)
            self._names[source] = chosen
            if name in self._progress:
                self._progress[chosen] = self._progress.pop(name)

    def _made_again(self) -> bool:
        """Whether targets have gone that can be made again from the beginning; those that cannot stand still."""
        gone = [
            source
            for source, name in self._names.items()
            if is_selected(self._plan.tables, source) and not self._tables.exists(name)
        ]
        cut = [queue for queue, offset in sorted(self._earliest.items()) if offset > 0]
        if cut and not self._plan.options.adopt:
            for source in gone:
                self._stopped.keep(source, [TableStop(queue, self._earliest[queue], GONE) for queue in cut], self._earliest)
            return False
        for source in gone:
            self._progress.pop(self._names.pop(source), None)
        return bool(gone)

    @property
    def epoch(self) -> int:
        """The epoch of the hold on the sync: each is higher than all before."""
        return self._held.epoch

    @property
    def _held(self) -> SyncLease:
        assert self._lease is not None, "open comes first"
        return self._lease

    @property
    def _own(self) -> TargetOwner:
        assert self._owner is not None, "open comes first"
        return self._owner

    # --- One batch --------------------------------------------------------------------------------------------------------------

    def look(self) -> int:
        """The number of events to be applied, as of now."""
        self._standing = self._view.refresh()
        self._planned = events_planned(self._view.planned_schema(), self._plan.topic)
        if self._standing.life != self._own.life:
            raise InvalidArgument(
                "the topic was deleted and created again", operation="sync", object=self._plan.topic, hint="start the sync again"
            )
        self._cutting.set_goal(self._standing, self._position)
        return sum(limit - self._position.get(queue, 0) for queue, (_, limit) in self._standing.kept.items())

    def step(self, ends: Mapping[int, int] | None = None) -> BatchReport | None:
        """Apply one batch of what the last `look` saw, not beyond ``ends``. None: there is nothing.

        Raises `PoisonEvent` once all before such an event is applied, `LeaseLost`, and Spark's errors.
        """
        ranges = self._chosen(ends)
        if not ranges:
            self._cut()
            return None
        clock = lakes.open(self._reading).lake.runtime.clock
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
            behind(self._progress),
            counted(self._set_aside, "rejected"),
            counted(self._set_aside, "null"),
            None if cut is None else cut.number,
            self.epoch,
        )

    def ends(self) -> dict[int, int]:
        """Where every queue ends, as of the last `look`."""
        assert self._standing is not None, "look comes first"
        return {queue: limit for queue, (_, limit) in self._standing.kept.items()}

    @property
    def stopped(self) -> dict[str, tuple[TableStop, ...]]:
        """Tables that stand still, and the events that cannot be applied."""
        return self._stopped.named

    @property
    def unmatched(self) -> tuple[str, ...]:
        """The tables and columns that the options name, and no event has had."""
        columns = {source: [column.name for column in target.columns] for source, target in self._targets.items()}
        return unmatched(self._plan, {**dict.fromkeys((*self._names, *self._stopped), ()), **columns}, self._columns)

    @property
    def position(self) -> dict[int, int]:
        """The next event to be applied, by queue."""
        return dict(self._position)

    def _chosen(self, ends: Mapping[int, int] | None) -> Ranges:
        self._reached("read", "before")
        standing = self._standing
        assert standing is not None, "look comes first"
        available = {
            queue: (
                self._position.get(queue, 0),
                min(self._cutting.limit(queue, limit), limit if ends is None else ends.get(queue, limit)),
            )
            for queue, (_, limit) in standing.kept.items()
        }
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
        """Fold, once more with the new tables and columns, then merge. Returns what was written, how far every queue is, and where it is
        broken.
        """
        broken: dict[int, RefusedEvent] = {}
        reached = {queue: end for queue, (_, end) in ranges.items()}
        bytes_max: int | None = self.halving.bytes_max
        self._bars, self._set_aside = {}, ()
        while ranges:
            self._reached("fold", "before")
            found = self._backend.fold(self._scan(ranges, bytes_max), self._resolve_target)
            bytes_max = None  # events that are folded again are within it
            try:
                taken = found.summary()
                folded = taken.folded
                self._reached("fold", "after")
                ends = {**taken.ends, **{queue: refused.place[1] for queue, refused in folded.broken.items()}}
                sizes = {
                    queue: size / count for queue, size in taken.sizes.items() if (count := taken.ends[queue] - ranges[queue][0])
                }
                self._event_bytes |= sizes
                self._columns |= {source: self._columns.get(source, frozenset()) | one for source, one in folded.columns.items()}
                reached |= ends
                broken |= folded.broken
                ranges = {queue: (start, ends[queue]) for queue, (start, _) in ranges.items() if start < ends[queue]}
                if folded.broken:
                    continue
                if self._add_missing(folded) or self._widened(folded):
                    continue
                if folded.newest_us is not None:
                    self._source_us = max(self._source_us or folded.newest_us, folded.newest_us)
                self._cutting.applied(folded.newest_us)
                self._note_left(folded)
                return self._merged(found, folded, ranges), reached, broken
            finally:
                found.drop()
        return {}, reached, broken

    def _scan(self, ranges: Ranges, bytes_max: int | None) -> BatchScan:
        taken = packed(ranges, tasks_max=self._plan.tasks, sizes=self._view.sizes(ranges))
        tasks = tuple(
            ReadTask(
                place=self._reading,
                topic=self._plan.topic,
                life=self._own.life,
                ranges=one,
                columns=EVENT if self._planned is None else TYPED_EVENT,
                planned=self._planned,
            )
            for one in taken
        )
        targets = {source: replace(target, stopped=source in self._stopped) for source, target in self._targets.items()}
        one_queue = len(self.ends()) == 1
        plan = replace(self._fold_plan, targets=targets, bars=self._bars, one_queue=one_queue, unwritable=self._unwritable)
        return BatchScan(tasks, plan, 1 if len(tasks) <= 1 else self._plan.tasks, self._plan.steps, bytes_max)

    def _merged(self, found: FoldedBatch, folded: FoldResult, ranges: Ranges) -> dict[str, int]:
        merged = {}
        if folded.aside:
            self._keep_aside(folded.aside, ranges)
        for source, types in folded.types.items():
            name = self._targets[source].name
            self._types[name] = max(self._types.get(name, types), types)
        # Small ones come first: a table with much to write keeps no other one waiting.
        sources = sorted(folded.counts, key=lambda source: (folded.counts[source], self._targets[source].name))
        targets = [self._after(source, folded, ranges) for source in sources]
        refusals = run_in_parallel(lambda target: self._merge(found, target, folded), targets, self._backend.merges_at_once)
        for target, why in zip(targets, refusals, strict=True):
            source = target.source
            if why is not None:
                done = self._targets[source].progress.offsets
                starts = {queue: max(start, done.get(queue, 0)) for queue, (start, _) in ranges.items()}
                self._stopped.add(source, [RefusedEvent(place, str(why)) for place in sorted(starts.items())], self._position)
                continue
            self._targets[source], self._progress[target.name] = target, target.progress
            merged[target.name] = folded.counts[source]
            self._compaction.merged(target)
        reached = self._position | {queue: end for queue, (_, end) in ranges.items()}
        for source, bars in folded.refused.items():
            self._stopped.add(source, self._explained(source, bars.values()), reached)
        return merged

    def _note_left(self, folded: FoldResult) -> None:
        for source, left in folded.left.items():
            if (known := self._left.get(source)) is not None and known.position >= left.position:
                continue
            self._left.pop(source, None)
            if left.reason is not None:
                self._left[source] = left
                log.warning("%s is not captured any more, and is in no cut: %s", named(source), left.reason)

    def _widened(self, folded: FoldResult) -> bool:
        """Give columns the wider types that their source has by now, where values call for these. False: there is nothing to be done."""
        changed = False
        for source, bars in folded.refused.items() if self._plan.options.widen else ():
            target = self._targets.get(source)
            if target is None or not (wider := wider_columns(target, bars.values(), partial(self._source_types.told, source))):
                continue
            self._reached("add columns", "before", target.name)
            self._held.check()
            try:
                self._tables.widen(target, wider)
            except Exception as error:
                if refusal_of(self._tables, target.name, error) is None:
                    raise
                continue  # it stands still
            self._reached("add columns", "after", target.name)
            self._targets[source], changed = target.having(wider), True
        return changed

    def _keep_aside(self, events: Sequence[RejectedEvent], ranges: Ranges) -> None:
        """Write events to the side table, before any target passes over them."""
        side, name = self._aside, self._plan.options.rejected
        assert side is not None, "open comes first"
        self._reached("set aside", "before", name)
        side.make(check=self._held.check)
        self._reached("set aside", "in", name)
        side.write(events, self._position | {queue: end for queue, (_, end) in ranges.items()}, check=self._held.check)
        self._set_aside = events
        self._reached("set aside", "after", name)

    def _explained(self, source: TableId, refused: Iterable[RefusedEvent]) -> list[RefusedEvent]:
        table = distinct_names({*self._names, source})[source]
        return with_hints(self._plan, self._targets.get(source), table, refused, partial(self._source_types.told, source))

    def _after(self, source: TableId, folded: FoldResult, ranges: Ranges) -> Target:
        """A target as it is once the batch is merged into it."""
        bars, truncate = folded.refused.get(source, {}), folded.truncates.get(source)
        ends = self._position | {queue: bars[queue].place[1] if queue in bars else end for queue, (_, end) in ranges.items()}
        return self._targets[source].reached(ends, None if truncate is None else truncate.position, folded.told.get(source))

    def _merge(self, found: FoldedBatch, target: Target, folded: FoldResult) -> TargetRefused | None:
        """Merge a batch into one target, perhaps in a thread of its own. Returns why the target does not take it."""
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
        record = SyncRecord(
            life=self._own.life,
            into=self._plan.into,
            offsets=self._position,
            chosen=self._plan.tables,
            tables={name: source for source, name in self._names.items()},
            truncated=self._truncated,
            left=self._left,
            stopped=self.stopped,
            progress={name: self._progress[name] for name in self._names.values() if name in self._progress},
            resume=self._stopped.resume,
            sources=self._stopped.sources,
            types={name: self._types[name] for name in self._names.values() if name in self._types},
            exact=self._plan.options.cuts and self._exact,
            partial=self._partial,
            source_us=self._source_us,
        )
        lease = self._held
        lakes.open(self._plan.place).run(lambda: lease.save(record))

    # --- Cuts -------------------------------------------------------------------------------------------------------------------

    def _cut(self) -> Cut | None:
        """Record a cut, if the targets have exactly what a goal has."""
        if not self._cutting.due(self._position):
            return None
        self._reached("cut", "before")
        cut = self._cutting.record(self._tables_of_cut(), self._held)
        self._exact = True
        self._reached("cut", "after")
        return cut

    def _tables_of_cut(self) -> Iterator[AlignedTable]:
        exact = self._record is not None and self._record.exact
        for source, name in self._names.items():
            if source not in self._stopped and source not in self._left and is_selected(self._plan.tables, source):
                known = exact or source in self._targets
                yield AlignedTable(name, self._progress[name].commits if known and name in self._progress else None)
        names = dict(self._names)
        for source, left in self._left.items():
            if source not in self._stopped and is_selected(self._plan.tables, source):
                yield AlignedTable(self._name(source, names, named(source)), None, left.reason)
        sources = self._stopped.sources
        for table, stops in self.stopped.items():
            yield AlignedTable(self._name(sources[table], names, table), None, stops[0].reason if stops else "it stands still")

    def _name(self, source: TableId, names: dict[TableId, str], otherwise: str) -> str:
        """The name of a table's target, or, noted among these ``names``, that which it would have. ``otherwise``: where it can have none."""
        if source not in names:
            try:
                names[source] = self._folders(source, {name: one for one, name in names.items()})[0]
            except TargetRefused:
                return otherwise
        return names[source]

    @property
    def newest_cut(self) -> Cut | None:
        """The newest cut that is recorded."""
        return self._cutting.newest

    # --- Targets ----------------------------------------------------------------------------------------------------------------

    def _add_missing(self, folded: FoldResult) -> bool:
        """Give targets what they lack. False: they have everything that the events call for."""
        # Another task has met their targets since.
        changed = any(source in self._targets and source not in self._stopped for source in folded.unfolded)
        for source, seen in sorted(folded.seen.items(), key=lambda one: one[1].place):  # however tasks shared them
            if source in self._stopped:
                continue
            try:
                shape = TableShape.of(source, seen, self._plan.declared, self._source_types.joined(source, seen.types))
                changed |= (
                    self._add_columns(source, shape) if source in self._targets else self._add_table(source, shape, seen, folded)
                )
            except Exception as error:
                if (why := refusal_of(self._tables, self._names.get(source, source.table), error)) is None:
                    raise
                self._stop_before(source, seen, why)
                changed = True
        return changed

    def _resolve_target(self, source: TableId, seen: ObservedColumns) -> Target | None:
        """The target of a table whose first event a fold has ``seen``, found or made, where that takes no guess at a column's type.

        Then the batch is folded once. None, also for what is refused: that is left to the fold of the whole batch.
        """
        declared = merged_declarations(self._plan.declared.columns, source)
        told = source in self._names or seen.columns.keys() <= {*seen.connect, *declared}
        if source in self._stopped or not told:
            return None
        try:
            self._add_table(source, TableShape.of(source, seen, self._plan.declared), seen, FoldResult())
        except Exception as error:
            if refusal_of(self._tables, self._names.get(source, source.table), error) is None:
                raise
        return self._targets.get(source)

    def _stop_before(self, source: TableId, seen: ObservedColumns, error: TargetRefused) -> None:
        """Let a table end before the events that its target refuses. The whole table stands still when the target refuses all."""
        refused = [RefusedEvent(place, str(error)) for place in sorted(seen.first(error.columns).items())]
        if not error.columns:
            self._stopped.add(source, refused, self._position)
            return
        if self._fold_plan.policy_of(source) == "reject":
            self._unwritable.setdefault(source, {}).update(dict.fromkeys(error.columns, str(error)))
            return
        bars = self._bars.setdefault(source, {})
        for one in refused:
            bars[one.place[0]] = min(one, bars.get(one.place[0], one), key=lambda refused: refused.place)

    def _add_table(self, source: TableId, shape: TableShape, seen: ObservedColumns, folded: FoldResult) -> bool:
        """Find a table's target, or make it. False: there is nothing to be made."""
        taken = {name: one for one, name in self._names.items()}
        names = [self._names[source]] if source in self._names else self._folders(source, taken)
        name, found = folder_of(source, names, self._tables.find)
        if found is not None:
            self._know(source, name, found, shape)
            return True
        if source in self._names:
            raise target_gone(self._tables.path(name))
        if not shape.key:
            if source in folded.refused:  # its truncates come again, behind what is refused
                self._stopped.add(source, folded.refused[source].values(), self._position)
            elif seen.truncated is not None:
                self._truncated[source] = max(self._truncated.get(source, NEVER), seen.truncated)
            return False
        # Not with this batch's truncates: what comes before them may be all that is applied next, by a smaller batch or up to a refused event.
        truncated = self._truncated.get(source)
        target = new_target(source, name, shape, truncated=truncated, history=self._plan.historic(source))
        self._reached("create", "before", name)
        self._held.check()
        self._tables.create(target, self._own)
        self._reached("create", "after", name)
        made = self._tables.find(name)  # another sync may have made it at the same time
        assert made is not None, "it was made"
        self._know(source, name, made, shape)
        self._truncated.pop(source, None)
        return True

    def _folders(self, source: TableId, taken: Mapping[str, TableId]) -> list[str]:
        """The folders that a table may have. Raises `TargetRefused` when there is none."""
        if (name := self._plan.choices.folder(source)) is None:
            return target_names(source, taken)
        if (other := taken.get(name, source)) != source:
            raise name_taken(source, name, other)
        return [name]

    def _know(self, source: TableId, name: str, found: ExistingTarget, shape: TableShape) -> None:
        """Add a target that is there. Raises `TargetRefused`."""
        plan, path = self._plan, self._tables.path(name)
        told = self._record is not None and is_selected(self._record.chosen, source)
        target = known_target(
            source,
            name,
            found,
            shape,
            path=path,
            owner=self._own,
            adopted=TargetProgress(commits=self._above()) if plan.options.adopt else None,
            kept=self._progress.get(name),
            cut=None if told else self._earliest,
            declared=of_table(plan.declared.keys, source),
        )
        check_history(target, path=path, wanted=plan.historic(source), kept=self._backend.keeps_history)
        if kept := kept_types_hint(path, target, merged_declarations(plan.declared.columns, source)):
            log.warning(kept)
        if plan.guard and not target.history and POSITION not in found.others:
            self._held.check()
            self._tables.add_columns(target, [TargetColumn(POSITION, "bigint")])
        self._targets[source], self._names[source] = target, name
        self._progress[name] = target.progress  # a driver that died before it kept its progress may have gone further
        self._others[source] = found.others

    def _above(self) -> int:
        """A number above that of any commit of a sync by now."""
        return lakes.open(self._reading).lake.runtime.clock.wall_ms()

    def _add_columns(self, source: TableId, shape: TableShape) -> bool:
        target = self._targets[source]
        columns = new_columns(target, shape)
        check_writable(columns, self._others.get(source, frozenset()), path=self._tables.path(target.name))
        if not columns:
            return False
        self._reached("add columns", "before", target.name)
        self._held.check()
        try:
            self._tables.add_columns(target, columns)
        except Exception as error:
            if (why := refusal_of(self._tables, target.name, error)) is None:
                raise
            raise why.of(*(column.name for column in columns)) from error
        self._reached("add columns", "after", target.name)
        self._targets[source] = replace(target, columns=(*target.columns, *columns))
        return True

    def _reached(self, step: str, moment: Literal["before", "in", "after"], what: str = "") -> None:
        with self._telling:  # merges tell theirs from several threads
            self._plan.steps.reached(step, moment, what)
