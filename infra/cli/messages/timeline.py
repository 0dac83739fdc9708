"""The life of a message as a line in time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from ...terminal import output

if TYPE_CHECKING:
    from ...operating.life import MessageLife

_PAST, _FUTURE = ("●", "│"), ("○", "┆")
_TIME_CELLS = 24


def timeline(found: MessageLife) -> Iterator[str]:
    """The lines of a drawing: the earliest event first, with the times between; hollow and dashed for future ones. Empty for fewer than two times."""
    if len(found.events) < 2:
        return
    for event in found.events:
        dot, line = _FUTURE if event.is_ahead else _PAST
        if event.since:
            yield f"  {_apart(event.since):>{_TIME_CELLS}}  {line}"
        yield f"  {output.time_text(event.time):>{_TIME_CELLS}}  {dot} {output.printable(event.what)}"


def _apart(time: timedelta) -> str:
    return output.duration_text(timedelta(seconds=time // timedelta(seconds=1)) if time > timedelta(minutes=1) else time)
