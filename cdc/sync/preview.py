"""The preview of a sync: its effect on the topic's events, without a lease or writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from ...consumers.ranges.task import ReadTask
from ...consumers.ranges.topic_view import TopicView
from ..choice.tables import Policy
from ..events.sources import TableId, distinct_names, of_table
from ..fold.fold_result import RefusedEvent
from ..fold.preview_fold import PreviewFold
from ..fold.shape import TableShape, key_of, new_columns
from ..target import Target, TargetOwner, TargetProgress, TargetRefused, name_taken, target_names
from .backends.backend import TargetTables
from .backends.fold_tasks import EVENT, TYPED_EVENT, events_of, events_planned
from .plan import SyncPlan, unmatched
from .targets.existing_targets import check_history, check_writable, folder_of, known_target
from .targets.source_types import SourceTypes

PreviewVerdict = Literal["make", "go on", "refuse", "wait"]


@dataclass(frozen=True, slots=True)
class TablePreview:
    """What becomes of one table."""

    table: str
    what: PreviewVerdict
    """``make`` or ``go on`` with its target; ``refuse``: it stands still; ``wait``: no event makes a target yet."""
    events: int
    target: str | None = None
    key: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    """Types by column, also of columns still to be added."""
    masks: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    history: bool = False
    policy: Policy = "stop"
    """The handling of events that cannot be applied."""
    rejected: int = 0
    """The number of events not to be applied, as far as known without a target."""
    reason: str | None = None
    """The reason, or the place, of its stop."""


@dataclass(frozen=True, slots=True)
class SyncPreview:
    """What becomes of all tables."""

    tables: tuple[TablePreview, ...]
    ignored: int
    """The number of events without effect on these tables."""
    broken: Mapping[int, RefusedEvent]
    """The first event by queue whose table is unknown: the sync would end there."""
    unmatched: tuple[str, ...]


def preview(plan: SyncPlan, tables: TargetTables, *, keeps_history: bool) -> SyncPreview:
    """Read all the topic's events. Raises the lake's errors, and those of the targets' store."""
    view = TopicView(plan.place.as_read_only, plan.topic)
    standing = view.refresh()
    planned = events_planned(view.planned_schema(), plan.topic)
    look = PreviewFold(plan.fold_plan(one_queue=len(standing.kept) == 1))
    task = ReadTask(
        place=plan.place.as_read_only,
        topic=plan.topic,
        life=standing.life,
        ranges={queue: kept for queue, kept in standing.kept.items() if kept[0] < kept[1]},
        columns=EVENT if planned is None else TYPED_EVENT,
        planned=planned,
    )
    for queue, offset, time_us, key, body, _ in events_of(task) if task.ranges else ():
        look.add(queue, offset, body, time_us, key)
    folded = look.result()
    sources = sorted({*look.events, *folded.refused, *(one.source for one in folded.rejected if one.source is not None)})
    owner = TargetOwner(plan.topic, standing.life, plan.name)
    rejected, names, types = Counter(one.source for one in folded.rejected), distinct_names(sources), SourceTypes(plan)
    found = _Found(plan, tables, owner, look, folded.refused, rejected, names, keeps_history, types)
    first = sorted(sources, key=lambda source: min(look.seen(source).first(()).items(), default=(0, 0))[::-1])
    previews = {source: found.of(source) for source in first}  # in the order in which a sync gives names to targets
    missing = unmatched(plan, {source: one.columns for source, one in previews.items()}, folded.columns)
    return SyncPreview(tuple(sorted(previews.values(), key=lambda one: one.table)), folded.ignored, folded.broken, missing)


@dataclass(frozen=True, slots=True)
class _Found:
    plan: SyncPlan
    tables: TargetTables
    owner: TargetOwner
    look: PreviewFold
    refused: Mapping[TableId, Mapping[int, RefusedEvent]]
    rejected: Mapping[TableId | None, int]
    names: Mapping[TableId, str]
    keeps_history: bool
    source_types: SourceTypes
    taken: dict[str, TableId] = field(default_factory=dict)

    def of(self, source: TableId) -> TablePreview:
        first = min((one.place, one.reason) for one in self.refused[source].values()) if source in self.refused else None
        reason = None if first is None else f"it stands still at queue {first[0][0]}, offset {first[0][1]}: {first[1]}"
        known = TablePreview(self.names[source], "refuse" if reason else "wait", self.look.events[source], reason=reason)
        known = replace(known, policy=self.plan.fold_plan().policy_of(source), rejected=self.rejected.get(source, 0))
        try:
            seen = self.look.seen(source)
            shape = TableShape.of(source, seen, self.plan.declared, self.source_types.joined(source, seen.types))
            if (rules := self.look.rules(source)) is not None:
                masks = {column: mask.name for column in sorted(rules.met) if (mask := rules.mask(column)) is not None}
                left_out = [column for column in sorted(rules.met) if not rules.keeps(column) and column not in shape.key]
                known = replace(known, masks=masks, left_out=tuple(left_out))
            return self._with_target(known, source, shape) if shape.key else known
        except TargetRefused as error:
            return replace(known, what="refuse", reason=str(error))

    def _with_target(self, known: TablePreview, source: TableId, shape: TableShape) -> TablePreview:
        chosen, history = self.plan.choices.folder(source), self.plan.historic(source)
        names = target_names(source, self.taken) if chosen is None else [chosen]
        folder, there = folder_of(source, names, self.tables.find)
        if (other := self.taken.setdefault(folder, source)) != source:
            raise name_taken(source, folder, other)
        path, target, more = self.tables.path(folder), Target(source, folder, key_of(shape), shape.key, history=history), []
        if there is not None:
            adopted = TargetProgress() if self.plan.options.adopt else None
            target = known_target(
                source,
                folder,
                there,
                shape,
                path=path,
                owner=self.owner,
                adopted=adopted,
                kept=TargetProgress(),
                cut=None,
                declared=of_table(self.plan.declared.keys, source),
            )
            check_history(target, path=path, wanted=history, kept=self.keeps_history)
            more = new_columns(target, shape)
            check_writable(more, there.others, path=path)
        return replace(
            known,
            what="make" if there is None else "go on",
            target=path,
            key=target.key,
            columns={column.name: str(column.type) for column in (*target.columns, *more)},
            history=target.history,
        )
