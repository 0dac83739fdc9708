"""Messages that a transaction settles. The write of their queue's cell decides the transaction. Pure.

One write settles all of them and adds the transaction's id. With the id in the cell the transaction is committed. Without it, once a handle can never
settle its message again, it never will be. Otherwise it is open until the deliveries end.

Ids leave the cell once the transaction's row is committed. So the row is asked first, and the cell's verdict only goes into an undecided row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from msgspec.structs import replace

from ....log.errors import InvalidArgument, LimitExceeded
from ...queues.cell import Marker, MessageState, QueueCell, Tries
from ...queues.invisibility import acknowledged
from ...queues.receipt_handle import AlreadySettled, ReceiptAhead, ReceiptHandle, ReceiptOutdated, ReceiptRefused

ACKED_MAX = 256
"""The messages that one transaction settles: eight usual receives, some 3 KiB."""
UNNOTED_MAX = 512
"""The transactions in a queue's cell. Only crashes leave any there."""


class SettledElsewhere(ReceiptRefused):
    """A message to be settled was settled by another, or given up."""

    kind = "settled_elsewhere"


class TooManyUnnoted(ReceiptRefused):
    """The queue's cell has no room: dead processes' transactions were not finished."""

    kind = "too_many_unnoted"


@dataclass(frozen=True, slots=True)
class AckedDelivery:
    """One delivery of one message."""

    offset: int
    attempt: int
    lane: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Acks:
    """The messages that a transaction settles, all of one queue of one consumer group."""

    group: str
    topic: str
    queue: int
    generation: int
    acked: tuple[AckedDelivery, ...]
    """Sorted by offset."""


class Verdict(Enum):
    """A cell's verdict on a transaction."""

    COMMITTED = "committed"
    LOST = "lost"
    OPEN = "open"


def acks_of(handles: Sequence[ReceiptHandle]) -> Acks:
    """Raises `InvalidArgument` unless the handles are of one queue, and `LimitExceeded`."""
    first = handles[0]
    for handle in handles:
        if (handle.group, handle.topic, handle.queue) != (first.group, first.topic, first.queue):
            raise InvalidArgument(
                "one transaction settles messages of one queue: their cell is where it is decided",
                operation="ack in a transaction",
                expected=f"messages of {first.topic}, queue {first.queue}, received by group {first.group}",
                observed=f"one of {handle.topic}, queue {handle.queue}, received by group {handle.group}",
                hint="begin a transaction for each queue",
            )
        if handle.generation != first.generation:
            raise ReceiptOutdated(
                "the consumer group's offsets were reset between two of the messages that the transaction is to settle",
                operation="ack in a transaction",
                object=min(handle, first, key=lambda one: one.generation).where,
                hint="roll back: what is behind the new position is handed out again",
            )
    if len(handles) > ACKED_MAX:
        raise LimitExceeded(
            "too many messages for one transaction to settle",
            operation="ack in a transaction",
            expected=f"at most {ACKED_MAX}",
            observed=len(handles),
        )
    return Acks(
        group=first.group,
        topic=first.topic,
        queue=first.queue,
        generation=first.generation,
        acked=tuple(AckedDelivery(handle.offset, handle.attempt, handle.lane) for handle in in_order(handles)),
    )


def in_order(handles: Iterable[ReceiptHandle]) -> list[ReceiptHandle]:
    """The distinct handles by offset."""
    return sorted(set(handles), key=lambda handle: (handle.offset, handle.attempt))


def settled_by(cell: QueueCell, transaction: str, handles: Sequence[ReceiptHandle], *, now_ms: int) -> QueueCell:
    """The cell with these messages settled and the transaction committed, the same if it was before. Raises as `acknowledged`, `TooManyUnnoted`, and
    `SettledElsewhere`.
    """
    if transaction in cell.transactions:
        return cell
    if len(cell.transactions) >= UNNOTED_MAX:
        raise TooManyUnnoted(
            "too many transactions of dead processes wait to be finished, and the queue's cell has no room for one more",
            operation="commit a transaction",
            expected=f"at most {UNNOTED_MAX}",
            observed=len(cell.transactions),
            hint="keep a process open that maintains the lake, or run: penstock maintain",
        )
    for handle in in_order(handles):
        try:
            cell = acknowledged(cell, handle, now_ms=now_ms)
        except AlreadySettled as settled:
            raise SettledElsewhere(
                "a message that the transaction was to settle was settled before, or given up",
                operation="commit a transaction",
                object=handle.where,
                hint="nothing of the transaction counts; settle a message once",
            ) from settled
    return cell.with_transaction(transaction)


def verdict(cell: QueueCell | None, transaction: str, acks: Acks) -> Verdict:
    """LOST is final, and COMMITTED until the id is removed."""
    if cell is None:
        return Verdict.OPEN  # nobody removes such a cell, so a missing one decides nothing
    if transaction in cell.transactions:
        return Verdict.COMMITTED
    return Verdict.OPEN if all(can_be_settled(cell, acks, one) for one in acks.acked) else Verdict.LOST


def can_be_settled(cell: QueueCell, acks: Acks, one: AckedDelivery) -> bool:
    """Whether the delivery is the current one, whatever its time."""
    handle = ReceiptHandle(
        group=acks.group,
        topic=acks.topic,
        queue=acks.queue,
        offset=one.offset,
        generation=acks.generation,
        attempt=one.attempt,
        lane=one.lane,
    )
    try:
        acknowledged(cell, handle, now_ms=0)
    except ReceiptAhead:
        return True  # it can be settled once the messages before it are
    except ReceiptRefused:
        return False
    return True


def ended(cell: QueueCell, acks: Acks, *, now_ms: int | None) -> QueueCell:
    """The cell without the deliveries due by ``now_ms`` (None: all), whose messages are handed out again without a strike. The transaction can then
    never be committed. For queues without an owner.
    """
    if cell.generation != acks.generation:
        return cell
    for one in acks.acked:
        if one.lane is None:
            tries = cell.tries.get(one.offset)
            if tries is not None and _ends(tries, one, now_ms):
                cell = cell.with_tries(one.offset, _waiting(tries))
        else:
            marker = cell.markers.get(one.lane)
            if marker is not None and _is_among(marker, one) and _ends(marker.tries, one, now_ms):
                cell = cell.with_marker(one.lane, replace(marker, tries=_waiting(marker.tries)))
    return cell


def _is_among(marker: Marker, one: AckedDelivery) -> bool:
    return marker.head <= one.offset < marker.limit


def _ends(tries: Tries, one: AckedDelivery, now_ms: int | None) -> bool:
    is_due = now_ms is None or tries.due_ms <= now_ms
    return tries.state is MessageState.OUT and tries.attempts == one.attempt and is_due


def _waiting(tries: Tries) -> Tries:
    return Tries(MessageState.WAITING, tries.attempts, tries.strikes)
