"""A look at a range of events without any target: tables, columns, types, counts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ..changes import Place
from ..choice.columns import ColumnRules
from ..events.debezium import ChangeEvent
from ..events.sources import TableId
from .fold import Fold, FoldPlan
from .observed_columns import ObservedColumns
from .rejected_events import RejectedEvent


class PreviewFold(Fold):
    """Takes events as a fold does. No value is converted."""

    def __init__(self, plan: FoldPlan) -> None:
        super().__init__(plan)
        self.events: Counter[TableId] = Counter()

    def _see(self, source: TableId, change: ChangeEvent, place: Place, *, known: frozenset[str] = frozenset()) -> None:
        self.events[source] += 1
        super()._see(source, change, place, known=known)

    def _rejection(self, source: TableId | None, place: Place, reason: str, change: ChangeEvent | None = None) -> RejectedEvent:
        return replace(super()._rejection(source, place, reason, change), key=None, body=None)

    def seen(self, source: TableId) -> ObservedColumns:
        return self._folded.seen.get(source) or ObservedColumns()

    def rules(self, source: TableId) -> ColumnRules | None:
        return self._rules_of(source)
