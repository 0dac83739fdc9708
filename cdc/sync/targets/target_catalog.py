"""The targets of one driver: names, columns, progress, and tables that stand still."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from ....consumers.ranges.admission import Ranges
from ....coordinator.lakes import lakes
from ....log.schema.fields import PrimitiveType
from ...changes import NEVER
from ...cuts.alignment import AlignedTable
from ...events.sources import TableId, distinct_names, is_selected, merged_declarations, named, of_table
from ...fold.fold_result import FoldResult, RefusedEvent, TableCoverage, TypesReference
from ...fold.observed_columns import ObservedColumns
from ...fold.plan import FoldPlan
from ...fold.shape import TableShape, new_columns
from ...target import (
    POSITION,
    ExistingTarget,
    Target,
    TargetColumn,
    TargetOwner,
    TargetProgress,
    TargetRefused,
    name_taken,
    target_names,
)
from ..backends.backend import Backend, refusal_of
from ..options import Moment
from ..plan import SyncPlan, unmatched
from ..record import SyncRecord, TableStop
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
from .source_types import SourceTypes
from .stalled_tables import StalledTables

log = logging.getLogger("penstock.cdc")


class StepReached(Protocol):
    """Called at each step of a driver."""

    def __call__(self, step: str, moment: Moment, what: str = "") -> None: ...


class TargetCatalog:
    """The targets that one driver knows or makes."""

    def __init__(
        self,
        plan: SyncPlan,
        backend: Backend,
        owner: TargetOwner,
        record: SyncRecord | None,
        *,
        earliest: Mapping[int, int],
        check: Callable[[], None],
        reached: StepReached,
    ) -> None:
        """``record``: the last driver's; ``earliest``: each queue's beginning; ``check`` raises without the lease."""
        self._plan, self._backend, self._owner, self._record = plan, backend, owner, record
        self._tables, self._earliest, self._check, self._reached = backend.tables, earliest, check, reached
        self._fold_plan = plan.fold_plan()
        self._source_types = SourceTypes(plan)
        self.stopped = StalledTables()
        self._targets: dict[TableId, Target] = {}
        self._names: dict[TableId, str] = {}
        """The folders of tables, also without events in this run: a target is read at its table's first event."""
        self._others: dict[TableId, frozenset[str]] = {}
        self.progress: dict[str, TargetProgress] = {}
        self._types: dict[str, TypesReference] = {}
        self._uncaptured: dict[TableId, TableCoverage] = {}
        """The tables that are no longer captured: they equal the source at no place."""
        self._truncated: dict[TableId, int] = {}
        self._blocked_from: dict[TableId, dict[int, RefusedEvent]] = {}
        self._columns: dict[TableId, frozenset[str]] = {}
        """The columns that events of this run had, by table whose options name columns."""
        self._unwritable: dict[TableId, dict[str, str]] = {}
        """Columns that a target refuses, with the reason, by table that rejects their events."""
        if record is not None:
            self._names = {source: name for name, source in record.tables.items()}
            self._truncated, self.progress = dict(record.truncated), dict(record.progress)
            self._types, self._uncaptured = dict(record.types), dict(record.uncaptured)

    # --- Beginning --------------------------------------------------------------------------------------------------------------

    def check_names(self) -> None:
        """Follow targets whose folders were renamed by hand to the options' names. Raises `InvalidArgument` for others."""
        for source, name in list(self._names.items()):
            chosen = self._plan.choices.folder(source) if self._is_selected(source) else None
            if chosen is None or chosen == name:
                continue
            if self._tables.exists(name) or chosen in self._names.values():
                raise target_named_otherwise(self._tables.path(name), chosen)
            self._names[source] = chosen
            if name in self.progress:
                self.progress[chosen] = self.progress.pop(name)
            if name in self._types:
                self._types[chosen] = self._types.pop(name)

    def forget_gone(self) -> bool:
        """Forget targets that are gone and can be made from the beginning, and return whether any was; stop the others."""
        gone = [source for source, name in self._names.items() if self._is_selected(source) and not self._tables.exists(name)]
        trimmed = [queue for queue, offset in sorted(self._earliest.items()) if offset > 0]
        if trimmed and not self._plan.options.adopt:
            for source in gone:
                stops = [TableStop(queue, self._earliest[queue], GONE) for queue in trimmed]
                self.stopped.keep(source, stops, self._earliest)
            return False
        for source in gone:
            self.progress.pop(self._names.pop(source), None)
        return bool(gone)

    def keep_stopped(self, record: SyncRecord, lost: Mapping[str, Sequence[TableStop]]) -> None:
        for table, stops in lost.items():
            schema, _, name = table.rpartition(".")
            self.stopped.keep(record.sources.get(table, TableId(schema or None, name)), stops, record.resume.get(table, {}))

    def _is_selected(self, source: TableId) -> bool:
        return is_selected(self._plan.tables, source)

    # --- What is known ----------------------------------------------------------------------------------------------------------

    @property
    def unmatched(self) -> tuple[str, ...]:
        columns = {source: [column.name for column in target.columns] for source, target in self._targets.items()}
        return unmatched(self._plan, {**dict.fromkeys((*self._names, *self.stopped), ()), **columns}, self._columns)

    def recorded(self, record: SyncRecord) -> SyncRecord:
        return replace(
            record,
            tables={name: source for source, name in self._names.items()},
            truncated=dict(self._truncated),
            uncaptured=dict(self._uncaptured),
            stopped=self.stopped.named,
            progress={name: self.progress[name] for name in self._names.values() if name in self.progress},
            resume=self.stopped.resume,
            sources=self.stopped.sources,
            types={name: self._types[name] for name in self._names.values() if name in self._types},
        )

    def tables_of_cut(self) -> Iterator[AlignedTable]:
        """The tables in a cut, or out of it with the reason."""
        exact = self._record is not None and self._record.exact
        for source, name in self._names.items():
            if source not in self.stopped and source not in self._uncaptured and self._is_selected(source):
                known = exact or source in self._targets
                yield AlignedTable(name, self.progress[name].commits if known and name in self.progress else None)
        names = dict(self._names)
        for source, coverage in self._uncaptured.items():
            if source not in self.stopped and self._is_selected(source):
                yield AlignedTable(self._name(source, names, named(source)), None, coverage.reason)
        sources = self.stopped.sources
        for table, stops in self.stopped.named.items():
            yield AlignedTable(self._name(sources[table], names, table), None, stops[0].reason if stops else "it stands still")

    def _name(self, source: TableId, names: dict[TableId, str], otherwise: str) -> str:
        """The name of a table's target, or the name it would get, noted in ``names``; ``otherwise`` if it can have none."""
        if source not in names:
            try:
                names[source] = self._folders(source, {name: one for one, name in names.items()})[0]
            except TargetRefused:
                return otherwise
        return names[source]

    # --- One batch --------------------------------------------------------------------------------------------------------------

    def begin_batch(self) -> None:
        self._blocked_from = {}

    def batch_fold_plan(self, *, one_queue: bool) -> FoldPlan:
        targets = {source: replace(target, stopped=source in self.stopped) for source, target in self._targets.items()}
        return replace(
            self._fold_plan, targets=targets, blocked_from=self._blocked_from, one_queue=one_queue, unwritable=self._unwritable
        )

    def note_columns(self, folded: FoldResult) -> None:
        self._columns |= {source: self._columns.get(source, frozenset()) | one for source, one in folded.columns.items()}

    def note_uncaptured(self, folded: FoldResult) -> None:
        for source, coverage in folded.coverage.items():
            if (known := self._uncaptured.get(source)) is not None and known.position >= coverage.position:
                continue
            self._uncaptured.pop(source, None)
            if coverage.reason is not None:
                self._uncaptured[source] = coverage
                log.warning("%s is not captured any more, and is in no cut: %s", named(source), coverage.reason)

    def note_types(self, folded: FoldResult) -> None:
        for source, types in folded.types.items():
            name = self._targets[source].name
            self._types[name] = max(self._types.get(name, types), types)

    def to_merge(self, folded: FoldResult, position: Mapping[int, int], ranges: Ranges) -> list[Target]:
        """The targets that a batch changes, as they are after it, small ones first, so that a large one delays none."""
        sources = sorted(folded.counts, key=lambda source: (folded.counts[source], self._targets[source].name))
        return [self._after(source, folded, position, ranges) for source in sources]

    def _after(self, source: TableId, folded: FoldResult, position: Mapping[int, int], ranges: Ranges) -> Target:
        refused, truncate = folded.refused.get(source, {}), folded.truncates.get(source)
        ends = {**position, **{queue: refused[queue].place[1] if queue in refused else end for queue, (_, end) in ranges.items()}}
        return self._targets[source].reached(ends, None if truncate is None else truncate.position, folded.watermarks.get(source))

    def merged(self, target: Target) -> None:
        self._targets[target.source], self.progress[target.name] = target, target.progress

    def not_merged(self, target: Target, why: TargetRefused, position: Mapping[int, int], ranges: Ranges) -> None:
        done = self._targets[target.source].progress.offsets
        starts = {queue: max(start, done.get(queue, 0)) for queue, (start, _) in ranges.items()}
        self.stopped.add(target.source, [RefusedEvent(place, str(why)) for place in sorted(starts.items())], position)

    def stop_refused(self, folded: FoldResult, reached: Mapping[int, int]) -> None:
        """Stop tables at the events that cannot be applied."""
        for source, refused in folded.refused.items():
            table = distinct_names({*self._names, source})[source]
            catalog_types = partial(self._source_types.catalog_types, source)
            self.stopped.add(
                source, with_hints(self._plan, self._targets.get(source), table, refused.values(), catalog_types), reached
            )

    # --- What targets lack ------------------------------------------------------------------------------------------------------

    def add_missing(self, folded: FoldResult, position: Mapping[int, int]) -> bool:
        """Give targets missing columns and tables. False: nothing was missing."""
        # Another task has met their targets since.
        changed = any(source in self._targets and source not in self.stopped for source in folded.unfolded)
        for source, seen in sorted(folded.seen.items(), key=lambda one: one[1].place):  # however tasks shared them
            if source in self.stopped:
                continue
            try:
                shape = TableShape.of(source, seen, self._plan.declared, self._source_types.joined(source, seen.types))
                if source in self._targets:
                    changed |= self._add_columns(source, shape)
                else:
                    changed |= self._add_table(source, shape, seen, folded, position)
            except Exception as error:
                if (why := refusal_of(self._tables, self._names.get(source, source.table), error)) is None:
                    raise
                self._stop_before(source, seen, why, position)
                changed = True
        return changed

    def resolve(self, source: TableId, seen: ObservedColumns) -> Target | None:
        """The target of a table at its first event in a fold, found or made, if no column's type is a guess. It saves a second
        fold.

        None also for a refused one, which the fold of the whole batch meets.
        """
        declared = merged_declarations(self._plan.declared.columns, source)
        typed = source in self._names or seen.columns.keys() <= {*seen.connect, *declared}
        if source in self.stopped or not typed:
            return None
        try:
            self._add_table(source, TableShape.of(source, seen, self._plan.declared), seen, FoldResult(), {})
        except Exception as error:
            if refusal_of(self._tables, self._names.get(source, source.table), error) is None:
                raise
        return self._targets.get(source)

    def widened(self, folded: FoldResult) -> bool:
        """Widen columns with their source, where values need it. False: nothing to widen."""
        changed = False
        for source, refused in folded.refused.items() if self._plan.options.widen else ():
            target = self._targets.get(source)
            if target is None or not (
                wider := wider_columns(target, refused.values(), partial(self._source_types.catalog_types, source))
            ):
                continue
            self._reached("add columns", "before", target.name)
            self._check()
            try:
                self._tables.widen(target, wider)
            except Exception as error:
                if refusal_of(self._tables, target.name, error) is None:
                    raise
                continue  # it stands still
            self._reached("add columns", "after", target.name)
            self._targets[source], changed = target.having(wider), True
        return changed

    def _stop_before(self, source: TableId, seen: ObservedColumns, error: TargetRefused, position: Mapping[int, int]) -> None:
        """Stop a table before the events that its target refuses, or as a whole if it refuses all."""
        refused = [RefusedEvent(place, str(error)) for place in sorted(seen.first(error.columns).items())]
        if not error.columns:
            self.stopped.add(source, refused, position)
            return
        if self._fold_plan.policy_of(source) == "reject":
            self._unwritable.setdefault(source, {}).update(dict.fromkeys(error.columns, str(error)))
            return
        blocked_from = self._blocked_from.setdefault(source, {})
        for one in refused:
            blocked_from[one.place[0]] = min(one, blocked_from.get(one.place[0], one), key=lambda refused: refused.place)

    def _add_table(
        self, source: TableId, shape: TableShape, seen: ObservedColumns, folded: FoldResult, position: Mapping[int, int]
    ) -> bool:
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
                self.stopped.add(source, folded.refused[source].values(), position)
            elif seen.truncated is not None:
                self._truncated[source] = max(self._truncated.get(source, NEVER), seen.truncated)
            return False
        # Not with this batch's truncates: what comes before them may be all that is applied next, by a smaller batch or up to a refused event.
        truncated = self._truncated.get(source)
        target = new_target(source, name, shape, truncated=truncated, history=self._plan.historic(source))
        self._reached("create", "before", name)
        self._check()
        self._tables.create(target, self._owner)
        self._reached("create", "after", name)
        made = self._tables.find(name)  # another sync may have made it at the same time
        assert made is not None, "it was made"
        self._know(source, name, made, shape)
        self._truncated.pop(source, None)
        return True

    def _folders(self, source: TableId, taken: Mapping[str, TableId]) -> Sequence[str]:
        if (name := self._plan.choices.folder(source)) is None:
            return target_names(source, taken)
        if (other := taken.get(name, source)) != source:
            raise name_taken(source, name, other)
        return [name]

    def _know(self, source: TableId, name: str, found: ExistingTarget, shape: TableShape) -> None:
        plan, path = self._plan, self._tables.path(name)
        chosen = self._record is not None and is_selected(self._record.chosen, source)
        target = known_target(
            source,
            name,
            found,
            shape,
            path=path,
            owner=self._owner,
            adopted=TargetProgress(commits=commits_above(plan)) if plan.options.adopt else None,
            kept=self.progress.get(name),
            cut=None if chosen else self._earliest,
            declared=of_table(plan.declared.keys, source),
        )
        check_history(target, path=path, wanted=plan.historic(source), kept=self._backend.keeps_history)
        if kept := kept_types_hint(path, target, merged_declarations(plan.declared.columns, source)):
            log.warning(kept)
        if plan.by_position and not target.history and POSITION not in found.others:
            self._check()
            self._tables.add_columns(target, [TargetColumn(POSITION, PrimitiveType.BIGINT)])
        self._targets[source], self._names[source] = target, name
        self.progress[name] = target.progress  # a driver that died before it kept its progress may have gone further
        self._others[source] = found.others

    def _add_columns(self, source: TableId, shape: TableShape) -> bool:
        target = self._targets[source]
        columns = new_columns(target, shape)
        check_writable(columns, self._others.get(source, frozenset()), path=self._tables.path(target.name))
        if not columns:
            return False
        self._reached("add columns", "before", target.name)
        self._check()
        try:
            self._tables.add_columns(target, columns)
        except Exception as error:
            if (why := refusal_of(self._tables, target.name, error)) is None:
                raise
            raise why.of(*(column.name for column in columns)) from error
        self._reached("add columns", "after", target.name)
        self._targets[source] = replace(target, columns=(*target.columns, *columns))
        return True


def commits_above(plan: SyncPlan) -> int:
    """A number above any commit of a sync by now."""
    return lakes.open(plan.place.as_read_only).lake.runtime.clock.wall_ms()
