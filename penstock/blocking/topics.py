"""What a topic is written and read with. The work is done on the lake's event-loop thread.

Made by infra/scripts/blocking_face.py (`make face`). Do not edit: change the asynchronous classes, and make it anew. They are in

    penstock.log.produce.producer
    penstock.log.read.reader
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Unpack

import pyarrow as pa

from penstock.log.format.header import Epoch
from penstock.log.limits import Duration, StringList
from penstock.log.message.arrow import ArrowData
from penstock.log.message.message import Message, MessageView, views
from penstock.log.produce.accumulator import ProducerStatistics
from penstock.log.produce.producer import Producer as AsyncProducer
from penstock.log.produce.receipts import BatchReceipt, Receipt
from penstock.log.read.reader import Position, ReadArguments, SkippedRange
from penstock.log.read.reader import Reader as AsyncReader

from .face import ClosableFace, ProducerFace, iterated


class Producer(ProducerFace[AsyncProducer]):
    """Sends to one topic. ``send`` and ``send_batch`` may be called from any thread.

    Messages of one message group are stored in the order of the calls, through retries, lost races and hand-overs. Closing writes
    what was sent.
    """

    @property
    def id(self) -> str:
        """The producer's name, or a random id."""
        return self._core.id

    @property
    def epoch(self) -> Epoch | None:
        """The opening of its name, larger than all earlier ones; None without a name."""
        return self._core.epoch

    @property
    def last_sequence(self) -> int:
        """The last sequence known to be accepted under this name, -1 for none."""
        return self._core.last_sequence

    def statistics(self) -> ProducerStatistics:
        """The counts of this producer so far."""
        return self._core.statistics()

    def send(self, message: Message, *, queue: int | None = None, sequence: int | None = None) -> Receipt:
        """Take a message over and return at once. The receipt resolves when the message is durable.

        ``queue`` replaces the routing. ``sequence``, for named producers, makes the send idempotent across restarts. It must rise; gaps are allowed.
        A message whose sequence was accepted before this opening is a duplicate: acknowledged, but not written.

        Raises `InvalidArgument`, `LimitExceeded`, `MessageTypeMismatch`, `SequenceError` or `BackPressureError`. Once the producer has ended, raises
        `ClosedError`, `FencedError` or `ProducerFailedError`.
        """
        return self._core.send(message, queue=queue, sequence=sequence)

    def send_row(
        self,
        row: object,
        *,
        message_group: str | None = None,
        tag: str | None = None,
        keys: StringList = (),
        properties: Mapping[str, str] | None = None,
        delivery_timestamp: datetime | None = None,
        delay: Duration | None = None,
        queue: int | None = None,
        sequence: int | None = None,
    ) -> Receipt:
        """Send a row of a topic with a schema, as `send` sends ``Message.of(row, …)``: a dict, dataclass, named tuple or pydantic
        model.

        Rows are checked when their batch is formed. One that does not fit makes the receipts of its whole batch raise
        `InvalidArgument`, naming message and field; the producer must then be opened anew. With ``invalid="topic"`` such rows go to
        another topic instead. Lists and dicts of a row must not be changed before the receipt resolves.
        """
        return self._core.send_row(
            row,
            message_group=message_group,
            tag=tag,
            keys=keys,
            properties=properties,
            delivery_timestamp=delivery_timestamp,
            delay=delay,
            queue=queue,
            sequence=sequence,
        )

    def send_batch(self, data: ArrowData | Iterable[object], *, through: int | None = None) -> BatchReceipt:
        """Take rows over as one batch, durable as a whole or not at all.

        Arrow data needs a column ``body`` (binary) and, on FIFO topics, ``message_group`` (string). Optional columns are ``tag``, ``keys`` (list of
        strings), ``properties`` (map of strings), ``queue`` (int32), ``sequence`` (int64), ``key`` (binary), ``headers``, and ``born_timestamp``
        (with a zone, from 1970 to 9999; NULL: now). DELAY topics also need ``delivery_timestamp`` (with a zone). A pandas or Polars DataFrame is
        Arrow data. In a topic with a schema its fields replace ``body``, and rows are taken as well as messages.

        ``through``, a sequence not below the last row's, becomes `last_sequence` with the batch of Arrow data with sequences.

        Raises what `send` raises, before anything is taken over.
        """
        return self._core.send_batch(data, through=through)

    def flush(self) -> None:
        """Return when all that was sent before is durable. Raises its error."""
        self._portal.run(self._core.flush)

    def close(self) -> None:
        """Write what was sent, then stop; closing again does nothing.

        Raises the error of messages that are not durable, unless it was reported before.
        """
        if not self._portal.stopped:
            self._portal.run(self._core.close)


class Reader(ClosableFace[AsyncReader]):
    """Reads a topic's messages without a consumer group: any queue, from any place. ``lake.reader`` makes it."""

    @property
    def queues(self) -> int:
        """The number of the topic's queues."""
        return self._core.queues

    @property
    def left_out(self) -> list[SkippedRange]:
        """The offsets passed over by ``damaged="skip"``, in order."""
        return self._core.left_out

    def read(
        self,
        *,
        queue: int | None = None,
        start: Position = "earliest",
        end: Position = "latest",
        follow: bool = False,
        tags: str | None = None,
        where: str | None = None,
        columns: list[str] | None = None,
        damaged: Literal["raise", "skip"] = "raise",
    ) -> Iterator[pa.RecordBatch]:
        """Read messages as Arrow batches of ``columns`` of `MESSAGE_SCHEMA`, or all; within each queue by offset. A typed topic's also have the
        struct ``value``, or its named fields (``value.amount``). Batches have the schema of the call's time, with ``follow`` later ones as they come.

        ``queue=None`` reads all queues: the table queue by queue, then the log entry by entry. ``start`` is inclusive, ``end`` exclusive. A time
        means the first message stored at or after it; after a silence of more than a day store timestamps lag (docs/0001). ``follow=True`` does not
        end. ``tags`` is a filter such as ``paid || refunded``, ``where`` a condition on properties such as ``price > 10 AND region = 'north'``
        (docs/0012); both must hold.

        Raises `TopicDeleted`; `OffsetOutOfRange` for an offset older than the earliest kept, also when retention overtakes the reading, or beyond the
        next one; `DataDamaged`, naming object and offsets, for unreadable rows, after those before them. ``damaged="skip"`` leaves such rows out, and
        `left_out` has their offsets.
        """
        return iterated(
            self._portal,
            self._core.read(
                queue=queue, start=start, end=end, follow=follow, tags=tags, where=where, columns=columns, damaged=damaged
            ),
        )

    def messages(
        self,
        *,
        queue: int | None = None,
        start: Position = "earliest",
        end: Position = "latest",
        follow: bool = False,
        tags: str | None = None,
        where: str | None = None,
        damaged: Literal["raise", "skip"] = "raise",
    ) -> Iterator[MessageView]:
        """The messages of `read`, one by one."""
        for batch in self.read(queue=queue, start=start, end=end, follow=follow, tags=tags, where=where, damaged=damaged):
            yield from views(self._core.topic, batch)

    def to_arrow(
        self,
        *,
        queue: int | None = None,
        start: Position = "earliest",
        end: Position = "latest",
        tags: str | None = None,
        where: str | None = None,
        columns: list[str] | None = None,
        damaged: Literal["raise", "skip"] = "raise",
    ) -> pa.Table:
        """All rows of `read` as one table, by queue and offset."""
        return self._portal.run(
            lambda: self._core.to_arrow(queue=queue, start=start, end=end, tags=tags, where=where, columns=columns, damaged=damaged)
        )

    def to_pandas(self, **where: Unpack[ReadArguments]) -> Any:
        """All rows of `read` as a pandas DataFrame; ``properties`` is a dict in each row."""
        return self._portal.run(lambda: self._core.to_pandas(**where))

    def to_polars(self, **where: Unpack[ReadArguments]) -> Any:
        """All rows of `read` as a Polars DataFrame. Raises `MissingDependency`."""
        return self._portal.run(lambda: self._core.to_polars(**where))

    def offsets(self) -> dict[int, tuple[int, int]]:
        """The earliest kept offset and the one after the last, by queue."""
        return self._portal.run(self._core.offsets)

    def resolve(self, position: Position, *, queues: Sequence[int] | None = None) -> dict[int, int]:
        """The offset at which reading from a position would begin, by queue. Raises `InvalidArgument` and `OffsetOutOfRange`."""
        return self._portal.run(lambda: self._core.resolve(position, queues=queues))

    def lookup(
        self, *, message_id: str | None = None, key: str | None = None, message_group: str | None = None
    ) -> list[MessageView]:
        """The messages that match all given values, by queue and offset."""
        return self._portal.run(lambda: self._core.lookup(message_id=message_id, key=key, message_group=message_group))

    def lookup_arrow(self, *, message_id: str | None = None, key: str | None = None, message_group: str | None = None) -> pa.Table:
        """The messages of `lookup` as rows with all columns."""
        return self._portal.run(lambda: self._core.lookup_arrow(message_id=message_id, key=key, message_group=message_group))

    def close(self) -> None:
        """Stop following, which ends the iterations."""
        if not self._portal.stopped:
            self._portal.run(self._core.close)
