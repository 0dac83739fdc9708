"""The life of a message in words and in time, the same in every output. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import NamedTuple

from ...consumers.trace.status import DeliveryState
from ...consumers.trace.trace import GroupTrace, StoredTrace, Trace
from ...coordinator.timers.tracing import DelayState


class LifeEvent(NamedTuple):
    """Something that happened to a message, or is to happen."""

    time: datetime
    what: str
    why: str = ""
    """The reason, as a consumer told it."""


def events_of(found: Trace) -> list[LifeEvent]:
    """What is known to have happened to a message, or to come, the earliest first."""
    return sorted(dict.fromkeys(_events(found)))


def _events(found: Trace) -> Iterator[LifeEvent]:
    transactions = [found.transaction, *(one.transaction for one in found.places)]
    for transaction in transactions:
        if transaction is None:
            continue
        if transaction.begun is not None:
            yield LifeEvent(transaction.begun, f"transaction {transaction.id} was begun")
        if transaction.half is not None:
            yield LifeEvent(transaction.half.born_timestamp, "sent")
        if transaction.next_check is not None:
            yield LifeEvent(transaction.next_check, "a checker is asked about its transaction")
    for one in found.places:
        yield from _of_place(one)
    for delay in (found.gathered, *(one.delay for one in found.places)):
        if delay is not None:
            yield LifeEvent(delay.due, f"due in {delay.topic}")


def _of_place(one: StoredTrace) -> Iterator[LifeEvent]:
    message = one.message
    place = f"{message.topic}, queue {message.queue}, offset {message.offset:,}"
    yield LifeEvent(message.born_timestamp, "sent")
    if one.dead_letter is not None:
        yield LifeEvent(
            message.store_timestamp, f"given up by {one.dead_letter.group}: {place}", one.dead_letter.origin.reason or ""
        )
    elif one.redriven_from is not None:
        yield LifeEvent(message.store_timestamp, f"sent back: {place}")
    else:
        yield LifeEvent(message.store_timestamp, f"stored: {place}")
    for group in one.groups:
        if group.due is not None:
            yield LifeEvent(group.due, f"comes back to {group.group}")


def delivery_state_text(one: GroupTrace) -> str:
    """How a message stands in a consumer group."""
    return _FATES[one.fate](one)


_FATES: dict[DeliveryState, Callable[[GroupTrace], str]] = {
    DeliveryState.FRESH: lambda one: "not handed out yet",
    DeliveryState.IN_FLIGHT: lambda one: "in flight",
    DeliveryState.RECEIVED: lambda one: "received, not acknowledged",
    DeliveryState.WAITING: lambda one: "failed, waits to be run again",
    DeliveryState.SUSPECT: lambda one: "in flight when its worker died, to be run again",
    DeliveryState.BEHIND: lambda one: (
        f"held up by offset {one.behind:,} of its message group" if one.behind is not None else "held up"
    ),
    DeliveryState.PARKED: lambda one: "parked until an operator releases or skips it",
    DeliveryState.GIVEN_UP: lambda one: "given up, its dead letter is being written",
    DeliveryState.DEAD_LETTER: lambda one: f"dead letter {one.dead_letter:,}",
    DeliveryState.SETTLED: lambda one: "settled",
    DeliveryState.LEFT_OUT: lambda one: "left out by the group's filter",
    DeliveryState.PASSED_OVER: lambda one: "before where the group began, or was reset to",
}

DELAYS = {
    DelayState.WAITING: "it waits",
    DelayState.ON_ITS_WAY: "it is on its way into its topic",
    DelayState.RECALLED: "it was called back",
    DelayState.DELIVERED: "it was delivered",
    DelayState.OVER: "its time is over: it was called back before, or delivered, and its topic keeps it no more",
}


def redrive_text(redrive: str) -> str:
    """What became of a dead letter."""
    return {"no": "it was not sent back", "sent": "it was sent back"}.get(redrive, "it is on its way back")


def times_text(count: int) -> str:
    return {0: "never", 1: "once"}.get(count, f"{count:,} times")
