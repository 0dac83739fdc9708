"""Records on their way into the topic, in batches in the order of sequences, and the durable place in the source's log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ...log.errors import DataDamaged
from ...log.produce.producer import Producer
from .batches import PendingBatches, batch_columns, body_column
from .positions import is_between, is_of_same_snapshot
from .records import ChangeRecord
from .send_events import send_events

HELD_RECORDS_MAX = 2048
HELD_BYTES_MAX = 2 * 1024 * 1024
HELD_S = 2.0


@dataclass(frozen=True, slots=True)
class Boundary:
    """A place in the log between two transactions, after all records before it."""

    offset: str
    number: int
    """Its sequence (`positions.between`)."""


class RecordSender:
    """Sends the records of one life of the engine, except those that an earlier life sent.

    Records of an open transaction are held back for a while, so that a batch can end with it.
    """

    def __init__(
        self, producer: Producer, *, whole_from: int | None = None, heartbeat: Callable[[int], ChangeRecord] | None = None
    ) -> None:
        """``whole_from``: the place from which the topic equals the source between transactions, as rows were read from tables
        before it; None: nowhere. ``heartbeat`` makes the record for such a place without a change.
        """
        self._producer, self._whole_from, self._heartbeat = producer, whole_from, heartbeat
        self._there = self._sent = producer.last_sequence
        self._last = -1
        self._held: list[ChangeRecord] = []
        self._held_bytes = 0
        self._held_since_s = 0.0
        self._pending: PendingBatches[str] = PendingBatches(self._note_durable)
        self.offset: str | None = None
        self.events = 0
        self.duplicates = 0

    @property
    def waiting(self) -> bool:
        return bool(self._pending or self._held)

    def raise_consistent_from(self, number: int) -> None:
        """Note that rows were read from tables as of this place or earlier."""
        if self._whole_from is not None:
            self._whole_from = max(self._whole_from, number)

    def add(self, records: Sequence[ChangeRecord], boundary: Boundary | None, now_s: float) -> bool:
        """Add records, and send those before the boundary, if it is known. Returns whether any was sent. Raises `DataDamaged`
        for a position not above the last one: the record would seem to be sent before.
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
        return bool(self._held) and now_s - self._held_since_s >= HELD_S and self._send(len(self._held))

    def flush(self) -> None:
        self._send(len(self._held))

    def finish(self, number: int) -> None:
        """Send the held records before a place. Later ones are dropped with the sender, and come again."""
        self._send(self._before(number))

    def _before(self, number: int) -> int:
        return next((place for place, record in enumerate(self._held) if record.sequence > number), len(self._held))

    def _send(self, count: int, boundary: Boundary | None = None) -> bool:
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
        """The boundary's number, if the topic equals the source there with so many of the held records."""
        if boundary is None or self._whole_from is None or boundary.number < self._whole_from or boundary.number <= self._sent:
            return None
        if not count and (self._held or not self.lacks_place(boundary)):
            return None
        return boundary.number

    def lacks_place(self, boundary: Boundary) -> bool:
        """Whether a heartbeat has to mark that the topic equals the source, at the next such boundary."""
        is_told = is_between(self._sent) and is_of_same_snapshot(self._sent, boundary.number)
        return self._heartbeat is not None and not is_told

    def settle(self, *, wait: bool = False) -> None:
        """Check which batches are durable, or wait for all. Raises the error of a batch that is not."""
        self._pending.settle(wait=wait)

    def _note_durable(self, offset: str) -> None:
        self.offset = offset


def table_of(records: Sequence[ChangeRecord]) -> pa.Table:
    columns = batch_columns(records, (record.sequence for record in records))
    return pa.table({**columns, **body_column(record.body for record in records)})
