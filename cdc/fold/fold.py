"""The fold of a range of events to net changes, table by table: the inner loop of every sync.

New tables and columns are reported with their types, and the same events folded again once the targets have them. An event that cannot be applied
ends the fold of its table in its queue.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from ..changes import Place
from ..choice.columns import DisallowedEvent
from ..events.conversion import UnfitValue
from ..events.debezium import ChangeEvent
from ..events.event_reader import UnreadableEvent, read_event
from ..events.sources import TableId
from ..events.typed_events import TypedEvent
from ..target import Target
from .fold_result import FoldResult, RefusedEvent, TableCoverage
from .new_table import KeylessEvent, NewTable
from .observed_columns import ObservedColumns
from .plan import FoldPlan, TablePlan
from .rejected_events import RejectedEvent, key_text
from .row_decoder import RowDecoder
from .table import TableFold

UNORDERED = (
    "it empties the table and has no position, so it cannot be told which rows of other queues it removes: let the connector write positions, or "
    "start with truncates='queue' (--truncates queue) if all events of the table come by one queue, or with 'ignore'"
)

TargetResolver: TypeAlias = Callable[[TableId, ObservedColumns], Target | None]
"""Gives a table a target when its first event comes, if that event suffices."""


class Fold:
    """Takes events in the order of each queue; queues may take turns."""

    def __init__(self, plan: FoldPlan, resolve_target: TargetResolver | None = None) -> None:
        """``resolve_target``: called once for each table without a target, unless a truncate comes first."""
        self._plan = plan
        self._resolve_target = resolve_target
        self._plans: dict[TableId, TablePlan] = {}
        self._tables: dict[TableId, TableFold | NewTable] = {}
        """The tables that had events, but for those not asked for."""
        self._event: tuple[bytes | TypedEvent | None, int] = (None, 0)
        """The event under way, and when it was stored."""
        self._folded = FoldResult()
        self._passed_us: int | None = None
        """The newest commit that its target has already."""

    def add(self, queue: int, offset: int, body: bytes | TypedEvent | None, time_us: int = 0, key: bytes | None = None) -> None:
        """Take a body, a typed row, or a tombstone. ``time_us``: when it was stored. ``key``: the message's."""
        folded = self._folded
        if queue in folded.broken:
            return
        change, place = read_event(body, key), (queue, offset)
        if change is None:
            folded.ignored += 1
            return
        self._event = body, time_us
        if isinstance(change, UnreadableEvent):
            self._unreadable(change, place)
            return
        plan = self._plans.get(change.source) or self._plan_of(change.source)
        if (change.op in "mt" and self._changes_no_row(change, plan)) or (plan.target is None and not plan.selected):
            folded.ignored += 1
        elif self._is_passed(plan, place):
            self._pass(change)
        else:
            self._add(change, plan, place, time_us)

    def result(self) -> FoldResult:
        folded = self._folded
        folded.columns = {plan.source: plan.rules.met for plan in self._plans.values() if plan.rules is not None and plan.rules.met}
        times = [self._passed_us]
        for source, table in self._tables.items():
            if table.observed is not None:
                folded.seen[source] = table.observed
            if isinstance(table, TableFold):
                times += [change.time_us for change in table.last.values()]
                _put_table(folded, source, table)
                continue
            folded.unfolded.add(source)
            if table.observed is not None and not table.observed.key:
                if table.keyless_rejected:
                    folded.rejected += table.keyless_rejected
                elif table.keyless:
                    folded.refused[source] = folded.refused.get(source, {}) | table.keyless
        folded.newest_us = max((time_us for time_us in times if time_us is not None), default=None)
        return folded

    # --- Events that change no row ----------------------------------------------------------------------------------------------

    def _unreadable(self, event: UnreadableEvent, place: Place) -> None:
        folded, plan = self._folded, None if event.source is None else self._plan_of(event.source)
        if event.control or (plan is not None and not plan.selected):
            folded.ignored += 1
        elif plan is not None and _is_applied(plan.target, place):
            folded.passed += 1
        elif plan is not None and place[0] not in folded.refused.get(plan.source, ()):
            self._unfit(plan, place, event.reason())
        elif plan is None and self._plan.policy == "reject":
            folded.rejected.append(self._rejection(None, place, event.reason(hidden=self._plan.choices.hides)))
        elif plan is None:
            folded.broken[place[0]] = RefusedEvent(place, event.reason(hidden=self._plan.choices.hides))

    def _changes_no_row(self, change: ChangeEvent, plan: TablePlan) -> bool:
        reason = change.stop_reason
        if change.position is not None and (change.op == "t" or (reason is not None and plan.selected)):
            coverage = TableCoverage(change.position, reason)
            known = self._folded.coverage.get(change.source, coverage)
            self._folded.coverage[change.source] = max(known, coverage, key=lambda coverage: coverage.position)
        return change.op == "m" or plan.truncates == "ignore"

    def _is_passed(self, plan: TablePlan, place: Place) -> bool:
        target, refused = plan.target, self._folded.refused
        # `_is_applied` of every event, without its call.
        if target is not None and (target.stopped or place[1] < target.progress.offsets.get(place[0], 0)):
            return True
        if refused and place[0] in refused.get(plan.source, ()):
            return True
        if not plan.blocked_from or (first := plan.blocked_from.get(place[0])) is None or place[1] < first.place[1]:
            return False
        self._refuse(plan.source, first)
        return True

    def _pass(self, change: ChangeEvent) -> None:
        self._folded.passed += 1
        if change.time_us is not None:
            self._passed_us = max(self._passed_us or change.time_us, change.time_us)

    # --- Changes of rows --------------------------------------------------------------------------------------------------------

    def _add(self, change: ChangeEvent, plan: TablePlan, place: Place, time_us: int) -> None:
        table = self._tables.get(plan.source)
        try:
            if plan.rules is not None:
                change = plan.rules.applied(change)
            if change.op == "t" or plan.unwritable:
                _check_applicable(change, plan)
            if not isinstance(table, TableFold):
                target = plan.target or self._met(change, plan, place)
                if target is None:
                    return
                plan = self._plans[plan.source] = replace(plan, target=target)
                if self._is_passed(plan, place):
                    self._pass(change)
                    return
                decoder = RowDecoder(target, plan.value_options, plan.forms)
                table = self._tables[plan.source] = TableFold(decoder, plan)
            if not table.apply(change, place, time_us):
                self._folded.passed += 1
            if table.decoder.nulled:
                self._note_nulls(table, plan, change, place)
        except KeylessEvent as error:
            if isinstance(new := self._tables[plan.source], NewTable):
                new.keyless.setdefault(place[0], RefusedEvent(place, str(error)))
                if plan.policy == "reject":
                    new.keyless_rejected.append(self._rejection(plan, place, str(error), change))
        except DisallowedEvent as error:
            self._refuse(plan.source, RefusedEvent(place, str(error)))
        except UnfitValue as error:
            if isinstance(table, TableFold):
                table.decoder.nulled.clear()
            self._unfit(plan, place, str(error), change, error.column)

    def _met(self, change: ChangeEvent, plan: TablePlan, place: Place) -> Target | None:
        """Note an event of a table without a target. The target, if its first event gives it one."""
        known = self._tables.get(plan.source)
        table = self._tables[plan.source] = known if isinstance(known, NewTable) else NewTable(plan)
        if change.op == "t":
            self._folded.ignored += 1  # it is folded again once the target is known
        observed = table.note(change, place)
        if known is not None or change.op == "t" or self._resolve_target is None:
            return None
        target = self._resolve_target(plan.source, observed)
        if target is not None:
            del self._tables[plan.source]
        return target

    def _unfit(
        self, plan: TablePlan, place: Place, reason: str, change: ChangeEvent | None = None, column: str | None = None
    ) -> None:
        """Let an event that cannot be applied stop its table, or keep it aside."""
        if plan.policy == "reject":
            self._folded.rejected.append(self._rejection(plan, place, reason, change))
            return
        types = {} if change is None or column is None else change.schema_types
        self._refuse(plan.source, RefusedEvent(place, reason, column, None if change is None else change.types_name, types))

    def _refuse(self, source: TableId, refused: RefusedEvent) -> None:
        self._folded.refused.setdefault(source, {})[refused.place[0]] = refused

    def _note_nulls(self, table: TableFold, plan: TablePlan, change: ChangeEvent, place: Place) -> None:
        for column, reason in table.decoder.nulled:
            rejected = self._rejection(plan, place, f"column {column}: {reason}", change)
            self._folded.rejected.append(replace(rejected, action="null", column=column))
        table.decoder.nulled.clear()

    def _rejection(self, plan: TablePlan | None, place: Place, reason: str, change: ChangeEvent | None = None) -> RejectedEvent:
        body, time_us = self._event
        hidden = self._plan.choices.hides if plan is None else plan.rules is not None
        return RejectedEvent(
            place,
            None if plan is None else plan.source,
            "rejected",
            reason,
            time_us,
            key=None if change is None else key_text(change.key),
            body=body.decode("utf-8", "replace") if isinstance(body, bytes) and not hidden else None,
        )

    def _plan_of(self, source: TableId) -> TablePlan:
        if source not in self._plans:
            self._plans[source] = self._plan.table(source)
        return self._plans[source]


def _is_applied(target: Target | None, place: Place) -> bool:
    return target is not None and (target.stopped or place[1] < target.progress.offsets.get(place[0], 0))


def _check_applicable(change: ChangeEvent, plan: TablePlan) -> None:
    """Raise `UnfitValue` for a truncate without an order, or a column that the target is known to refuse."""
    if change.op == "t" and plan.truncates == "ordered" and (change.position is None or not plan.by_position):
        raise UnfitValue(UNORDERED)
    for name, reason in plan.unwritable.items():
        if name in change.row:
            raise UnfitValue(reason)


def _put_table(folded: FoldResult, source: TableId, table: TableFold) -> None:
    if nets := [net for queue in table.nets.values() for net in queue.items()]:
        folded.nets[source] = nets
        if any(net.column_positions is not None for _, net in nets):
            folded.partial.add(source)
        if moved := {net.moved.key for _, net in nets if net.moved is not None}:
            folded.moved[source] = moved
    if table.versions:
        folded.versions[source] = table.versions
    if table.count:
        folded.counts[source] = table.count
    if changed := table.watermarks():
        folded.watermarks[source] = changed
    if table.new_truncate is not None:
        folded.truncates[source] = table.new_truncate
    if (types := table.types()) is not None:
        folded.types[source] = types
