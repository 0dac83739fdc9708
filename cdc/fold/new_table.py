"""A table without a target: what its events call for."""

from __future__ import annotations

from ..changes import Place
from ..events.conversion import UnfitValue, check_names, required_key_value
from ..events.debezium import ChangeEvent
from .fold_result import RefusedEvent
from .observed_columns import ObservedColumns
from .plan import TablePlan
from .rejected_events import RejectedEvent


class KeylessEvent(UnfitValue):
    """An event without a key. It cannot be applied if no other event of its table has one."""


class NewTable:
    """Notes a table's columns and key until it has a target."""

    def __init__(self, plan: TablePlan) -> None:
        self._plan = plan
        self.observed: ObservedColumns | None = None
        """None: no event of it could be read."""
        self.keyless: dict[int, RefusedEvent] = {}
        """The first event without a key, by queue. It cannot be applied if no other event has a key."""
        self.keyless_rejected: list[RejectedEvent] = []
        """All events without a key, if the table's events are rejected then."""
        self._names: set[str] = set()

    def note(self, change: ChangeEvent, place: Place) -> ObservedColumns:
        """Note an event. Raises `UnfitValue`, and `KeylessEvent` once it is noted."""
        unavailable, truncate = self._plan.value_options.of(change), change.op == "t"
        check_names(change.row, self._names)
        key = () if truncate else tuple(self._plan.key or change.key)
        for name in key:
            required_key_value(name, change.key if name in change.key else change.row, unavailable)
        observed = self.observed = self.observed or ObservedColumns()
        observed.key = observed.key or key
        if truncate:
            observed.note_truncate(change.position if self._plan.by_position else None, place)
            return observed
        observed.note(change, place, frozenset(), unavailable)
        if not key:
            raise KeylessEvent("it has no key, and no key is declared for its table")
        return observed
