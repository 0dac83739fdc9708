"""What settles messages of a queue by receipt handle, and becomes one change of its cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from ...coordinator.cells.requests import Request, Waiter
from ...coordinator.queues.cell import MessageState, QueueCell
from ...coordinator.queues.invisibility import Acknowledgement, ExpiredDelivery, Expiry, acknowledged_all, without_caught_up
from ...coordinator.queues.keeper import OwnershipLost
from ...coordinator.queues.receipt_handle import DeadLettersWait, ReceiptHandle, ReceiptRefused
from ...coordinator.queues.remote_acks import UncertainWrite


class SettlingLost(OwnershipLost):
    """The queue was lost before it was known whether an acknowledgement is durable."""

    kind = "settling_lost"
    tried: UncertainWrite | None = None


@dataclass(slots=True, kw_only=True)
class Acknowledging(Waiter[Mapping[int, ReceiptRefused]]):
    """Acknowledgements of one call. Its result: the refusals by place."""

    acks: Sequence[Acknowledgement]
    refusals: dict[int, ReceiptRefused] = field(default_factory=dict)
    tried: UncertainWrite | None = None

    @property
    def handles(self) -> list[ReceiptHandle]:
        return [ack.handle for ack in self.acks]

    def end(self) -> None:
        self.settle(self.refusals)


@dataclass(slots=True, kw_only=True)
class Settling(Request[QueueCell, None]):
    """Another change that settles messages, or makes them visible."""

    handles: Sequence[ReceiptHandle]
    tried: UncertainWrite | None = None

    def apply(self, cell: QueueCell) -> QueueCell:
        self.refusal = None
        try:
            return self.change(cell)
        except (ReceiptRefused, DeadLettersWait) as refusal:
            self.refusal = refusal
            return cell

    def end(self) -> None:
        self.settle(None)


class QueueSettlement(Struct, eq=False):
    """The change of the cell by all that settles since the last write, in order."""

    write: int
    settling: Sequence[Acknowledging | Settling]
    expire: Callable[[QueueCell], Expiry] | None = None
    """None: nothing is due."""
    caught_up: set[int] = set()
    """Lanes without more messages, as the write's plan leaves them."""
    lapses: tuple[ExpiredDelivery, ...] = ()
    refused: list[ExpiredDelivery] = []
    accepts: bool = False
    """Whether anything was carried out, at the last `apply`."""
    _base: QueueCell | None = None
    _after: QueueCell | None = None

    def apply(self, cell: QueueCell) -> QueueCell:
        if cell is not self._base or self._after is None:  # whether it does anything is asked before, mostly of the same cell
            self._base, self._after = cell, self._applied(cell)
        return without_caught_up(self._after, self.caught_up) if self.caught_up else self._after

    def _applied(self, cell: QueueCell) -> QueueCell:
        before, self.refused, self.accepts = cell, [], False
        together: list[Acknowledging] = []
        for one in self.settling:
            if isinstance(one, Acknowledging):
                together.append(one)
                continue
            cell, together = _acknowledge(cell, together), []
            after = one.apply(cell)
            self.accepts = self.accepts or one.refusal is None
            self.refused += _refused(cell, after, one.handles)
            cell = after
        cell = _acknowledge(cell, together)
        if cell is not before:
            self.accepts = True
            cell = cell.with_ack(self.write)
        if self.expire is not None:
            expiry = self.expire(cell)
            cell, self.lapses = expiry.cell, expiry.lapses
        return cell


def _acknowledge(cell: QueueCell, together: Sequence[Acknowledging]) -> QueueCell:
    if not together:
        return cell
    after, refusals = acknowledged_all(cell, [ack for one in together for ack in one.acks])
    first = 0
    for one in together:
        limit = first + len(one.acks)
        one.refusals = {place - first: refusal for place, refusal in refusals.items() if first <= place < limit} if refusals else {}
        first = limit
    return after


def _refused(before: QueueCell, after: QueueCell, handles: Sequence[ReceiptHandle]) -> Iterator[ExpiredDelivery]:
    for handle in handles:
        marker = None if handle.lane is None else after.markers.get(handle.lane)
        if after.dead_letters.next_sequence > before.dead_letters.next_sequence:
            yield ExpiredDelivery(handle.offset, handle.attempt, given_up=True)
        elif marker is not None and marker.tries.state is MessageState.PARKED and after is not before:
            yield ExpiredDelivery(handle.offset, handle.attempt, parked=True)
