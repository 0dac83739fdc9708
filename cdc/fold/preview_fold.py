"""A look at a range of events without any target: tables, columns, types, counts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ..changes import Place
from ..choice.columns import ColumnRules
from ..events.debezium import ChangeEvent
from ..events.sources import TableId
from ..target import Target
from .fold import Fold
from .observed_columns import ObservedColumns
from .plan import FoldPlan, TablePlan
from .rejected_events import RejectedEvent


class PreviewFold(Fold):
    """Takes events as a fold does. No value is converted."""

    def __init__(self, plan: FoldPlan) -> None:
        super().__init__(plan)
        self.events: Counter[TableId] = Counter()

    def _met(self, change: ChangeEvent, plan: TablePlan, place: Place) -> Target | None:
        self.events[plan.source] += 1
        return super()._met(change, plan, place)

    def _rejection(self, plan: TablePlan | None, place: Place, reason: str, change: ChangeEvent | None = None) -> RejectedEvent:
        return replace(super()._rejection(plan, place, reason, change), key=None, body=None)

    def seen(self, source: TableId) -> ObservedColumns:
        return self._folded.seen.get(source) or ObservedColumns()

    def rules(self, source: TableId) -> ColumnRules | None:
        return self._plan_of(source).rules
