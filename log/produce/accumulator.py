"""A producer's messages in memory before they become batches."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

import pyarrow as pa

from ..errors import BackPressureError, ClosedError, FencedError, InvalidArgument, PenstockError, ProducerFailedError, SequenceError
from ..limits import (
    LINGER_MAX,
    MEMORY_BYTES_MAX,
    MIB,
    SEQUENCE_MAX,
    WAIT_MAX,
    DurationField,
    check_count,
    field_default,
    plain,
    set_durations,
)
from ..message.batch_rows import MessageIds
from ..message.message import Message
from ..runtime.portal import patiently
from .gathered_rows import GatheredRows
from .receipts import BatchFuture, SettledBatch
from .typed_rows import RowRules, TypedRows

MESSAGE_OVERHEAD_BYTES = 450
"""The memory of a message beside its body."""
_GROWTH_MAX = 4
_COPIES = 2


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The outcome of a batch, for metrics."""

    messages: int
    size_bytes: int
    """The caller's bytes: bodies, properties, keys and groups."""
    took_s: float
    """Counted from its first message's send."""
    durable: bool
    """False: it failed, or its outcome is unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProducerOptions:
    """The settings by which a producer gathers and waits."""

    linger: DurationField = field_default(timedelta(milliseconds=25))
    """The time for which the first message of a batch waits for further ones."""
    max_linger: DurationField = field_default(timedelta(milliseconds=400))
    """The longer wait where half a batch gathers within ``linger``, for fewer and larger requests."""
    batch_bytes: int = 4 * MIB
    """The size at which a batch goes at once. While another is on its way it grows, up to four times this or a quarter of ``memory_bytes``."""
    memory_bytes: int = 64 * MIB
    """The bytes that may wait, overhead included."""
    on_full: Literal["block", "raise"] = "block"
    """The action of ``send`` when ``memory_bytes`` are waiting; on the event loop's thread it always raises."""
    block_timeout: DurationField = field_default(timedelta(seconds=60))
    delivery_timeout: DurationField = field_default(timedelta(seconds=120))
    """The time after which a batch ends as not written, where proved, or as unknown; above 8 MiB, at most 24 hours."""
    extra: Literal["refuse", "ignore"] = "refuse"
    """Whether a row with an unknown field is refused, or the field left out."""
    invalid: Literal["refuse", "topic"] = "refuse"
    """Rows that do not fit the topic's schema fail their whole batch, or go to the topic ``NAME-invalid`` with the reason while the other rows are
    written.
    """
    on_batch: Callable[[BatchOutcome], None] | None = None
    """Called on the event loop with each batch that is durable or failed. It must be quick, and raise nothing."""

    def __post_init__(self) -> None:
        set_durations(self, "linger", "max_linger", most=LINGER_MAX, operation="producer")
        set_durations(self, "block_timeout", "delivery_timeout", most=WAIT_MAX, operation="producer")
        for name in ("batch_bytes", "memory_bytes"):
            check_count(name, getattr(self, name), most=MEMORY_BYTES_MAX, operation="producer")
        if self.on_full not in ("block", "raise"):
            raise InvalidArgument("on_full must be 'block' or 'raise'", operation="producer", observed=plain(self.on_full))
        for name, choices in (("extra", ("refuse", "ignore")), ("invalid", ("refuse", "topic"))):
            if getattr(self, name) not in choices:
                raise InvalidArgument(
                    f"{name} must be {' or '.join(map(repr, choices))}", operation="producer", observed=plain(getattr(self, name))
                )
        if self.on_batch is not None and not callable(self.on_batch):
            raise InvalidArgument("on_batch must be callable", operation="producer", observed=plain(self.on_batch))


@dataclass(frozen=True, slots=True)
class ProducerStatistics:
    """Counts since the producer was opened."""

    messages_durable: int
    batches_durable: int
    bytes_waiting: int
    """The bytes in memory, overhead included."""
    failed: bool


@dataclass(eq=False, slots=True)
class BatchBuilder:
    """The content of a future batch."""

    first_number: int
    started_s: float
    id_prefix: int = 0
    contents: list[Any] | GatheredRows = field(default_factory=list)
    """Bodies, or rows in a topic with a schema; messages would burden the garbage collector."""
    groups: list[str | None] = field(default_factory=list)
    born_s: list[float] = field(default_factory=list)
    """Times by the monotonic clock."""
    labelled: dict[int, Message] = field(default_factory=dict)
    """Messages, by index, that may have a tag, keys or properties."""
    queues: dict[int, int] = field(default_factory=dict)
    """Queues that senders chose, by index."""
    given_ids: dict[int, str] = field(default_factory=dict)
    table: pa.Table | None = None
    typed: TypedRows | None = None
    """Checked rows of ``table``, bad ones too."""
    again: Callable[[RowRules], TypedRows] | None = None
    """Checks bad rows by a later version of the schema."""
    sequences: list[int] = field(default_factory=list)
    """Every message's sequence, where bad rows go to another topic by them."""
    last_sequence: int | None = None
    size_bytes: int = 0
    notice_bytes: int = 0
    full: bool = False
    closed: bool = False
    future: BatchFuture = field(default_factory=BatchFuture)
    taken_count: int = 0
    sent_bytes: int = 0

    @classmethod
    def of(cls, messages: Sequence[Message]) -> BatchBuilder:
        bodies, groups = [one.body for one in messages], [one.message_group for one in messages]
        given_ids = {at: one.message_id for at, one in enumerate(messages) if one.message_id is not None}
        return cls(0, 0.0, contents=bodies, groups=groups, labelled=dict(enumerate(messages)), given_ids=given_ids)

    @property
    def ids(self) -> MessageIds:
        return MessageIds(self.id_prefix, self.first_number, self.given_ids)

    @property
    def count(self) -> int:
        return self.taken_count + (self.table.num_rows if self.table is not None else len(self.groups))

    @property
    def payload_bytes(self) -> int:
        return self.size_bytes - MESSAGE_OVERHEAD_BYTES * len(self.groups)

    def built(self) -> None:
        """Drop what is of no use after rows were built, as receipts keep this."""
        self.taken_count, self.table, self.typed, self.again = self.count, None, None, None
        self.contents, self.groups, self.born_s, self.labelled, self.queues, self.sequences = [], [], [], {}, {}, []

    def settle(self, outcome: SettledBatch | PenstockError) -> None:
        self.built()
        if isinstance(outcome, SettledBatch):
            self.future.set_result(outcome)
        else:
            self.future.set_exception(outcome)


def tell(options: ProducerOptions, builder: BatchBuilder, *, now_s: float, durable: bool) -> None:
    if options.on_batch is not None and builder.count:
        options.on_batch(BatchOutcome(builder.count, builder.sent_bytes, now_s - builder.started_s, durable))


def linger_s(options: ProducerOptions, bytes_per_s: float) -> float:
    if not options.linger:
        return 0.0  # a caller that asks for no delay sends one by one and waits for each
    longest_s = options.max_linger.total_seconds()
    pays = bytes_per_s * longest_s >= options.batch_bytes / 2
    return max(longest_s, options.linger.total_seconds()) if pays else options.linger.total_seconds()


class Sequences:
    """The rules of a producer's sequences over its sends."""

    def __init__(self, accepted: int, *, named: bool) -> None:
        self._accepted = accepted
        self._named = named
        self._last: int | None = None
        self._given: bool | None = None

    @property
    def none(self) -> bool:
        return self._given is False

    def check(self, sequence: int | None) -> bool:
        """Whether the sequence is a duplicate. Raises `SequenceError` or `InvalidArgument`."""
        if self._given is not None and self._given != (sequence is not None):
            raise InvalidArgument("give a sequence to all messages of a producer, or to none", operation="send", observed=sequence)
        if sequence is None:
            self._given = False
            return False
        if not self._named:
            raise InvalidArgument("only a named producer takes sequences", operation="send", hint="open it with name=…")
        if not isinstance(sequence, int) or isinstance(sequence, bool) or not 0 <= sequence <= SEQUENCE_MAX:
            raise InvalidArgument("a sequence must be a whole number from 0 to 2^63 - 1", operation="send", observed=sequence)
        if self._last is not None and sequence <= self._last:
            raise SequenceError("the sequence does not rise", operation="send", expected=f"above {self._last}", observed=sequence)
        self._given, self._last = True, sequence
        return sequence <= self._accepted


class Accumulator:
    """Gatherings in order, within a memory limit. All methods but ``take`` and ``release`` are called under ``lock``."""

    def __init__(
        self,
        options: ProducerOptions,
        *,
        id_prefix: int,
        loop_thread: int,
        now_s: Callable[[], float],
        wake: Callable[[], None],
        contents: Callable[[], list[Any] | GatheredRows] = list,
    ) -> None:
        self._options, self._contents = options, contents
        self.id_prefix = id_prefix
        self._loop_thread = loop_thread
        self._now_s = now_s
        self._wake = wake
        self._largest_bytes = max(options.batch_bytes, min(_GROWTH_MAX * options.batch_bytes, options.memory_bytes // 4))
        self.lock = threading.Lock()
        self.room = threading.Condition(self.lock)
        self.queue: deque[BatchBuilder] = deque()
        self.open: BatchBuilder | None = None
        """The builder that the next message joins, the last of ``queue``."""
        self.size_bytes = 0
        self.room_bytes = options.memory_bytes
        """The bytes from which a sender must `await_room`; zero once nothing may be sent."""
        self._number = 0
        self.bytes_per_s = 0.0
        self._taken_s = now_s()
        self.failure: PenstockError | None = None
        self.heard = False
        self.closed = False

    def await_room(self) -> None:
        """Return when there is room. Raises what forbids sending, or `BackPressureError`."""
        limit = self._options.memory_bytes
        block = self._options.on_full == "block" and threading.get_ident() != self._loop_thread
        timeout_s = self._options.block_timeout.total_seconds()
        if block and not (self.closed or self.failure):

            def wait(step_s: float) -> None:
                if not self.room.wait_for(lambda: self.size_bytes < limit or self.closed or self.failure is not None, step_s):
                    raise TimeoutError

            with suppress(TimeoutError):
                patiently(wait, timeout_s)
        if self.failure is not None:
            self.heard = True
            raise failed_before(self.failure)
        if self.closed:
            raise ClosedError("the producer is closed", operation="send", hint="open another: lake.producer(…)")
        if self.size_bytes >= limit:
            raise BackPressureError(
                "too much waits to be written",
                operation="send",
                expected=f"below {limit} bytes",
                observed=f"{self.size_bytes} bytes",
                hint="wait for receipts, raise memory_bytes, or look why the store is slow",
            )

    def open_builder(self) -> BatchBuilder:
        if self.open is None:
            builder = BatchBuilder(self._number, self._now_s(), self.id_prefix, contents=self._contents())
            self.queue.append(builder)
            self.open = builder
        return self.open

    def add(self, builder: BatchBuilder, size_bytes: int) -> None:
        self._close_open()
        builder.first_number, builder.id_prefix = self._number, self.id_prefix
        builder.started_s, builder.closed = self._now_s(), True
        builder.size_bytes = size_bytes
        self._number += builder.count
        self.size_bytes += size_bytes
        self.queue.append(builder)
        self._wake()

    def notice(self, builder: BatchBuilder) -> None:
        payload_bytes, batch_bytes = builder.payload_bytes, self._options.batch_bytes
        if payload_bytes >= self._largest_bytes:
            self._close_open()
        goal = batch_bytes if payload_bytes < batch_bytes else self._largest_bytes
        # A builder with few bytes in many messages is checked again and again, but seldom.
        builder.notice_bytes = builder.size_bytes + max(goal - payload_bytes, batch_bytes // 64)
        wake = builder.count == 1 or (payload_bytes >= batch_bytes and not builder.full)
        builder.full = payload_bytes >= batch_bytes
        if wake:
            self._wake()

    def _close_open(self) -> None:
        if self.open is not None:
            self.open.closed = True
            self._number = self.open.first_number + self.open.count
            self.open = None

    def cut(self, builder: BatchBuilder, count: int, size_bytes: int, last_sequence: int | None) -> None:
        """Restore ``builder`` to ``count`` messages: a ``send`` that Ctrl-C interrupted has sent nothing."""
        if isinstance(builder.contents, GatheredRows):
            builder.contents.cut(count)
        else:
            del builder.contents[count:]
        del builder.groups[count:], builder.born_s[count:]
        builder.queues.pop(count, None)
        builder.labelled.pop(count, None)
        builder.given_ids.pop(count, None)
        del builder.sequences[count:]
        self.size_bytes += size_bytes - builder.size_bytes
        builder.size_bytes, builder.last_sequence = size_bytes, last_sequence
        if builder.closed:
            self._number = builder.first_number + count

    def head(self) -> BatchBuilder | None:
        """The oldest one with messages."""
        with self.lock:
            while self.queue and self.queue[0].count == 0:
                if self.queue.popleft() is self.open:
                    self.open = None
            return self.queue[0] if self.queue else None

    def take(self) -> BatchBuilder:
        """The oldest builder, which no message joins any more."""
        with self.lock:
            if self.queue[0] is self.open:
                self._close_open()
            now_s = self._now_s()
            lately = self.queue[0].payload_bytes / max(now_s - self._taken_s, 0.001)
            self.bytes_per_s += 0.5 * (lately - self.bytes_per_s)
            self._taken_s = now_s
            builder = self.queue.popleft()
            builder.sent_bytes = builder.payload_bytes
            encoded_bytes = _COPIES * builder.sent_bytes
            builder.size_bytes += encoded_bytes
            self.size_bytes += encoded_bytes
            return builder

    def release(self, builder: BatchBuilder) -> None:
        with self.lock:
            self.size_bytes -= builder.size_bytes
            self.room.notify_all()

    def fail(self, error: PenstockError) -> None:
        with self.lock:
            self.failure = self.failure or error
            waiting, self.queue = list(self.queue), deque()
            self.open, self.size_bytes, self.room_bytes = None, 0, 0
            self.room.notify_all()
        for builder in waiting:
            builder.settle(failed_before(error))

    def close(self) -> None:
        """Refuse further messages. Waiting ones are still to be taken."""
        with self.lock:
            self.closed, self.room_bytes = True, 0
            self.room.notify_all()

    def after_fork(self, error: PenstockError) -> None:
        """Prepare a child process, where no thread may release the lock."""
        self.lock = threading.Lock()
        self.room = threading.Condition(self.lock)
        self.failure, self.room_bytes = error, 0


def failed_before(error: PenstockError) -> PenstockError:
    if isinstance(error, FencedError | ClosedError) or error.kind == "forked":
        return error
    failed = ProducerFailedError(
        "an earlier send of this producer failed, so this one was not tried",
        operation="send",
        observed=str(error),
        hint="reopen the producer",
    )
    failed.__cause__ = error
    return failed
