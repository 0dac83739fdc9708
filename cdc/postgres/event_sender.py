"""Events on their way into the topic, in batches in the order of positions, and the LSN that may be confirmed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from ...log.produce.producer import Producer
from ..capture.batches import PendingBatches, batch_columns, body_column
from ..capture.send_events import send_events
from .envelopes import EnvelopeMessage
from .positions import base_of, is_between
from .typed_events import TypedEvents

BATCH_EVENTS_MAX = 5000
BATCH_BYTES_MAX = 2 * 1024 * 1024
_ROW_BYTES = 512
"""The assumed size of an event of a topic with a schema."""


class EventSender:
    """Sends through a named producer, without events that any process sent before."""

    def __init__(
        self,
        producer: Producer,
        *,
        whole_from: Callable[[], int | None] = lambda: None,
        heartbeat: Callable[[int], EnvelopeMessage] | None = None,
    ) -> None:
        """``whole_from``: the LSN from which the topic equals the source at transactions' ends, as rows were read from tables
        before it; None: unknown. ``heartbeat`` makes the event for such a place without another event.
        """
        self._whole_from, self._heartbeat = whole_from, heartbeat
        self._producer = producer
        self.typed: TypedEvents | None = None
        self._sent = producer.last_sequence
        self._events: list[EnvelopeMessage] = []
        self._bytes = 0
        self._pending: PendingBatches[int] = PendingBatches(self._note_durable)
        """Each with the LSN to confirm then."""
        self.confirmed_lsn = 0
        """The LSN before which ended transactions are durable."""
        self.events = 0
        self.duplicates = 0

    @property
    def sent(self) -> int:
        return self._sent

    @property
    def gathered(self) -> int:
        return len(self._events)

    @property
    def waiting(self) -> bool:
        return bool(self._pending or self._events)

    @property
    def full(self) -> bool:
        return len(self._events) >= BATCH_EVENTS_MAX or self._bytes >= BATCH_BYTES_MAX

    @property
    def has_full_batch(self) -> bool:
        """Whether enough events are there to send at a transaction's end, so that few batches end amid one."""
        return 2 * len(self._events) >= BATCH_EVENTS_MAX or 2 * self._bytes >= BATCH_BYTES_MAX

    def skip_to(self) -> None:
        """Skip positions of rows sent beside it: read rows lie after the last named place."""
        self._sent = max(self._sent, self._producer.last_sequence)

    def add(self, events: Sequence[EnvelopeMessage]) -> None:
        for event in events:
            if event.position <= self._sent:
                self.duplicates += 1
                continue
            self._events.append(event)
            self._bytes += len(event.body) or _ROW_BYTES

    def send(self, end_lsn: int | None = None) -> None:
        """Send the gathered events as one batch. Raises the errors of `Producer.send_batch`, or of an earlier batch.

        If they complete the transactions before ``end_lsn``, the batch goes through that place's position.
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
        """A place's position, if the topic equals the source there with the gathered events."""
        if end_lsn is None or base_of(end_lsn) < (self._events[-1].position if self._events else self._sent):
            return None
        if not self._events and (self._heartbeat is None or is_between(self._sent)):
            return None
        whole_from = self._whole_from()
        return base_of(end_lsn) if whole_from is not None and whole_from <= end_lsn else None

    def settle(self, *, wait: bool = False) -> None:
        """Check which batches are durable, or wait for all. Raises the error of a batch that is not."""
        if wait:
            self.send()
        self._pending.settle(wait=wait)

    def forget(self) -> None:
        """Drop gathered events, which come again with the new stream."""
        self._events, self._bytes = [], 0
        self.settle(wait=True)

    def _note_durable(self, end_lsn: int) -> None:
        self.confirmed_lsn = max(self.confirmed_lsn, end_lsn)


def table_of(events: Sequence[EnvelopeMessage], typed: TypedEvents | None = None) -> pa.Table:
    columns = batch_columns(events, (event.position for event in events))
    rest = body_column(event.body for event in events) if typed is None else typed.columns(events)
    return pa.table({**columns, **rest})
