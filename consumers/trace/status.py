"""The state of one message by a queue's cell, which keeps only messages still to be done."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ...coordinator.queues.cell import MessageState, QueueCell, Tries
from ...coordinator.registry.former_work import FormerWork


class DeliveryState(StrEnum):
    """The state of a message in a consumer group."""

    FRESH = "fresh"
    """The message was not handed out yet."""
    IN_FLIGHT = "in flight"
    """The message is in a handler of the queue's owner, or about to be."""
    RECEIVED = "received"
    """Handed out by ``receive``: invisible until ``due``."""
    WAITING = "waiting"
    """The message failed, and is run again when due."""
    SUSPECT = "suspect"
    """The message was in flight in a worker that died, and is run again in small company."""
    BEHIND = "behind"
    """An earlier message of its message group, at ``behind``, holds it up."""
    FORMER_QUEUE = "waits for a former queue"
    """The message waits for earlier ones in the queue that its message group had before the topic got more."""
    PARKED = "parked"
    """The message used up its attempts, and its message group stands still until an operator acts."""
    GIVEN_UP = "given up"
    """The message becomes a dead letter, not known to be durable."""
    DEAD_LETTER = "dead letter"
    """The message lies in the group's dead-letter queue."""
    SETTLED = "settled"
    """The message is done. The number of its deliveries is not kept."""
    LEFT_OUT = "left out"
    """The group's present filter leaves the message out."""
    UNCOMMITTED = "uncommitted"
    """The message lies behind the committed offset of a group of Kafka's clients: read or not, it is read again after a restart."""
    PASSED_OVER = "passed over"
    """The message lies before the group's beginning or last reset on the queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredStatus:
    """A message in a cell."""

    fate: DeliveryState
    attempts: int | None = None
    """Deliveries so far, the one under way included; None: not kept."""
    failed_attempts: int | None = None
    """The deliveries that failed and count; None: not kept."""
    due_ms: int | None = None
    """WAITING: when it is run again. RECEIVED: when it comes back."""
    behind: int | None = None
    former_queue: int | None = None
    """FORMER_QUEUE: that queue."""


_OF_STATES = {
    MessageState.WAITING: DeliveryState.WAITING,
    MessageState.RUNNING: DeliveryState.IN_FLIGHT,
    MessageState.OUT: DeliveryState.RECEIVED,
    MessageState.SUSPECT: DeliveryState.SUSPECT,
    MessageState.PARKED: DeliveryState.PARKED,
}


def status_of(cell: QueueCell, offset: int, *, lane: int, begun_at: int, passes: bool) -> StoredStatus:
    """``lane`` is the hash of the message group, ``begun_at`` the group's first offset."""
    if offset in cell.dead_letters.own:
        return StoredStatus(fate=DeliveryState.GIVEN_UP)
    if (tries := cell.tries.get(offset)) is not None:
        return _tried(tries)
    if offset in cell.granted:
        return StoredStatus(fate=DeliveryState.IN_FLIGHT, attempts=1, failed_attempts=0)
    if not passes:
        return StoredStatus(fate=DeliveryState.LEFT_OUT)
    marker = cell.markers.get(lane)
    if marker is not None and offset >= marker.head:
        out = marker.tries.state in (MessageState.RUNNING, MessageState.OUT) and offset < marker.limit
        if offset == marker.head or out:
            found = _tried(marker.tries)
            return found if offset == marker.head else StoredStatus(fate=found.fate, attempts=found.attempts, due_ms=found.due_ms)
        return StoredStatus(
            fate=DeliveryState.BEHIND, attempts=marker.tries.attempts if offset < marker.limit else 0, behind=marker.head
        )
    if offset not in cell.settled:
        return StoredStatus(fate=DeliveryState.FRESH, attempts=0, failed_attempts=0)
    return StoredStatus(fate=DeliveryState.PASSED_OVER if offset < begun_at else DeliveryState.SETTLED)


def after_former_queues(found: StoredStatus, left: FormerWork, *, lane: int) -> StoredStatus:
    """The status where that much is left to be done in former queues first."""
    queue = left.blocked.get(lane) if left.queue is None else left.queue
    if queue is None or found.fate not in (DeliveryState.FRESH, DeliveryState.WAITING, DeliveryState.BEHIND):
        return found
    return StoredStatus(fate=DeliveryState.FORMER_QUEUE, attempts=0, failed_attempts=0, former_queue=queue)


def committed_status(cell: QueueCell, offset: int) -> StoredStatus:
    """The same in a group of Kafka's clients, whose cell has a committed offset and nothing of single messages."""
    return StoredStatus(fate=DeliveryState.SETTLED if offset in cell.settled else DeliveryState.UNCOMMITTED)


def _tried(tries: Tries) -> StoredStatus:
    due_ms = tries.due_ms if tries.state in (MessageState.WAITING, MessageState.OUT) else None
    return StoredStatus(fate=_OF_STATES[tries.state], attempts=tries.attempts, failed_attempts=tries.strikes, due_ms=due_ms)
