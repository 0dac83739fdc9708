"""Sends messages: they gather in memory and are appended batch by batch, one on its way at a time.

After a batch failed, or its outcome is unknown, everything behind it fails too: nothing overtakes it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow as pa

from ..append.appender import Appender
from ..append.in_flight import AppendResult, Outcome
from ..errors import (
    CallError,
    ClosedError,
    InvalidArgument,
    PenstockError,
    RoutingChanged,
    SequenceError,
    StoreUnavailable,
    UnknownOutcome,
    unforeseen,
)
from ..format.header import Batch, Epoch
from ..limits import HANDED_BYTES_MAX, Duration, StringList, shown
from ..message.arrow import ArrowData, check_arrow, check_rising, columns_of
from ..message.batch_rows import BatchQueues, BatchRows
from ..message.few_rows import FewRows
from ..message.message import COPY_SCHEMA, VALUE, Message, check_message, check_no_ids, checked_each, frozen, labels_bytes
from ..message.routing import Router, check_queue
from ..paths import TopicPaths, is_timer_log
from ..runtime.runtime import Runtime
from ..runtime.turns import runs_here, until_still
from ..schema.topic_schema import with_stored_names
from ..schema.value_json import value_of_json
from ..schema.values import convert
from ..stage.jobs import stage
from ..stores.protocol import ObjectStore
from ..topic.routing import TopicRouter
from ..topic.topics import Topic
from .accumulator import (
    MESSAGE_OVERHEAD_BYTES,
    Accumulator,
    BatchBuilder,
    ProducerOptions,
    ProducerStatistics,
    Sequences,
    linger_s,
    tell,
)
from .delays import Delays
from .receipts import BatchReceipt, Receipt, SendBatchResult, SettledBatch, receipt_of
from .row_encoding import BatchEncoder
from .typed_rows import (
    RowRules,
    TypedRows,
    check_content,
    given_rows,
    refusal,
    rows_of_columns,
    rows_of_converted,
)

_CHECKED_GROUPS_MAX = 100_000
_STAGE_AGAIN_S = 0.5


class Producer:
    """Sends to one topic. ``send`` and ``send_batch`` may be called from any thread.

    Messages of one message group are stored in the order of the calls, through retries, lost races and hand-overs. Closing writes
    what was sent.
    """

    id: str
    """The producer's name, or a random id."""
    epoch: Epoch | None
    """The opening of its name, larger than all earlier ones; None without a name."""

    def __init__(
        self,
        *,
        store: ObjectStore,
        topic: str,
        paths: TopicPaths,
        runtime: Runtime,
        appender: Appender,
        generation: int,
        id: str,
        epoch: Epoch | None,
        last_sequence: int,
        options: ProducerOptions,
        served: Topic,
        invalid: Producer | None = None,
    ) -> None:
        """``served`` is the messages' topic: not the log's where they wait in a timer log."""
        self._store, self._paths, self._runtime = store, paths, runtime
        settings = self._settings = served.settings
        self.topic = topic
        self._delays = Delays(topic, settings.limits, runtime.clock) if is_timer_log(paths.topic) else None
        self._appender, self.epoch, self._options = appender, epoch, options
        self.id = id
        queues = 1 if self._delays else settings.queues
        router = Router(queues, settings.routing, first=runtime.random.randrange(queues))
        self._now_s = runtime.clock.monotonic_s
        self._sequences = Sequences(last_sequence, named=epoch is not None)
        self._accepted = self._accepted_at_opening = last_sequence
        self._unsequenced = self._is_behind = False
        self._checked_groups: set[str | None] = set()
        self._durable, self._last_count, self._flushes = (0, 0), 0, 0
        self._on_its_way: BatchBuilder | None = None
        self._failed: BatchBuilder | None = None
        self._room = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._wakeup = asyncio.Event()
        self._body_bytes_max = settings.limits.max_body_bytes
        self._invalid = invalid
        self._former = BatchEncoder(
            runtime,
            served,
            TopicRouter(router, generation),
            producer=id,
            ignore_extra=options.extra == "ignore",
            invalid=invalid,
            to_timer_log=self._delays is not None,
        )
        self._is_typed = self._former.is_typed
        self._derives_group = settings.message_group is not None
        self._accumulator = Accumulator(
            options,
            id_prefix=runtime.random.getrandbits(64),
            loop_thread=threading.get_ident(),
            now_s=runtime.clock.monotonic_s,
            wake=self._wake,
            contents=self._former.gather,
        )
        self._duplicates = BatchBuilder(2**64, 0.0, self._accumulator.id_prefix)
        self._duplicates.settle(SettledBatch(AppendResult(0, 0, {}), BatchQueues(np.empty(0, np.int32))))
        self._task = asyncio.ensure_future(self._run())

    def __repr__(self) -> str:
        state = "failed" if self._accumulator.failure is not None else "closed" if self._accumulator.closed else ""
        return shown(self, f"of {self.topic}", f"name {self.id}" if self.epoch is not None else "", state)

    @property
    def last_sequence(self) -> int:
        """The last sequence known to be accepted under this name, -1 for none."""
        return self._accepted

    @property
    def closed(self) -> bool:
        return self._accumulator.closed and self._task.done()

    def statistics(self) -> ProducerStatistics:
        """The counts of this producer so far."""
        return ProducerStatistics(*self._durable, self._accumulator.size_bytes, self._accumulator.failure is not None)

    def send(self, message: Message, *, queue: int | None = None, sequence: int | None = None) -> Receipt:
        """Take a message over and return at once. The receipt resolves when the message is durable.

        ``queue`` replaces the routing. ``sequence``, for named producers, makes the send idempotent across restarts. It must rise; gaps are allowed.
        A message whose sequence was accepted before this opening is a duplicate: acknowledged, but not written.

        Raises `InvalidArgument`, `LimitExceeded`, `MessageTypeMismatch`, `SequenceError` or `BackPressureError`. Once the producer has ended, raises
        `ClosedError`, `FencedError` or `ProducerFailedError`.
        """
        # Half of the cost of a message is spent here, so the steps are written out: no calls that can be spared.
        size_bytes = 0
        if message.__class__ is Message:
            body, group, tag, keys, properties, due, delay, key, headers, value, identity = message
            bare = tag is None and not keys and not properties and due is None and delay is None
            if bare and body.__class__ is bytes and key is None and not headers and value is None and identity is None:
                try:
                    known = group in self._checked_groups
                except TypeError:
                    known = False  # not even hashable
                if known and len(body) <= self._body_bytes_max:
                    size_bytes = MESSAGE_OVERHEAD_BYTES + len(body)
        if size_bytes:
            return self._take(message[0], message[1], None, size_bytes, queue, sequence)
        message, size_bytes = self._checked(message, queue)
        content = message.value if self._is_typed else message.body
        return self._take(content, message.message_group, message, size_bytes, queue if self._delays is None else None, sequence)

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
        bare = tag is None and not keys and not properties and delivery_timestamp is None and delay is None
        known = (message_group is None or message_group.__class__ is str) and message_group in self._checked_groups
        if bare and known and self._is_typed and row is not None and self._delays is None:
            size_bytes = MESSAGE_OVERHEAD_BYTES + int(self._former.row_bytes)
            return self._take(row, message_group, None, size_bytes, queue, sequence)
        message = _message_of(row)._replace(
            message_group=message_group,
            tag=tag,
            keys=keys,
            properties=properties or {},
            delivery_timestamp=delivery_timestamp,
            delay=delay,
        )
        return self.send(message, queue=queue, sequence=sequence)

    def _take(
        self, content: object, group: str | None, message: Message | None, size_bytes: int, queue: int | None, sequence: int | None
    ) -> Receipt:
        if queue is not None:
            check_queue(queue, self._former.queues, self.topic)
        accumulator = self._accumulator
        with accumulator.lock:
            if accumulator.size_bytes >= accumulator.room_bytes:
                accumulator.await_room()
            if not (sequence is None and self._unsequenced) and self._is_duplicate(sequence):
                return receipt_of(self._duplicates, -1)
            builder = accumulator.open or accumulator.open_builder()
            index = len(builder.groups)
            size_before, sequence_before = builder.size_bytes, builder.last_sequence
            try:
                if queue is not None:
                    builder.queues[index] = queue
                if message is not None:
                    builder.labelled[index] = message
                    if message.message_id is not None:
                        builder.given_ids[index] = message.message_id
                builder.last_sequence = sequence
                if sequence is not None and self._invalid is not None:
                    builder.sequences.append(sequence)
                builder.contents.append(content)
                builder.groups.append(group)
                builder.born_s.append(self._now_s())
                builder.size_bytes += size_bytes
                accumulator.size_bytes += size_bytes
                if builder.size_bytes >= builder.notice_bytes:
                    accumulator.notice(builder)
            except BaseException:
                accumulator.cut(builder, index, size_before, sequence_before)
                raise
        receipt = _new(Receipt)  # `receipt_of`, without the call
        receipt.batch = builder
        receipt.index = index
        return receipt

    def send_batch(self, data: ArrowData | Iterable[object], *, through: int | None = None) -> BatchReceipt:
        """Take rows over as one batch, durable as a whole or not at all.

        Arrow data needs a column ``body`` (binary) and, on FIFO topics, ``message_group`` (string). Optional columns are ``tag``, ``keys`` (list of
        strings), ``properties`` (map of strings), ``queue`` (int32), ``sequence`` (int64), ``key`` (binary), ``headers``, and ``born_timestamp``
        (with a zone, from 1970 to 9999; NULL: now). DELAY topics also need ``delivery_timestamp`` (with a zone). A pandas or Polars DataFrame is
        Arrow data. In a topic with a schema its fields replace ``body``, and rows are taken as well as messages.

        ``through``, a sequence not below the last row's, becomes `last_sequence` with the batch of Arrow data with sequences.

        Raises what `send` raises, before anything is taken over.
        """
        given = columns_of(data)
        if self._is_typed:
            return self._send_typed(given, through)
        if isinstance(given, pa.Table | pa.RecordBatch):
            table = check_arrow(given, self._settings.message_type, self._settings.limits, self._former.queues)
            return self._send_table(table if self._delays is None else self._delays.timed_table(table), through=through)
        if not isinstance(given, Iterable) or through is not None:
            raise InvalidArgument("send_batch takes Arrow data or messages", operation="send_batch", observed=type(data).__name__)
        checked = list(checked_each(given, self._checked))
        return self._send_builder(
            BatchBuilder.of([message for message, _ in checked]), sum(size_bytes for _, size_bytes in checked), duplicates=0
        )

    async def send_copies(self, rows: pa.Table, *, by_stored_names: bool = False) -> SendBatchResult:
        """Send another topic's messages, with the columns of `COPY_SCHEMA`: under their own ids, with sequences. Returns once they are durable.

        For dead letters, redrives and due messages: limits and message type are not checked. Where the topic is of type DELAY, the producer must have
        been opened with ``copies``. In a topic with a schema the bodies are rows as JSON, with present or former names, or ``by_stored_names``.
        Raises `InvalidArgument` for JSON that is no row of the topic.
        """
        rows = rows.select(COPY_SCHEMA.names).cast(COPY_SCHEMA)
        if not self._is_typed:
            return await self._send_table(rows)
        try:
            table, typed = self._typed_copies(rows, by_stored_names=by_stored_names)
        except InvalidArgument:  # a later version of the schema may have what they have
            await self._former.read_on()
            table, typed = self._typed_copies(rows, by_stored_names=by_stored_names)
        return await self._send_table(table, typed)

    def _typed_copies(self, rows: pa.Table, *, by_stored_names: bool) -> tuple[pa.Table, TypedRows]:
        rules = self._former.rules
        named = with_stored_names(rules.schema) if by_stored_names else rules.schema
        texts = rows["body"].to_pylist()
        contents = [None if text is None else value_of_json(text.decode(), named) for text in texts]
        converted = convert(contents, named)
        if converted.bad:
            raise refusal(converted.bad, topic=self.topic, count=rows.num_rows)
        value = converted.value
        rows = rows.set_column(rows.schema.get_field_index("body"), "body", pa.nulls(rows.num_rows, pa.binary()))
        table = rows.append_column(VALUE, value)
        return table, TypedRows(table, rules.schema.version, {})

    def _send_typed(self, data: object, through: int | None) -> BatchReceipt:
        sent: pa.Table | list[Message]
        if isinstance(data, pa.Table | pa.RecordBatch):
            sent = data if isinstance(data, pa.Table) else pa.Table.from_batches([data])
        elif isinstance(data, Iterable):
            given = [one if isinstance(one, Message) else _message_of(one) for one in data]
            sent = [message for message, _ in checked_each(given, self._checked)]
            check_no_ids(sent, self.topic)
        else:
            raise InvalidArgument(
                "send_batch takes Arrow data, rows or messages", operation="send_batch", observed=type(data).__name__
            )
        try:
            typed = self._typed_table(sent, self._former.rules)
            if typed.bad and self._invalid is None:
                raise refusal(typed.bad, topic=self.topic, count=typed.table.num_rows)
        except InvalidArgument as error:
            self._is_behind = True  # perhaps: a later version of the schema may have what the batch has, and the next try knows
            self._wake()
            error.object = error.object or self.topic
            raise
        again = (lambda rules: self._typed_table(sent, rules)) if typed.bad else None
        return self._send_table(typed.table, typed, again, through=through)

    def _typed_table(self, sent: pa.Table | list[Message], rules: RowRules) -> TypedRows:
        if isinstance(sent, pa.Table):
            typed = rows_of_columns(sent, rules)
            if self._invalid is not None:
                typed = replace(typed, given=given_rows(sent, typed.bad))
        else:
            groups, labelled = [one.message_group for one in sent], dict(enumerate(sent))
            born_us = np.full(len(sent), 1000 * self._runtime.clock.wall_ms())
            converted = convert([one.value for one in sent], rules.schema, ignore_extra=rules.ignore_extra)
            typed = rows_of_converted(converted, groups, labelled, {}, rules, born_us=born_us)
            typed = replace(typed, given={at: sent[at].value for at in typed.bad})
        limits = self._settings.limits
        value, columns = typed.table[VALUE], typed.table.drop_columns([VALUE])
        checked = check_arrow(columns, self._settings.message_type, limits, self._former.queues)
        table = checked.append_column(VALUE, value)
        if self._delays is not None:
            table = self._delays.timed_table(table)
        return replace(typed, table=table)

    def _send_table(
        self,
        table: pa.Table,
        typed: TypedRows | None = None,
        again: Callable[[RowRules], TypedRows] | None = None,
        *,
        through: int | None = None,
    ) -> BatchReceipt:
        given = table["sequence"].null_count == 0 and table.num_rows > 0
        if not given:
            if table["sequence"].null_count < table.num_rows or through is not None:
                raise InvalidArgument("give a sequence to all rows, or to none", operation="send_batch")
            return self._send_builder(BatchBuilder(0, 0.0, table=table, typed=typed, again=again), table.nbytes, duplicates=0)
        sequences = table["sequence"].to_numpy()
        check_rising(sequences)
        first, last = int(np.searchsorted(sequences, self._accepted_at_opening, side="right")), int(sequences[-1])
        if through is not None and through < last:
            raise SequenceError(
                "rows are behind the sequence", operation="send_batch", expected=f"{last} or more", observed=through
            )
        fresh = table.slice(first)
        typed = None if typed is None else replace(typed, table=table).behind(first)
        fresh_again = None if again is None else lambda rules: again(rules).behind(first)
        builder = BatchBuilder(
            0, 0.0, table=fresh, typed=typed, again=fresh_again, last_sequence=last if through is None else through
        )
        return self._send_builder(builder, fresh.nbytes, first=int(sequences[0]), duplicates=table.num_rows - fresh.num_rows)

    def _send_builder(self, builder: BatchBuilder, size_bytes: int, *, duplicates: int, first: int | None = None) -> BatchReceipt:
        accumulator = self._accumulator
        with accumulator.lock:
            if accumulator.size_bytes >= accumulator.room_bytes:
                accumulator.await_room()
            if builder.count + duplicates:
                self._is_duplicate(first)
            if builder.last_sequence is not None and builder.last_sequence != first:
                self._is_duplicate(builder.last_sequence)
            if builder.count == 0:
                return BatchReceipt(self._duplicates.future, duplicates)
            builder.born_s = [self._now_s()] * len(builder.groups)
            accumulator.add(builder, max(1, size_bytes))
        return BatchReceipt(builder.future, duplicates)

    def _checked(self, message: Message, queue: int | None = None) -> tuple[Message, int]:
        try:
            check_message(message, self._settings.message_type, self._settings.limits, derives_group=self._derives_group)
            check_content(message, self._former.rules if self._is_typed else None, topic=self.topic)
        except CallError as error:
            error.object = self.topic
            raise
        message = frozen(message)
        if self._delays is not None:
            if queue is not None:
                check_queue(queue, self._former.queues, self.topic)
            message = self._delays.timed(message, queue)
        elif len(self._checked_groups) < _CHECKED_GROUPS_MAX and (message.value is None) != self._is_typed:
            self._checked_groups.add(message.message_group)
        content_bytes = int(self._former.row_bytes) if message.body is None else len(message.body)
        return message, MESSAGE_OVERHEAD_BYTES + content_bytes + labels_bytes(message)

    def _is_duplicate(self, sequence: int | None) -> bool:
        duplicate = self._sequences.check(sequence)
        self._unsequenced = self._sequences.none
        return duplicate

    # --- Waiting, on the event loop ---------------------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Return when all that was sent before is durable. Raises its error."""
        with self._accumulator.lock:
            futures = [builder.future for builder in self._accumulator.queue if builder.count] + (
                [self._on_its_way.future] if self._on_its_way else []
            )
        self._flushes += 1
        self._wakeup.set()
        try:
            for future in futures:
                await future
        finally:
            self._flushes -= 1
        if self._accumulator.failure is not None:
            self._accumulator.heard = True
            raise self._accumulator.failure

    async def wait_for_room(self) -> None:
        """Return when `send` would not meet `BackPressureError`."""
        while self._accumulator.size_bytes >= self._options.memory_bytes and self._accumulator.failure is None:
            self._room.clear()
            await self._room.wait()

    async def close(self) -> None:
        """Write what was sent, then stop; closing again does nothing.

        Raises the error of messages that are not durable, unless it was reported before.
        """
        if self.closed:
            return
        self._accumulator.close()
        self._wakeup.set()
        try:
            await asyncio.wait((self._task,))
        except asyncio.CancelledError:
            self._task.cancel()  # a caller that gives up waiting gives up what is not durable yet
            await asyncio.wait((self._task,))
            raise
        failed = self._failed is not None and not self._failed.future.heard
        if self._accumulator.failure is not None and failed and not self._accumulator.heard:
            raise self._accumulator.failure

    def after_fork(self, error: PenstockError) -> None:
        self._accumulator.after_fork(error)

    # --- Appending, on the event loop -------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            await self._append_all()
        except asyncio.CancelledError:
            if self._on_its_way is not None:
                self._on_its_way.future.set_exception(
                    UnknownOutcome("the producer was stopped while the send was on its way", operation="append")
                )
            self._accumulator.fail(ClosedError("the producer was stopped before the send was tried", operation="send"))
            self._room.set()
            raise

    async def _append_all(self) -> None:
        while (builder := await self._next()) is not None:
            self._on_its_way = builder
            try:
                outcome = await self._append(builder)
            except PenstockError as error:
                outcome = error
            except Exception as error:  # noqa: BLE001 - a bug must reach the caller
                outcome = unforeseen(error, operation="append")
            self._on_its_way = None
            self._accumulator.release(builder)
            self._room.set()
            tell(self._options, builder, now_s=self._now_s(), durable=isinstance(outcome, SettledBatch))
            if not isinstance(outcome, SettledBatch):
                self._failed = builder
                builder.settle(outcome)
                self._accumulator.fail(outcome)
                return
            self._durable = (self._durable[0] + builder.count, self._durable[1] + 1)
            self._last_count = builder.count
            builder.settle(outcome)

    async def _next(self) -> BatchBuilder | None:
        while True:
            self._wakeup.clear()
            if self._is_behind:
                self._is_behind = False
                with suppress(PenstockError):  # the next append meets it too
                    await self._former.read_on()
            head = self._accumulator.head()
            if head is None:
                if self._accumulator.closed:
                    return None
                await self._wakeup.wait()
                continue
            self._appender.expect()
            wait_s = head.started_s + linger_s(self._options, self._accumulator.bytes_per_s) - self._now_s()
            if head.full or head.closed or self._flushes or self._accumulator.closed:
                return self._accumulator.take()
            if wait_s <= 0:
                if not self._options.linger and max(head.count, self._last_count) > 1:  # a lone sender does not wait
                    await until_still(head)  # an entry costs as much as many turns
                    if self._accumulator.head() is not head:
                        continue
                return self._accumulator.take()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):  # `wait_for` of Python 3.11 may lose a cancellation
                    await self._wakeup.wait()

    async def _append(self, builder: BatchBuilder) -> SettledBatch | PenstockError:
        formed = await self._former.form(builder)
        rows = formed.rows
        if rows.count == 0:
            return SettledBatch(AppendResult(0, 0, {}), rows.places, None, formed.kept, formed.invalid)
        previous = self._accepted
        batch = Batch(
            producer=self.id,
            named=self.epoch is not None,
            epoch=self.epoch,
            previous=previous,
            last=previous + builder.count if builder.last_sequence is None else builder.last_sequence,
            generation=formed.generation,
            rows=rows.places.rows,
            valid_until=0,
            schema_version=formed.schema_version,
            extended=rows.is_extended,
        )
        deadline_s = builder.started_s + self._options.delivery_timeout.total_seconds()
        outcome = await self._append_rows(batch, rows, deadline_s)
        while isinstance(outcome, RoutingChanged):
            formed = await self._former.routed_anew(formed)
            batch = replace(batch, generation=formed.generation, rows=formed.rows.places.rows)
            outcome = await self._append_rows(batch, formed.rows, deadline_s)
        if not isinstance(outcome, AppendResult):
            assert isinstance(outcome, PenstockError), "a batch is written or fails"
            return outcome
        self._accepted = batch.last
        if self._delays is None:
            return SettledBatch(outcome, formed.rows.places, None, formed.kept, formed.invalid)
        delayed = self._delays.of(rows.columns["delivery_timestamp"], builder.ids)
        return SettledBatch(outcome, formed.rows.places, delayed, formed.kept, formed.invalid)

    async def _append_rows(self, batch: Batch, rows: BatchRows | FewRows, deadline_s: float) -> Outcome:
        if isinstance(rows, FewRows) or rows.size_bytes <= HANDED_BYTES_MAX:
            return await self._appender.append_batch(batch, rows.inline, size_bytes=rows.size_bytes, deadline_s=deadline_s)
        while True:
            try:
                staged = await stage(self._store, self._paths, self._runtime, rows, producer=self.id)
            except StoreUnavailable:
                if self._runtime.clock.monotonic_s() >= deadline_s:
                    raise
                await asyncio.sleep(_STAGE_AGAIN_S)
                continue
            batch = replace(batch, job=staged.job.id, parts=staged.parts)
            deadline_s = min(deadline_s, staged.job.link_until_s)
            return await self._appender.append_batch(batch, None, size_bytes=0, deadline_s=deadline_s)

    def _wake(self) -> None:
        if runs_here(self._loop):
            self._wakeup.set()
        else:
            self._loop.call_soon_threadsafe(self._wakeup.set)


_new = object.__new__


def _message_of(row: object) -> Message:
    if row is None:
        raise InvalidArgument("a row is None", operation="send", hint="a tombstone is Message(None, …)")
    return Message.of(row)
