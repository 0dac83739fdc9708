"""Events on their way into the topic: gathered, and sent as batches in the order of their positions. Also tells what may be confirmed by
now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from ...log.produce.producer import Producer
from ..capture.batches import PendingBatches, batch_columns, body_column
from ..events.row_refusals import send_events
from .envelopes import EnvelopeMessage
from .positions import base_of, is_between
from .typed_events import TypedEvents

BATCH_EVENTS_MAX = 5000
BATCH_BYTES_MAX = 2 * 1024 * 1024
_ROW_BYTES = 512
"""The size that an event of a topic with a schema is taken for."""


class Outbox:
    """Sends through a named producer. Events sent before, in this process or an earlier one, are left out."""

    def __init__(
        self,
        producer: Producer,
        *,
        whole_from: Callable[[], int | None] = lambda: None,
        heartbeat: Callable[[int], EnvelopeMessage] | None = None,
    ) -> None:
        """``whole_from``: the LSN that transactions have to reach so that the topic equals the source at their end, for the rows that were read
        from tables are of that time; None: nothing is known yet. ``heartbeat`` makes the event of a position that says so where no other
        event does.
        """
        self._whole_from, self._heartbeat = whole_from, heartbeat
        self._producer = producer
        self.typed: TypedEvents | None = None
        """How events become rows, where the topic has a schema."""
        self._sent = producer.last_sequence
        self._events: list[EnvelopeMessage] = []
        self._bytes = 0
        self._pending: PendingBatches[int] = PendingBatches(self._note_durable)
        """Each with the LSN that may be confirmed then."""
        self.confirmed_lsn = 0
        """All transactions that end before this LSN are durable in the topic."""
        self.events = 0
        self.duplicates = 0

    @property
    def sent(self) -> int:
        """The position up to which all was sent, by any process."""
        return self._sent

    @property
    def gathered(self) -> int:
        """The number of events that were not sent yet."""
        return len(self._events)

    @property
    def waiting(self) -> bool:
        """Whether anything is not durable yet."""
        return bool(self._pending or self._events)

    @property
    def full(self) -> bool:
        """Whether enough events have gathered to be sent."""
        return len(self._events) >= BATCH_EVENTS_MAX or self._bytes >= BATCH_BYTES_MAX

    @property
    def has_full_batch(self) -> bool:
        """Whether enough events have gathered to be sent at the end of a transaction, so that few batches end amid one."""
        return 2 * len(self._events) >= BATCH_EVENTS_MAX or 2 * self._bytes >= BATCH_BYTES_MAX

    def skip_to(self) -> None:
        """Take note of what was sent beside it: rows that tables were read for lie behind the last place that was named."""
        self._sent = max(self._sent, self._producer.last_sequence)

    def add(self, events: Sequence[EnvelopeMessage]) -> None:
        """Take events over, in their order."""
        for event in events:
            if event.position <= self._sent:
                self.duplicates += 1
                continue
            self._events.append(event)
            self._bytes += len(event.body) or _ROW_BYTES

    def send(self, end_lsn: int | None = None) -> None:
        """Send the gathered events as one batch. Raises the errors of `Producer.send_batch`, or of an earlier batch.

        If they are all of the transactions that end before ``end_lsn``, the batch goes through the position of that place.
        """
        receipt = None
        through = self._through(end_lsn)
        if through is not None and not self._events and self._heartbeat is not None:
            self._events.append(self._heartbeat(through))
        if self._events:
            self._pending.make_room()
            receipt = send_events(self._producer, table_of(self._events, self.typed), through=through)
            self._sent = self._events[-1].position if through is None else through
            self.events += len(self._events)
            self._events, self._bytes = [], 0
        if receipt is not None or end_lsn is not None:
            self._pending.add(receipt, end_lsn)

    def _through(self, end_lsn: int | None) -> int | None:
        """The position of a place in the log, if the topic equals the source there once the gathered events are in it."""
        if end_lsn is None or base_of(end_lsn) < (self._events[-1].position if self._events else self._sent):
            return None
        if not self._events and (self._heartbeat is None or is_between(self._sent)):
            return None
        whole_from = self._whole_from()
        return base_of(end_lsn) if whole_from is not None and whole_from <= end_lsn else None

    def settle(self, *, wait: bool = False) -> None:
        """Look which batches are durable by now, or wait until all are. Raises the error of a batch that is not."""
        if wait:
            self.send()
        self._pending.settle(wait=wait)

    def forget(self) -> None:
        """Drop gathered events, which come again: the stream has ended, and begins anew. Sent events stay sent."""
        self._events, self._bytes = [], 0
        self.settle(wait=True)

    def _note_durable(self, end_lsn: int) -> None:
        self.confirmed_lsn = max(self.confirmed_lsn, end_lsn)


def table_of(events: Sequence[EnvelopeMessage], typed: TypedEvents | None = None) -> pa.Table:
    """The batch of events that a producer takes. ``typed``: its topic has a schema."""
    columns = batch_columns(events, (event.position for event in events))
    rest = body_column(event.body for event in events) if typed is None else typed.columns(events)
    return pa.table({**columns, **rest})
