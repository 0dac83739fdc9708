"""The life of a message as a line in time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from ...console import output

if TYPE_CHECKING:
    from ....consumers.trace.trace import StoredTrace, Trace

_PAST, _FUTURE = ("●", "│"), ("○", "┆")
_TIME_CELLS = 24


class Event(NamedTuple):
    """Something that happened to a message, or is to happen."""

    time: datetime
    what: str


def timeline(found: Trace, now: datetime) -> Iterator[str]:
    """The lines of a drawing: the earliest event first, with the time between two; hollow and dashed from ``now`` on.

    None where fewer than two times are known.
    """
    events = sorted(dict.fromkeys(_events(found)))
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


def _events(found: Trace) -> Iterator[Event]:
    transactions = [found.transaction, *(one.transaction for one in found.places)]
    for transaction in transactions:
        if transaction is None:
            continue
        if transaction.begun is not None:
            yield Event(transaction.begun, f"transaction {transaction.id} was begun")
        if transaction.half is not None:
            yield Event(transaction.half.born_timestamp, "sent")
        if transaction.next_check is not None:
            yield Event(transaction.next_check, "a checker is asked about its transaction")
    for one in found.places:
        yield from _of_place(one)
    for delay in (found.gathered, *(one.delay for one in found.places)):
        if delay is not None:
            yield Event(delay.due, f"due in {delay.topic}")


def _of_place(one: StoredTrace) -> Iterator[Event]:
    message = one.message
    place = f"{message.topic}, queue {message.queue}, offset {message.offset:,}"
    yield Event(message.born_timestamp, "sent")
    if one.dead_letter is not None:
        yield Event(message.store_timestamp, f"given up by {one.dead_letter.group}: {place}")
    elif one.redriven_from is not None:
        yield Event(message.store_timestamp, f"sent back: {place}")
    else:
        yield Event(message.store_timestamp, f"stored: {place}")
    for group in one.groups:
        if group.due is not None:
            yield Event(group.due, f"comes back to {group.group}")
