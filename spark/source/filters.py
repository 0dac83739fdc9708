"""Conditions on columns that choose what of a batch is read at all. Pure; Spark's own filter classes are translated in `batch`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from .admission import Ranges


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What is left of a topic after all conditions that were understood."""

    queues: frozenset[int] | None = None
    """None: all."""
    first: int = 0
    """The smallest offset, of any queue."""
    limit: int | None = None
    """The offset to stop before."""
    stored_from: datetime | None = None
    """The earliest store time, inclusive."""
    stored_to: datetime | None = None
    """The latest store time, inclusive."""
    tags: frozenset[str] | None = None

    def narrowed(self, column: str, operator: str, value: Any) -> Narrowing | None:  # noqa: ANN401 - whatever the column holds
        """With one more condition (``=``, ``in``, ``<``, ``<=``, ``>`` or ``>=``); None when it does not say what to read."""
        if value is None or (column == "offset" and not isinstance(value, int)):
            return None
        match column, operator:
            case "queue", "=" | "in":
                return replace(self, queues=_both(self.queues, _numbers(value)))
            case "tag", "=" | "in":
                tags = frozenset(value if operator == "in" else (value,)) - {None}
                return replace(self, tags=_both(self.tags, tags))
            case "offset", "=":
                return replace(self, first=max(self.first, value), limit=_least(self.limit, value + 1))
            case "offset", ">" | ">=":
                return replace(self, first=max(self.first, value + (operator == ">")))
            case "offset", "<" | "<=":
                return replace(self, limit=_least(self.limit, value + (operator == "<=")))
        if column != "store_timestamp" or not isinstance(value, datetime) or value.tzinfo is None:
            return None
        later = value if self.stored_from is None else max(self.stored_from, value)
        earlier = value if self.stored_to is None else min(self.stored_to, value)
        match operator:
            case ">" | ">=":
                return replace(self, stored_from=later)
            case "<" | "<=":
                return replace(self, stored_to=earlier)
            case "=":
                return replace(self, stored_from=later, stored_to=earlier)
        return None

    def apply(self, ranges: Ranges, stored_from: Mapping[int, int], stored_behind: Mapping[int, int]) -> dict[int, tuple[int, int]]:
        """What is left of these ranges. ``stored_from`` and ``stored_behind`` are the offsets that the times mean, by queue."""
        left = {}
        for queue, (start, limit) in ranges.items():
            if self.queues is not None and queue not in self.queues:
                continue
            first = max(start, self.first, stored_from.get(queue, start))
            last = min(limit, limit if self.limit is None else self.limit, stored_behind.get(queue, limit))
            if first < last:
                left[queue] = (first, last)
        return left


def _numbers(value: Any) -> frozenset[int]:  # noqa: ANN401 - a number or several
    return frozenset([value] if isinstance(value, int) else [one for one in value if one is not None])


def _both(before: frozenset[Any] | None, now: frozenset[Any]) -> frozenset[Any]:
    return now if before is None else before & now


def _least(before: int | None, now: int) -> int:
    return now if before is None else min(before, now)
