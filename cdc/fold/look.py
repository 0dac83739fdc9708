"""A look at a range of events without any target: the tables in it, their columns and types, and how many events each has."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ..changes import Place
from ..choice.columns import ColumnRules
from ..events.debezium import Change
from ..events.sources import Source
from .aside import Aside
from .fold import Fold, Plan
from .seen import Seen


class Look(Fold):
    """Takes events as a fold does. No value is converted."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.events: Counter[Source] = Counter()

    def _see(self, source: Source, change: Change, place: Place, *, known: frozenset[str] = frozenset()) -> None:
        self.events[source] += 1
        super()._see(source, change, place, known=known)

    def _aside(self, source: Source | None, place: Place, reason: str, change: Change | None = None) -> Aside:
        return replace(super()._aside(source, place, reason, change), key=None, body=None)

    def seen(self, source: Source) -> Seen:
        """The columns and the key of a table that had events."""
        return self._folded.seen.get(source) or Seen()

    def rules(self, source: Source) -> ColumnRules | None:
        """The rules that applied to a table's columns."""
        return self._rules_of(source)
