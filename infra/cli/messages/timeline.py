"""The life of a message as a line in time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from ...console import output
from ...operating.life import events_of

if TYPE_CHECKING:
    from ....consumers.trace.trace import Trace

_PAST, _FUTURE = ("●", "│"), ("○", "┆")
_TIME_CELLS = 24


def timeline(found: Trace, now: datetime) -> Iterator[str]:
    """The lines of a drawing: the earliest event first, with the time between two; hollow and dashed from ``now`` on.

    None where fewer than two times are known.
    """
    events = events_of(found)
    if len(events) < 2:
        return
    before: datetime | None = None
    for event in events:
        dot, line = _PAST if event.time <= now else _FUTURE
        if before is not None and event.time > before:
            yield f"  {_apart(event.time - before):>{_TIME_CELLS}}  {line}"
        yield f"  {output.time_text(event.time):>{_TIME_CELLS}}  {dot} {output.printable(event.what)}"
        before = event.time


def _apart(time: timedelta) -> str:
    """The time between two events, to the second where that is enough."""
    return output.duration_text(timedelta(seconds=time // timedelta(seconds=1)) if time > timedelta(minutes=1) else time)
