"""The fold of a range of events to net changes, table by table: the inner loop of every sync.

New tables and columns are reported with their types, and the same events folded again once the targets have them. An event that cannot be applied
ends the fold of its table in its queue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from ...log.errors import InvalidArgument, PenstockError
from ..changes import ALWAYS, NEVER, Key, NetChange, Place, move, put, remove, truncated
from ..choice.columns import ColumnRules, DisallowedEvent
from ..choice.tables import Choices, Policy, Truncates
from ..events.conversion import KEEP, UnfitValue, characters
from ..events.debezium import ChangeEvent, NestedTooDeep, decode_event, is_control, parse_change, table_of
from ..events.sources import TableId, is_selected, of_table
from ..events.standard_envelope import standard_change
from ..events.stop_message import stop_reason
from ..events.typed_events import TypedEvent
from ..targets import Target
from .fold_result import FoldResult, LastTruncate, RefusedEvent, RowVersion, TableCoverage, TypesReference
from .observed_columns import ObservedColumns, schema_types
from .rejected_events import RejectedEvent, key_text
from .row_decoder import ValueOptions, required_key_value
from .table import TableFold

_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999

UNORDERED = (
    "it empties the table and has no position, so it cannot be told which rows of other queues it removes: let the connector write positions, or "
    "start with truncates='queue' (--truncates queue) if all events of the table come by one queue, or with 'ignore'"
)


@dataclass(frozen=True, slots=True)
class FoldPlan:
    """The fold's inputs."""

    targets: Mapping[TableId, Target]
    tables: frozenset[str] | None = None
    """Only these tables; None: all."""
    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    guard: bool = True
    bars: Mapping[TableId, Mapping[int, RefusedEvent]] = field(default_factory=dict)
    """The first event that cannot be applied, by table and queue. Later events of the table in that queue are not applied either."""
    reading: ValueOptions = field(default_factory=ValueOptions)
    truncates: Truncates = "ordered"
    one_queue: bool = False
    """Whether a truncate without a position removes what came before it, as the topic has one queue only."""
    choices: Choices = field(default_factory=Choices)
    policy: Policy = "stop"
    unwritable: Mapping[TableId, Mapping[str, str]] = field(default_factory=dict)
    """Columns that a target refuses, by table, with the reason. Events with them are rejected."""

    def policy_of(self, source: TableId | None) -> Policy:
        chosen = None if source is None else self.choices.of(source).policy
        return chosen or self.policy

    def truncates_of(self, source: TableId) -> Truncates:
        chosen = self.choices.of(source).truncates or self.truncates
        return "queue" if chosen == "ordered" and self.one_queue else chosen

    def reading_of(self, source: TableId) -> ValueOptions:
        times = self.choices.of(source).unfit_times or self.reading.unfit_times
        return replace(self.reading, unfit_times=times, unfit_nulls=self.policy_of(source) == "null")


TargetResolver: TypeAlias = Callable[[TableId, ObservedColumns], Target | None]
"""Gives a table a target when its first event comes, if that event suffices."""


class Fold:
    """Takes events in the order of each queue; queues may take turns."""

    def __init__(self, plan: FoldPlan, meet: TargetResolver | None = None) -> None:
        """``meet``: called once for each table without a target, unless a truncate comes first."""
        self._plan = plan
        self._resolve_target = meet
        self._asked: set[TableId] = set()
        """The tables for which ``meet`` is not called any more."""
        self._tables: dict[TableId, TableFold] = {}
        """The tables with a target that had events."""
        self._rules: dict[TableId, ColumnRules | None] = {}
        self._truncates: dict[TableId, Truncates] = {}
        self._policies: dict[TableId | None, Policy] = {}
        self._event: tuple[bytes | TypedEvent | None, int] = (None, 0)
        """The event under way, and when it was stored."""
        self._folded = FoldResult()
        self._wanted: dict[TableId, bool] = {}
        self._passed_us: int | None = None
        """The newest commit that its target has already."""
        self._names: set[str] = set()
        self._keyless: dict[TableId, dict[int, RefusedEvent]] = {}
        """The first event without a key, by table and queue. It cannot be applied if no other event of its table has a key."""
        self._keyless_rejected: dict[TableId, list[RejectedEvent]] = {}
        """All events without a key, of tables whose events are rejected then."""

    def add(self, queue: int, offset: int, body: bytes | TypedEvent | None, time_us: int = 0) -> None:
        """Take a body, a typed row, or a tombstone. ``time_us``: when it was stored."""
        folded = self._folded
        if queue in folded.broken:
            return
        event: object = None
        self._event = body, time_us
        try:
            if isinstance(body, TypedEvent):
                event = body
                change: ChangeEvent | None = body.change()
            elif (change := standard_change(body or b"")) is None:
                event = decode_event(body or b"")
                change = parse_change(event)
        except (InvalidArgument, ValueError, TypeError, AttributeError) as error:
            self._no_change(event, queue, offset, error)
            return
        if change is None or (change.op in "mt" and self._changes_no_row(change, event)):
            folded.ignored += 1
            return
        source = change.source
        table = self._tables.get(source) or self._known(source)
        if table is None:
            if not self._asked_for(source):
                folded.ignored += 1
                return
            table = self._met(change)
        if (
            (table is not None and (table.target.stopped or offset < table.done.get(queue, 0)))
            or queue in folded.refused.get(source, ())
            or (self._plan.bars and self._barred(source, queue, offset))
        ):
            folded.passed += 1
            if change.time_us is not None:
                self._passed_us = max(self._passed_us or change.time_us, change.time_us)
            return
        try:
            if (rules := self._rules_of(source)) is not None:
                change = rules.applied(change)
            self._fold(table, change, (queue, offset), time_us)
        except DisallowedEvent as error:
            self._refuse(source, RefusedEvent((queue, offset), str(error)))
        except UnfitValue as error:
            if table is not None:
                table.nulled.clear()
            self._unfit(source, (queue, offset), str(error), change, error.column)

    def result(self) -> FoldResult:
        folded = self._folded
        folded.columns = {source: rules.met for source, rules in self._rules.items() if rules is not None and rules.met}
        for source, keyless in self._keyless.items():
            if not folded.seen[source].key and source in self._keyless_rejected:
                folded.rejected += self._keyless_rejected[source]
            elif not folded.seen[source].key:
                folded.refused[source] = folded.refused.get(source, {}) | keyless
        times = [change.time_us for table in self._tables.values() for change in table.last.values()]
        folded.newest_us = max((one for one in (*times, self._passed_us) if one is not None), default=None)
        for source, table in self._tables.items():
            if nets := [one for queue in table.nets.values() for one in queue.items()]:
                folded.nets[source] = nets
                if any(net.since is not None for _, net in nets):
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
            named = [
                TypesReference(_or_never(one.position), one.types_name) for one in table.last.values() if one.types_name is not None
            ]
            if named:
                folded.types[source] = max(named)
        return folded

    def _known(self, source: TableId) -> TableFold | None:
        if source not in self._tables and (target := self._plan.targets.get(source)) is not None:
            self._tables[source] = TableFold(target, self._plan)
        return self._tables.get(source)

    def _asked_for(self, source: TableId) -> bool:
        if source not in self._wanted:
            self._wanted[source] = is_selected(self._plan.tables, source)
        return self._wanted[source]

    def _rules_of(self, source: TableId) -> ColumnRules | None:
        if source not in self._rules:
            plan = self._plan
            self._rules[source] = plan.choices.rules(source, of_table(plan.keys, source), plan.reading.unavailable)
        return self._rules[source]

    def _truncates_of(self, source: TableId) -> Truncates:
        if source not in self._truncates:
            self._truncates[source] = self._plan.truncates_of(source)
        return self._truncates[source]

    def _no_change(self, event: object, queue: int, offset: int, error: Exception) -> None:
        if isinstance(error, NestedTooDeep):
            event = error.outline
        source = event.source if isinstance(event, TypedEvent) else table_of(event)
        hidden = source is None and self._plan.choices.hides
        if is_control(event) or (source is not None and not is_selected(self._plan.tables, source)):
            self._folded.ignored += 1
        elif source is None and self._policy_of(None) == "reject":
            self._folded.rejected.append(self._rejection(None, (queue, offset), _reason(error, hidden=hidden)))
        elif source is None:
            self._folded.broken[queue] = RefusedEvent((queue, offset), _reason(error, hidden=hidden))
        else:
            table = self._known(source)
            if table is not None and (table.target.stopped or offset < table.done.get(queue, 0)):
                self._folded.passed += 1
            elif queue not in self._folded.refused.get(source, ()):
                self._unfit(source, (queue, offset), _reason(error))

    def _changes_no_row(self, change: ChangeEvent, event: object) -> bool:
        """Whether a message or a truncate changes no row."""
        reason = stop_reason(event) if change.op == "m" else None
        if change.position is not None and (change.op == "t" or (reason is not None and self._asked_for(change.source))):
            coverage = TableCoverage(change.position, reason)
            known = self._folded.coverage.get(change.source, coverage)
            self._folded.coverage[change.source] = max(known, coverage, key=lambda one: one.position)
        return change.op == "m" or self._truncates_of(change.source) == "ignore"

    def _check_order(self, change: ChangeEvent) -> None:
        positioned = change.position is not None and self._plan.guard
        if not positioned and self._truncates_of(change.source) == "ordered":
            raise UnfitValue(UNORDERED)

    def _barred(self, source: TableId, queue: int, offset: int) -> bool:
        bar = self._plan.bars.get(source, {}).get(queue)
        if bar is None or offset < bar.place[1]:
            return False
        self._folded.refused.setdefault(source, {}).setdefault(queue, bar)
        return True

    def _check_writable(self, change: ChangeEvent) -> None:
        """Raise `UnfitValue` for a column that the target is known to refuse."""
        if refused := self._plan.unwritable.get(change.source):
            for name, reason in refused.items():
                if name in change.row:
                    raise UnfitValue(reason)

    def _unfit(
        self, source: TableId, place: Place, reason: str, change: ChangeEvent | None = None, column: str | None = None
    ) -> None:
        """Let an event that cannot be applied stop its table, or keep it aside."""
        if self._policy_of(source) == "reject":
            self._folded.rejected.append(self._rejection(source, place, reason, change))
        else:
            known = None if change is None else change.types_name
            said = {} if change is None or column is None else schema_types(change)
            self._refuse(source, RefusedEvent(place, reason, column, known, said))

    def _note_nulls(self, table: TableFold, change: ChangeEvent, place: Place) -> None:
        for column, reason in table.nulled:
            rejected = self._rejection(change.source, place, f"column {column}: {reason}", change)
            self._folded.rejected.append(replace(rejected, action="null", column=column))
        table.nulled.clear()

    def _rejection(self, source: TableId | None, place: Place, reason: str, change: ChangeEvent | None = None) -> RejectedEvent:
        event, time_us = self._event
        hidden = self._plan.choices.hides if source is None else self._rules_of(source) is not None
        body = event.decode("utf-8", "replace") if isinstance(event, bytes) and not hidden else None
        return RejectedEvent(
            place, source, "rejected", reason, time_us, key=None if change is None else key_text(change.key), body=body
        )

    def _policy_of(self, source: TableId | None) -> Policy:
        if source not in self._policies:
            self._policies[source] = self._plan.policy_of(source)
        return self._policies[source]

    def _refuse(self, source: TableId, refused: RefusedEvent) -> None:
        self._folded.refused.setdefault(source, {})[refused.place[0]] = refused

    def _fold(self, table: TableFold | None, change: ChangeEvent, place: Place, time_us: int) -> None:
        if change.op == "t":
            self._check_order(change)
        if self._plan.unwritable:
            self._check_writable(change)
        if table is None:
            self._see(change.source, change, place)
            return
        table.last[place[0]] = change
        if self._plan.guard:
            table.check_origin(place[0], change)
        self._apply(table, change, place, time_us)
        if change.position is not None and self._plan.guard:
            table.advance(place[0], change.position, change.origin)
        if table.nulled:
            self._note_nulls(table, change, place)

    # --- Known tables -----------------------------------------------------------------------------------------------------------

    def _apply(self, table: TableFold, change: ChangeEvent, place: Place, time_us: int) -> None:
        if change.key and change.key.keys() != table.key_names:
            self._check_key(table, change)
        position = change.position if self._plan.guard else None
        last = table.truncates.get(place[0], table.truncate)
        if position is not None and last is not None and position < last:
            self._gone(table, change, position, place, time_us)
            return
        if table.target.history:
            self._version(table, change, position, place, time_us)
            return
        nets = table.nets.setdefault(place[0], {})
        if change.op == "t":
            self._truncate(table, nets, position, place[0], time_us)
        elif change.op == "d":
            key = self._key(table, change)
            if (after := remove(nets.get(key), len(table.columns), position, place)) is not None:
                nets[key] = after
        else:
            self._put(table, nets, change, position, place)
        table.count += 1

    def _check_key(self, table: TableFold, change: ChangeEvent) -> None:
        """Raise `UnfitValue` where the source's key is not the target's, and rows may become one, or two."""
        if of_table(self._plan.keys, change.source) is None:
            raise UnfitValue(
                f"its key is {', '.join(change.key)}, the target's {', '.join(table.target.key)}: has the source's primary key changed? Capture the "
                "table into a new topic, for a new target; or declare the target's key if it still tells all rows apart (keys=, --key)"
            )
        before = change.before or {}
        unsaid = change.op == "u" and any(before.get(name) is None for name in table.target.key)
        if unsaid and not table.key_names <= change.key.keys():
            raise UnfitValue(
                f"it does not say the row's key before: {', '.join(table.target.key)} is declared, the event's is {', '.join(change.key)}. Let the "
                "source log whole rows (REPLICA IDENTITY FULL)"
            )

    def _gone(self, table: TableFold, change: ChangeEvent, position: int, place: Place, time_us: int) -> None:
        """Handle an event older than the last truncate, which has removed its row."""
        if change.op == "t":
            self._folded.passed += 1
            return
        table.count += 1
        nets, width = table.nets.setdefault(place[0], {}), len(table.columns)
        key = self._key(table, change)
        for one in {key, self._moved(table, change, key) or key}:
            if table.target.history:
                at_us = _changed_at(change, time_us)
                table.versions.append(RowVersion(one, "d", (None,) * width, position, at_us, place))
            elif (after := remove(nets.get(one), width, position, place)) is not None:
                nets[one] = after

    def _put(self, table: TableFold, nets: dict[Key, NetChange], change: ChangeEvent, position: int | None, place: Place) -> None:
        values = self._row(table, change, place)
        key = tuple([values[column] for column in table.key_places])
        if None in key or KEEP in key:
            key = self._key(table, change)
            values = _with_key(values, table.key_places, key)
        origin = self._moved(table, change, key)
        before = nets.get(key)
        if origin is None:
            after = put(before, values, position, place)
        else:
            old = nets.get(origin)
            after = move(old, origin, before, values, position, place)
            if (gone := remove(old, len(values), position, place)) is not None:
                nets[origin] = gone
        if after is not None:
            nets[key] = after

    def _row(self, table: TableFold, change: ChangeEvent, place: Place) -> tuple[Any, ...]:
        if not table.names.issuperset(change.row):
            self._see(change.source, change, place, known=table.names)
        return table.values(change.row, change.schema_of_row, modes=change.modes, exact=change.says_unsent)

    def _key(self, table: TableFold, change: ChangeEvent) -> Key:
        if change.key and table.key_names <= change.key.keys():
            return table.key(change.key, change.schema_of_key, modes=change.modes, exact=change.says_unsent)
        return table.key(change.row, change.schema_of_row, modes=change.modes, exact=change.says_unsent)

    def _moved(self, table: TableFold, change: ChangeEvent, key: Key) -> Key | None:
        before = change.before
        if before is None or change.op != "u":
            return None
        row = change.row
        if all(name not in before or before[name] == row.get(name) for name in table.target.key):
            return None
        old = {name: before.get(name) for name in table.target.key}
        origin = table.key(old, change.schema_of_row, modes=change.modes, exact=change.says_unsent)
        return origin if origin != key else None

    def _truncate(self, table: TableFold, nets: dict[Key, NetChange], position: int | None, queue: int, time_us: int) -> None:
        for key, net in nets.items():
            nets[key] = truncated(net, position, before_it=True)
        table.note(LastTruncate(ALWAYS if position is None else position, time_us))
        if position is not None:
            table.truncates[queue] = max(table.truncates.get(queue, table.truncate or 0), position)

    def _version(self, table: TableFold, change: ChangeEvent, position: int | None, place: Place, time_us: int) -> None:
        at_us = _changed_at(change, time_us)
        table.count += 1
        if change.op == "t":
            table.versions.append(RowVersion((), "t", (), position, at_us, place))
            table.note(LastTruncate(ALWAYS if position is None else position, at_us))
            return
        if change.op == "d":
            key = self._key(table, change)
            table.versions.append(RowVersion(key, "d", (None,) * len(table.columns), position, at_us, place))
            return
        values = self._row(table, change, place)
        key = tuple([values[column] for column in table.key_places])
        if None in key or KEEP in key:
            key = self._key(table, change)
            values = _with_key(values, table.key_places, key)
        if (origin := self._moved(table, change, key)) is not None:
            table.versions.append(RowVersion(origin, "d", (None,) * len(values), position, at_us, place))
        table.versions.append(RowVersion(key, change.op, values, position, at_us, place))

    # --- What the plan does not have ----------------------------------------------------------------------------------------------

    def _met(self, change: ChangeEvent) -> TableFold | None:
        source = change.source
        if self._resolve_target is None or source in self._asked:
            return None
        self._asked.add(source)
        key = tuple(of_table(self._plan.keys, source) or change.key)
        if change.op == "t" or not key:
            return None
        unavailable, seen = self._plan.reading.of(change), ObservedColumns(key=key)
        try:
            if (rules := self._rules_of(source)) is not None:
                change = rules.applied(change)
            self._check_names(change)
            for name in key:
                required_key_value(name, change.key if name in change.key else change.row, unavailable)
        except UnfitValue:
            return None  # it is refused where it is noted
        seen.note(change, (0, 0), frozenset(), unavailable)
        target = self._resolve_target(source, seen)
        if target is not None:
            self._tables[source] = TableFold(target, self._plan)
        return self._tables.get(source)

    def _see(self, source: TableId, change: ChangeEvent, place: Place, *, known: frozenset[str] = frozenset()) -> None:
        """Note columns of a table and their types; for a new table its key too."""
        folded, unavailable = self._folded, self._plan.reading.of(change)
        if not self._asked_for(source):
            folded.ignored += 1
            return
        if not known:
            folded.unfolded.add(source)
        self._check_names(change)
        if known:
            folded.seen.setdefault(source, ObservedColumns()).note(change, place, known, unavailable)
        elif change.op == "t":
            folded.ignored += 1  # it is folded again once the target is known
            folded.seen.setdefault(source, ObservedColumns()).note_truncate(change.position if self._plan.guard else None, place)
        else:
            key = tuple(of_table(self._plan.keys, source) or change.key)
            for name in key:
                required_key_value(name, change.key if name in change.key else change.row, unavailable)
            seen = folded.seen.setdefault(source, ObservedColumns())
            seen.key = seen.key or key
            if not key:
                reason = "it has no key, and no key is declared for its table"
                self._keyless.setdefault(source, {}).setdefault(place[0], RefusedEvent(place, reason))
                if self._policy_of(source) == "reject":
                    self._keyless_rejected.setdefault(source, []).append(self._rejection(source, place, reason, change))
            seen.note(change, place, known, unavailable)

    def _check_names(self, change: ChangeEvent) -> None:
        for name in change.row.keys() - self._names:
            try:
                self._names.add(characters(name))
            except UnfitValue as error:
                raise UnfitValue(f"column {name!r}: {error}") from error


def _or_never(position: int | None) -> int:
    return NEVER if position is None else position


def _changed_at(change: ChangeEvent, stored_us: int) -> int:
    at_us = stored_us if change.time_us is None else change.time_us
    if not _FIRST_US <= at_us <= _LAST_US:
        raise UnfitValue(f"it was changed in no year from 1 to 9999: {at_us} microseconds after 1970")
    return at_us


def _reason(error: Exception, *, hidden: bool = False) -> str:
    """``hidden``: without the event's content, which may be masked."""
    if not isinstance(error, PenstockError):
        return "it is no change event" if hidden else str(error)
    return error.message if hidden or error.observed is None else f"{error.message}: {error.observed}"


def _with_key(values: tuple[Any, ...], places: tuple[int, ...], key: Key) -> tuple[Any, ...]:
    whole = list(values)
    for column, value in zip(places, key, strict=True):
        whole[column] = value
    return tuple(whole)
