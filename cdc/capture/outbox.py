"""Records on their way into the topic, as batches in the order of their sequences; and the place in the source's log behind which all is
durable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ...log.errors import DataDamaged
from ...log.produce.producer import Producer
from ..events.row_refusals import send_events
from .batches import PendingBatches, batch_columns, body_column
from .readings import is_between, is_of_same_reading
from .records import ChangeRecord

HELD_RECORDS_MAX = 2048
HELD_BYTES_MAX = 2 * 1024 * 1024
HELD_S = 2.0


@dataclass(frozen=True, slots=True)
class Boundary:
    """A place in the log between two transactions: all before it has come out of the engine."""

    offset: str
    """The connector's own words for it."""
    number: int
    """The sequence that names it (`positions.between`)."""


class RecordOutbox:
    """Sends the records of one life of the engine. What an earlier one has sent is left out.

    The records of a transaction whose end is not known yet are held back for a while, so that a batch can end with it.
    """

    def __init__(
        self, producer: Producer, *, whole_from: int | None = None, heartbeat: Callable[[int], ChangeRecord] | None = None
    ) -> None:
        """``whole_from``: the number of the place from which on the topic equals the source between transactions, for the rows that were read
        from tables are of before; None: it is of no place. ``heartbeat`` makes the record of a place that says so where no change does.
        """
        self._producer, self._whole_from, self._heartbeat = producer, whole_from, heartbeat
        self._there = self._sent = producer.last_sequence
        self._last = -1
        self._held: list[ChangeRecord] = []
        self._held_bytes = 0
        self._held_since_s = 0.0
        self._pending: PendingBatches[str] = PendingBatches(self._note_durable)
        self.offset: str | None = None
        """The place in the log before which everything is durable in the topic."""
        self.events = 0
        self.duplicates = 0

    @property
    def waiting(self) -> bool:
        """Whether anything is not durable yet."""
        return bool(self._pending or self._held)

    def raise_consistent_from(self, number: int) -> None:
        """Note that something was read from tables that is of a place as late as this."""
        if self._whole_from is not None:
            self._whole_from = max(self._whole_from, number)

    def add(self, records: Sequence[ChangeRecord], boundary: Boundary | None, now_s: float) -> bool:
        """Take records over, and send those before the boundary; None: it is not known. Returns whether any was sent. Raises `DataDamaged` for a
        record whose position is not above the last one's: it could not be told from one that was sent before.
        """
        for record in records:
            self._add(record)
        sent = boundary is not None and self._send(self._before(boundary.number), boundary)
        if len(self._held) <= len(records):
            self._held_since_s = now_s
        # A truncate is a transaction of its own, whose end the connector tells with the next one's beginning.
        if len(self._held) >= HELD_RECORDS_MAX or self._held_bytes >= HELD_BYTES_MAX or (self._held and self._held[-1].op == "t"):
            sent = self._send(len(self._held)) or sent
        return sent

    def _add(self, record: ChangeRecord) -> None:
        if record.sequence <= self._last:
            raise DataDamaged(
                "two changes have one position in the binlog, so a change that comes again could not be told",
                operation="capture",
                object=record.table,
                expected="positions that rise",
                observed=f"{record.source.file}, position {record.source.pos}, row {record.source.row or 0}",
                hint="switch binlog_transaction_compression off on the server and in its sessions, then capture into a new topic",
            )
        self._last = record.sequence
        if record.sequence > self._there:
            self._held.append(record)
            self._held_bytes += len(record.body)
        else:
            self.duplicates += 1

    def tick(self, now_s: float) -> bool:
        """Send what was held back for too long. Returns whether there was anything."""
        return bool(self._held) and now_s - self._held_since_s >= HELD_S and self._send(len(self._held))

    def flush(self) -> None:
        """Send all that is held back."""
        self._send(len(self._held))

    def finish(self, number: int) -> None:
        """Send what is held back before a place. What lies behind it is dropped with the outbox, and comes again."""
        self._send(self._before(number))

    def _before(self, number: int) -> int:
        """How many of those held back lie before a place."""
        return next((place for place, record in enumerate(self._held) if record.sequence > number), len(self._held))

    def _send(self, count: int, boundary: Boundary | None = None) -> bool:
        """Send the first of those held back. With a boundary they are all before it."""
        through = self._through(count, boundary)
        if through is not None and not count and self._heartbeat is not None:
            self._held.append(self._heartbeat(through))
            count = 1
        receipt = None
        if count:
            self._pending.make_room()
            sent, self._held = self._held[:count], self._held[count:]
            self._held_bytes = sum(len(record.body) for record in self._held)
            receipt = send_events(self._producer, table_of(sent), through=through)
            self._sent = sent[-1].sequence if through is None else through
            self.events += len(sent)
        offset = None if boundary is None else boundary.offset
        if receipt is not None or (offset is not None and self._pending.last_place != offset):
            self._pending.add(receipt, offset)
        return receipt is not None

    def _through(self, count: int, boundary: Boundary | None) -> int | None:
        """The number of the boundary, if the topic equals the source there once so many of the held records are in it."""
        if boundary is None or self._whole_from is None or boundary.number < self._whole_from or boundary.number <= self._sent:
            return None
        if not count and (self._held or not self.lacks_place(boundary)):
            return None
        return boundary.number

    def lacks_place(self, boundary: Boundary) -> bool:
        """Whether a heartbeat is to say that the topic equals the source, as soon as it does at a boundary like this."""
        is_told = is_between(self._sent) and is_of_same_reading(self._sent, boundary.number)
        return self._heartbeat is not None and not is_told

    def settle(self, *, wait: bool = False) -> None:
        """Look which batches are durable by now, or wait until all are. Raises the error of a batch that is not."""
        self._pending.settle(wait=wait)

    def _note_durable(self, offset: str) -> None:
        self.offset = offset


def table_of(records: Sequence[ChangeRecord]) -> pa.Table:
    """The batch that a producer takes."""
    columns = batch_columns(records, (record.sequence for record in records))
    return pa.table({**columns, **body_column(record.body for record in records)})
