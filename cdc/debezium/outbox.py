"""Records on their way into the topic, as batches in the order of their sequences; and the place in the source's log behind which all is
durable.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from ...log.errors import DataDamaged
from ...log.message.message import SEND_SCHEMA
from ...log.produce.producer import Producer
from ...log.produce.receipts import BatchReceipt
from .records import Record

PENDING_BATCHES_MAX = 8


@dataclass(frozen=True, slots=True)
class _Pending:
    receipt: BatchReceipt | None
    """The batch's receipt; None: it waits only for those before it."""
    offset: str


class RecordOutbox:
    """Sends the records of one life of the engine. What an earlier one has sent is left out."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._there = producer.last_sequence
        self._last = -1
        self._pending: deque[_Pending] = deque()
        self.offset: str | None = None
        """The place in the log before which everything is durable in the topic."""
        self.events = 0
        self.duplicates = 0

    @property
    def waiting(self) -> bool:
        """Whether anything is not durable yet."""
        return bool(self._pending)

    def send(self, records: Sequence[Record], offset: str) -> bool:
        """Send records, which lie before the transaction at ``offset``, or in it. Returns whether any was. Raises `DataDamaged` for one whose
        position is not above the last one's: it could not be told from one that was sent before.
        """
        new = []
        for record in records:
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
                new.append(record)
        self.duplicates += len(records) - len(new)
        receipt = None
        if new:
            while len(self._pending) >= PENDING_BATCHES_MAX:
                self._settle_first()
            receipt = self._producer.send_batch(table_of(new))
            self.events += len(new)
        if receipt is not None or not self._pending or self._pending[-1].offset != offset:
            self._pending.append(_Pending(receipt, offset))
        return receipt is not None

    def settle(self, *, wait: bool = False) -> None:
        """Look which batches are durable by now, or wait until all are. Raises the error of a batch that is not."""
        while self._pending and (wait or self._pending[0].receipt is None or self._pending[0].receipt.done()):
            self._settle_first()

    def _settle_first(self) -> None:
        first = self._pending[0]
        if first.receipt is not None:
            first.receipt.result()
        self._pending.popleft()
        self.offset = first.offset


def table_of(records: Sequence[Record]) -> pa.Table:
    """The batch that a producer takes."""
    columns: dict[str, list[object]] = {
        "message_group": [record.message_group for record in records],
        "tag": [record.tag for record in records],
        "keys": [record.keys for record in records],
        "properties": [[("op", record.op)] for record in records],
        "sequence": [record.sequence for record in records],
        "body": [record.body for record in records],
    }
    return pa.table({name: pa.array(column, SEND_SCHEMA.field(name).type) for name, column in columns.items()})
