"""The folds of several tasks put together, for the process that decides what becomes of the batch."""

from __future__ import annotations

from dataclasses import replace

from .fold import Folded
from .seen import Seen


def combined(parts: list[Folded]) -> Folded:
    """The folds of several tasks combined, except their rows."""
    whole = Folded()
    for part in parts:
        for source, seen in part.seen.items():
            whole.seen.setdefault(source, Seen()).join(seen)
        for source, refused in part.refused.items():
            whole.refused.setdefault(source, {}).update(refused)
        whole.partial |= part.partial
        for source, keys in part.moved.items():
            whole.moved.setdefault(source, set()).update(keys)
        for source, truncate in part.truncates.items():
            whole.truncates[source] = max(whole.truncates.get(source, truncate), truncate)
        for source, count in part.counts.items():
            whole.counts[source] = whole.counts.get(source, 0) + count
        for source, told in part.told.items():
            whole.told.setdefault(source, {}).update(told)  # a queue is one task's
        whole.broken.update(part.broken)
        whole.ignored += part.ignored
        whole.passed += part.passed
    return whole


def without_rows(folded: Folded) -> Folded:
    """The fold without its rows, small enough for the driver."""
    seen = {source: replace(one, kinds=set()) for source, one in folded.seen.items()}
    return replace(folded, nets={}, versions={}, seen=seen)
