"""Appends what many idempotent producers sent, in one entry where it fits.

The producers are others' clients: they number what they send, and send again what they have no answer for, perhaps to another process. The fold of
whoever appends decides what counts, so it counts once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

import numpy as np
import pyarrow as pa

from ..append.in_flight import AppendResult, Duplicate, Outcome, PendingAppend
from ..errors import (
    FencedError,
    NotSupported,
    PenstockError,
    RetryError,
    RoutingChanged,
    SequenceError,
    TopicDeleted,
    UnknownOutcome,
)
from ..format.fold import FoldedEntry, VoidReason
from ..format.header import Batch, is_idempotent
from ..format.idempotence import epoch_of, key_of, number_of, within_epoch
from ..limits import IDEMPOTENT_APPEND_MAX_S, IDEMPOTENT_ROW_MS, IDEMPOTENT_ROWS_MAX, Duration, checked_duration
from ..message.arrow import check_arrow
from ..message.batch_rows import MessageIds, rows_of_arrow
from ..message.message_type import MessageType
from ..message.routing import Router
from ..runtime.recent_mapping import RecentMapping
from ..topic.routing import TopicRouter
from ..topic.topics import Topic
from .idempotent_batches import (
    AppendedBatches,
    BatchAnswer,
    BatchStatus,
    BatchTable,
    EncodedBatches,
    IdempotentBatch,
    PlainAnswer,
    check_batches,
    cut,
)

TIMEOUT = timedelta(seconds=30)
_REMEMBERED = 5
"""A producer's last batches whose places are remembered, as many as Kafka's clients have on their way."""

_Key = tuple[str, int]
_Written = tuple[int, int, int, int]
"""First and last number, base offset, store time."""


class IdempotentAppender:
    """Appends for the idempotent producers of one topic. A process should have one a topic, as batches are chained in it.

    What it promises, whatever process a batch is sent to again, within 15 minutes of its producer's last batch to that queue:

    - A batch is in the log once, and the batches of one producer, queue and epoch are there in the order of their sequences.
    - One that is called written or duplicate is in the log; one called out of order, fenced or not written was not written by this call.

    ``base_offset`` of a duplicate is known for the last five batches of each producer and queue that this process has seen. Where the topic was
    deleted, or its log repaired, all ends as not written, with `TopicDeleted`: open another.
    """

    def __init__(self, topic: Topic) -> None:
        """Raises `NotSupported` for topics of type DELAY or TRANSACTION and topics with a schema, `TopicDeleted`, and `ReadOnlyError`."""
        settings = topic.settings
        if settings.schema is not None or settings.message_type in {MessageType.DELAY, MessageType.TRANSACTION}:
            raise NotSupported(
                "idempotent producers cannot send to a topic with a schema, or of this type",
                operation="append",
                object=topic.paths.topic,
                observed="a schema" if settings.schema is not None else settings.message_type,
            )
        if not topic.is_current:
            raise TopicDeleted("the topic was deleted", operation="append", object=topic.paths.topic, hint="open it anew")
        self._topic, self._appender, self._runtime, self._tail = topic, topic.appender, topic.runtime, topic.tail
        queues = settings.queues
        router = Router(queues, settings.routing, first=self._runtime.random.randrange(queues))
        self._router = TopicRouter(router, topic.tail.state.generation)
        self._ids = (self._runtime.random.getrandbits(64), 0)
        self._turns, self._plain_turns = asyncio.Lock(), asyncio.Lock()
        self._id = self._runtime.new_id()
        self._plain = (self._id, -1)
        self._open: dict[_Key, list[PendingAppend]] = {}
        self._written: RecentMapping[_Key, tuple[_Written, ...]] = RecentMapping()
        self._failed: RecentMapping[_Key, tuple[int, float]] = RecentMapping()
        self._tail.fold_listeners.append(self._on_fold)

    def close(self) -> None:
        """Forget what was seen. Appends that are under way end as they would."""
        if self._on_fold in self._tail.fold_listeners:
            self._tail.fold_listeners.remove(self._on_fold)

    async def append(
        self, rows: pa.Table | pa.RecordBatch, batches: Sequence[IdempotentBatch] = (), *, timeout: Duration = TIMEOUT
    ) -> AppendedBatches:
        """Append rows, with the columns of ``send_batch`` but ``sequence``. Returns once it is known what became of all, at the latest after
        ``timeout`` (at most two minutes).

        ``batches`` are runs of the rows, in their order, each of one queue. Rows of none are one more batch. Of one producer and queue a
        batch follows those before it, also those of earlier calls that are still under way; what a cancelled call began goes on.

        Raises `InvalidArgument`, `LimitExceeded` (a batch of more than 8 MiB) or `MessageTypeMismatch` before anything is written.
        """
        wait = checked_duration("timeout", timeout, operation="append", most=timedelta(seconds=IDEMPOTENT_APPEND_MAX_S))
        deadline_s = self._runtime.clock.monotonic_s() + wait.total_seconds()
        check_batches(batches, rows.num_rows)
        async with self._turns:  # calls are begun in their order
            encoded = await self._encode(rows, batches)
            begun = self._begin(batches, encoded, deadline_s)
        plain = None
        if encoded.plain is not None:
            async with self._plain_turns:
                plain = await self._append_plain(encoded, encoded.plain, deadline_s)
                while isinstance(plain.error, RoutingChanged):
                    encoded = await self._encode(rows, batches)
                    assert encoded.plain is not None, "the same rows as before"
                    plain = await self._append_plain(encoded, encoded.plain, deadline_s)
        return AppendedBatches(tuple([await self._answer(one) for one in begun]), plain)

    async def _encode(self, rows: pa.Table | pa.RecordBatch, batches: Sequence[IdempotentBatch]) -> EncodedBatches:
        prefix, number = self._ids
        self._ids = (prefix, number + rows.num_rows)
        now_us = 1000 * self._runtime.clock.wall_ms()
        settings = self._topic.settings
        routed_by = self._router = self._router.followed(self._tail.state)

        def encode() -> EncodedBatches:
            table = check_arrow(rows, settings.message_type, settings.limits, settings.queues)
            ids = MessageIds(prefix, number)
            formed = rows_of_arrow(table, now_us, routed_by.router, producer=self._id, ids=ids)
            return cut(formed, batches, generation=routed_by.generation)

        return await self._runtime.offload(encode, size_bytes=rows.nbytes)

    # --- One producer's batches -------------------------------------------------------------------------------------------------

    def _begin(
        self,
        batches: Sequence[IdempotentBatch],
        encoded: EncodedBatches,
        deadline_s: float,
    ) -> list[PendingAppend]:
        loop = asyncio.get_running_loop()
        begun = []
        for one, table in zip(batches, encoded.batches, strict=True):
            batch = self._formed(one, _queue(table), encoded)
            pending = PendingAppend(deadline_s, loop.create_future(), batch, rows=table.rows, size_bytes=table.size_bytes)
            begun.append(pending)
            if not within_epoch(batch):
                pending.settle(_epoch_full(batch))
                continue
            self._open.setdefault(key_of(batch), []).append(pending)
            pending.future.add_done_callback(partial(self._note_end, pending))
            self._appender.begin([pending])
        return begun

    def _formed(self, one: IdempotentBatch, queue: int, encoded: EncodedBatches) -> Batch:
        key = (one.producer, queue)
        under_way = [batch for batch in map(_batch, self._open.get(key, ())) if epoch_of(batch.last) == one.epoch]
        row = self._tail.state.idempotent.get(key)
        near = max((batch.last for batch in under_way), default=None if row is None else row.last)
        previous = number_of(one.epoch, one.sequence, near)
        # One that is behind others must not be the first that the log knows of its producer; a copy of one under way is behind the same as that.
        is_behind = any(batch.previous < previous for batch in under_way) or self._is_behind_missing(key, previous)
        return Batch(
            producer=one.producer,
            named=False,
            epoch=None,
            previous=previous,
            last=previous + one.count,
            generation=encoded.generation,
            rows={queue: one.count},
            valid_until=0,
            extended=encoded.is_extended,
            begins=not is_behind,
        )

    def _is_behind_missing(self, key: _Key, number: int) -> bool:
        missing = self._missing(key)
        return missing is not None and epoch_of(missing) == epoch_of(number) and missing < number

    def _missing(self, key: _Key) -> int | None:
        """The number of a batch that failed here, where the log knows nothing of its producer: there one behind it would count."""
        found = self._failed.get(key)
        if found is None or key in self._tail.state.idempotent:
            return None
        number, since_s = found
        return number if self._runtime.clock.monotonic_s() - since_s < IDEMPOTENT_ROW_MS / 1000 else None

    def _note_end(self, pending: PendingAppend, _: object) -> None:
        batch = _batch(pending)
        key = key_of(batch)
        left = [one for one in self._open[key] if one is not pending]
        if left:
            self._open[key] = left
        else:
            del self._open[key]
        if not isinstance(pending.future.result(), RetryError | UnknownOutcome):
            return
        missing = self._missing(key)
        if missing is None or epoch_of(missing) != epoch_of(batch.previous) or batch.previous < missing:
            self._failed.use(key, (batch.previous, self._runtime.clock.monotonic_s()))
            _bound(self._failed)

    async def _answer(self, pending: PendingAppend) -> BatchAnswer:
        outcome = await asyncio.shield(pending.future)
        batch = _batch(pending)
        key = key_of(batch)
        if isinstance(outcome, AppendResult):
            base = None if outcome.offsets is None else outcome.offsets[key[1]]
            return BatchAnswer(BatchStatus.WRITTEN, base, outcome.store_time_ms)
        if isinstance(outcome, Duplicate):
            for first, last, base, time_ms in self._written.get(key, ()):
                if (first, last) == (batch.previous, batch.last):
                    return BatchAnswer(BatchStatus.DUPLICATE, base, time_ms)
            return BatchAnswer(BatchStatus.DUPLICATE)
        return BatchAnswer(_status(outcome), error=_error(outcome))

    def _on_fold(self, folded: FoldedEntry, _: bytes) -> None:
        is_mine = folded.state.incarnation == self._topic.record.incarnation
        for batch, verdict in zip(folded.header.batches, folded.verdicts, strict=True):
            if isinstance(verdict, VoidReason) or not is_idempotent(batch) or not is_mine:
                continue
            key = key_of(batch)
            written = (batch.previous, batch.last, verdict[key[1]], folded.store_time_ms)
            self._written.use(key, (*self._written.get(key, ()), written)[-_REMEMBERED:])
        _bound(self._written)

    # --- Rows of nobody in particular -------------------------------------------------------------------------------------------

    async def _append_plain(self, encoded: EncodedBatches, table: BatchTable, deadline_s: float) -> PlainAnswer:
        producer, previous = self._plain
        queues = table.queues.queues
        batch = Batch(
            producer=producer,
            named=False,
            epoch=None,
            previous=previous,
            last=previous + len(queues),
            generation=encoded.generation,
            rows=table.queues.rows,
            valid_until=0,
            extended=encoded.is_extended,
        )
        self._plain = (self._runtime.new_id(), -1)  # what is cancelled or fails may still come, and must not stand in the way
        outcome = await self._appender.append_batch(batch, table.rows, size_bytes=table.size_bytes, deadline_s=deadline_s)
        if not isinstance(outcome, AppendResult):
            return PlainAnswer(_status(outcome), queues, error=_error(outcome))
        self._plain = (producer, batch.last)
        if outcome.offsets is None:
            return PlainAnswer(BatchStatus.WRITTEN, queues, None, outcome.store_time_ms)
        bases = np.zeros(max(outcome.offsets) + 1, np.int64)
        for queue, base in outcome.offsets.items():
            bases[queue] = base
        return PlainAnswer(BatchStatus.WRITTEN, queues, bases[queues] + table.queues.ranks, outcome.store_time_ms)


def _queue(table: BatchTable) -> int:
    return int(table.queues.queues[0])


def _batch(pending: PendingAppend) -> Batch:
    assert pending.batch is not None, "only batches are begun here"
    return pending.batch


def _epoch_full(batch: Batch) -> SequenceError:
    return SequenceError(
        "the epoch has no numbers left",
        operation="append",
        object=f"producer {batch.producer}, epoch {epoch_of(batch.previous)}",
        hint="begin a new producer epoch",
    )


def _status(outcome: Outcome) -> BatchStatus:
    match outcome:
        case SequenceError():
            return BatchStatus.OUT_OF_ORDER
        case FencedError():
            return BatchStatus.FENCED
        case UnknownOutcome():
            return BatchStatus.UNKNOWN
        case _:
            return BatchStatus.NOT_WRITTEN


def _error(outcome: Outcome) -> PenstockError | None:
    return outcome if isinstance(outcome, PenstockError) else None


def _bound(mapping: RecentMapping[_Key, tuple[int, float]] | RecentMapping[_Key, tuple[_Written, ...]]) -> None:
    while len(mapping) > IDEMPOTENT_ROWS_MAX:
        mapping.drop_oldest()
