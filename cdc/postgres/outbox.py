"""Events on their way into the topic: gathered, and sent as batches in the order of their positions. Also tells what may be confirmed by
now.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from ...log.message.message import SEND_SCHEMA
from ...log.produce.producer import Producer
from ...log.produce.receipts import BatchReceipt
from .envelopes import Event
from .typed import TypedEvents

BATCH_EVENTS_MAX = 5000
BATCH_BYTES_MAX = 2 * 1024 * 1024
PENDING_BATCHES_MAX = 8
_ROW_BYTES = 512
"""The size that an event of a topic with a schema is taken for."""


@dataclass(frozen=True, slots=True)
class _Pending:
    receipt: BatchReceipt | None
    """The batch's receipt; None: it waits only for those before it."""
    end_lsn: int | None
    """The LSN that may be confirmed once it is durable; None: it ends amid a transaction."""


class Outbox:
    """Sends through a named producer. Events sent before, in this process or an earlier one, are left out."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self.typed: TypedEvents | None = None
        """How events become rows, where the topic has a schema."""
        self._sent = producer.last_sequence
        self._events: list[Event] = []
        self._bytes = 0
        self._pending: deque[_Pending] = deque()
        self.confirmed_lsn = 0
        """All transactions that end before this LSN are durable in the topic."""
        self.events = 0
        self.duplicates = 0

    @property
    def sent(self) -> int:
        """The position of the last event that was sent, by any process."""
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

    def add(self, events: Sequence[Event]) -> None:
        """Take events over, in their order."""
        for event in events:
            if event.position <= self._sent:
                self.duplicates += 1
                continue
            self._events.append(event)
            self._bytes += len(event.body) or _ROW_BYTES

    def send(self, end_lsn: int | None = None) -> None:
        """Send the gathered events as one batch. Raises the errors of `Producer.send_batch`, or of an earlier batch."""
        receipt = None
        if self._events:
            while len(self._pending) >= PENDING_BATCHES_MAX:
                self._settle_first()
            receipt = self._producer.send_batch(table_of(self._events, self.typed))
            self._sent = self._events[-1].position
            self.events += len(self._events)
            self._events, self._bytes = [], 0
        if receipt is not None or end_lsn is not None:
            self._pending.append(_Pending(receipt, end_lsn))

    def settle(self, *, wait: bool = False) -> None:
        """Look which batches are durable by now, or wait until all are. Raises the error of a batch that is not."""
        if wait:
            self.send()
        while self._pending and (wait or self._pending[0].receipt is None or self._pending[0].receipt.done()):
            self._settle_first()

    def forget(self) -> None:
        """Drop gathered events, which come again: the stream has ended, and begins anew. Sent events stay sent."""
        self._events, self._bytes = [], 0
        self.settle(wait=True)

    def _settle_first(self) -> None:
        first = self._pending[0]
        if first.receipt is not None:
            first.receipt.result()
        self._pending.popleft()
        if first.end_lsn is not None:
            self.confirmed_lsn = max(self.confirmed_lsn, first.end_lsn)


def table_of(events: Sequence[Event], typed: TypedEvents | None = None) -> pa.Table:
    """The batch of events that a producer takes. ``typed``: its topic has a schema."""
    columns: dict[str, list[object]] = {
        "message_group": [event.message_group for event in events],
        "tag": [event.tag for event in events],
        "keys": [event.keys for event in events],
        "properties": [[("op", event.op)] for event in events],
        "sequence": [event.position for event in events],
    }
    if typed is None:
        columns["body"] = [event.body for event in events]
    made = {name: pa.array(column, SEND_SCHEMA.field(name).type) for name, column in columns.items()}
    return pa.table(made if typed is None else {**made, **typed.columns(events)})
