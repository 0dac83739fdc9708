"""What a queue's cell says of one message."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from penstock.coordinator.queues.cell import MessageState, QueueCell


class Where(Enum):
    """The places a message can be in."""

    FRESH = "fresh"
    GRANTED = "granted"
    TRACKED = "tracked"
    """By itself."""
    BEHIND = "behind"
    """The marker of its message group, or at it."""
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Standing:
    """Of one message in one cell."""

    where: Where
    deliveries: int = 0
    strikes: int = 0
    in_flight: bool = False
    alone: bool = False
    """In flight with nothing else in its process: if that dies, it is a strike."""
    parked: bool = False


FRESH = Standing(Where.FRESH)
GRANTED = Standing(Where.GRANTED, 1, 0, in_flight=True)
DONE = Standing(Where.DONE)


def standing(cell: QueueCell, offset: int, group: int) -> Standing:
    """Of the message at ``offset``, whose message group has this hash."""
    if offset not in cell.settled:
        return GRANTED if offset in cell.granted else FRESH
    tries = cell.tries.get(offset)
    if tries is not None:
        running = tries.state is MessageState.RUNNING
        return Standing(Where.TRACKED, tries.attempts, tries.strikes, running, running and tries.company == 1)
    marker = cell.markers.get(group)
    if marker is None or offset < marker.head:
        return DONE
    if offset >= marker.limit:
        return Standing(Where.BEHIND, parked=marker.tries.state is MessageState.PARKED)
    running = marker.tries.state is MessageState.RUNNING
    alone = running and marker.tries.company == 1
    strikes = marker.tries.strikes if offset == marker.head else 0
    return Standing(Where.BEHIND, marker.tries.attempts, strikes, running, alone, marker.tries.state is MessageState.PARKED)
