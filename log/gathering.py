"""Messages waiting in memory to become batches: the part of a producer that its callers' threads touch."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

import pyarrow as pa

from .errors import BackPressureError, ClosedError, FencedError, InvalidArgument, PenstockError, ProducerFailedError, SequenceError
from .limits import LINGER_MAX, MEMORY_BYTES_MAX, MIB, SEQUENCE_MAX, WAIT_MAX, check_count, check_duration, plain
from .messages import Message
from .patience import patiently
from .receipts import BatchFuture, Settled

MESSAGE_OVERHEAD_BYTES = 450
"""What a message costs in memory beside its body: the tuple, its receipt, its columns."""
_GROWTH_MAX = 4
_COPIES = 2
"""A batch on its way is in memory as columns, and again as encoded parts."""


@dataclass(frozen=True, slots=True)
class BatchSent:
    """What became of a batch: for whoever counts."""

    messages: int
    size_bytes: int
    """What the caller gave: bodies, properties, keys and groups."""
    took_s: float
    """Since its first message was sent."""
    durable: bool
    """False: it failed, or what became of it is unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProducerOptions:
    """How a producer gathers and waits."""

    linger: timedelta = timedelta(milliseconds=25)
    """How long the first message of a batch waits for company."""
    linger_max: timedelta = timedelta(milliseconds=400)
    """How long it waits where so much is sent that half a batch comes together meanwhile: fewer, larger and cheaper requests."""
    batch_bytes: int = 4 * MIB
    """A batch with this much in it goes at once. While another is on its way it grows on, up to four times this or a quarter of
    ``memory_bytes``."""
    memory_bytes: int = 64 * MIB
    """What may wait in memory, overhead included."""
    on_full: Literal["block", "raise"] = "block"
    """What ``send`` does when ``memory_bytes`` are waiting. On the event loop's own thread it always raises."""
    block_timeout: timedelta = timedelta(seconds=60)
    delivery_timeout: timedelta = timedelta(seconds=120)
    """After this a batch ends as not written, where that is proved, or as unknown; one of more than 8 MiB, after 24 hours at most."""
    on_batch: Callable[[BatchSent], None] | None = None
    """Told of each batch once it is durable or failed, on the event loop: it must be quick, and raise nothing. For metrics."""

    def __post_init__(self) -> None:
        for name, most in (
            ("linger", LINGER_MAX),
            ("linger_max", LINGER_MAX),
            ("block_timeout", WAIT_MAX),
            ("delivery_timeout", WAIT_MAX),
        ):
            check_duration(name, getattr(self, name), most=most, operation="producer")
        for name in ("batch_bytes", "memory_bytes"):
            check_count(name, getattr(self, name), most=MEMORY_BYTES_MAX, operation="producer")
        if self.on_full not in ("block", "raise"):
            raise InvalidArgument("on_full must be 'block' or 'raise'", operation="producer", observed=plain(self.on_full))
        if self.on_batch is not None and not callable(self.on_batch):
            raise InvalidArgument("on_batch must be callable", operation="producer", observed=plain(self.on_batch))


@dataclass(frozen=True, slots=True)
class ProducerStatistics:
    """Counts since the producer was opened."""

    messages_durable: int
    batches_durable: int
    bytes_waiting: int
    """In memory, overhead included."""
    failed: bool


@dataclass(eq=False, slots=True)
class Gathering:
    """What will be one batch: messages one by one, or a table."""

    first_number: int
    started_s: float
    id_prefix: int = 0
    bodies: list[bytes] = field(default_factory=list)
    """Of every message, as are ``groups`` and ``born_s``: not the messages, which would keep the garbage collector busy."""
    groups: list[str | None] = field(default_factory=list)
    born_s: list[float] = field(default_factory=list)
    """When each was sent, by the monotonic clock."""
    labelled: dict[int, Message] = field(default_factory=dict)
    """The messages, by index, that may have a tag, keys or properties."""
    queues: dict[int, int] = field(default_factory=dict)
    """The queue of those messages, by index, whose sender chose it."""
    table: pa.Table | None = None
    last_sequence: int | None = None
    """Of the last message, where the application gives sequences."""
    size_bytes: int = 0
    notice_bytes: int = 0
    """The appending side is told when it has grown to this."""
    full: bool = False
    """Large enough to go at once."""
    closed: bool = False
    """Nothing more may join: it is a batch of its own, or as large as one may be."""
    future: BatchFuture = field(default_factory=BatchFuture)
    taken_count: int = 0
    """Messages that were turned into rows."""
    sent_bytes: int = 0
    """What was in it when its time came."""

    @classmethod
    def of(cls, messages: Sequence[Message]) -> Gathering:
        """A batch of its own, of checked messages."""
        bodies, groups = [one.body for one in messages], [one.message_group for one in messages]
        return cls(0, 0.0, bodies=bodies, groups=groups, labelled=dict(enumerate(messages)))

    @property
    def count(self) -> int:
        """Messages so far."""
        return self.taken_count + (self.table.num_rows if self.table is not None else len(self.bodies))

    @property
    def payload_bytes(self) -> int:
        """What it has in it, without what the messages cost as objects."""
        return self.size_bytes - MESSAGE_OVERHEAD_BYTES * len(self.bodies)

    def built(self) -> None:
        """Its rows are elsewhere now, and receipts may be kept for long: what nobody needs any more goes."""
        self.taken_count, self.table = self.count, None
        self.bodies, self.groups, self.born_s, self.labelled, self.queues = [], [], [], {}, {}

    def settle(self, outcome: Settled | PenstockError) -> None:
        """Tell all receipts."""
        self.built()
        if isinstance(outcome, Settled):
            self.future.set_result(outcome)
        else:
            self.future.set_exception(outcome)


def tell(options: ProducerOptions, gathering: Gathering, *, now_s: float, durable: bool) -> None:
    """Let whoever counts know what became of it."""
    if options.on_batch is not None and gathering.count:
        options.on_batch(BatchSent(gathering.count, gathering.sent_bytes, now_s - gathering.started_s, durable))


def linger_s(options: ProducerOptions, bytes_per_s: float) -> float:
    """How long the first message of a batch waits for company, at this rate of sending."""
    if not options.linger:
        return 0.0  # who asks for no delay sends one by one and waits for each
    longest_s = options.linger_max.total_seconds()
    pays = bytes_per_s * longest_s >= options.batch_bytes / 2
    return max(longest_s, options.linger.total_seconds()) if pays else options.linger.total_seconds()


class Sequences:
    """The rules of a producer's sequences, over the calls of ``send``."""

    def __init__(self, accepted: int, *, named: bool) -> None:
        self._accepted = accepted
        self._named = named
        self._last: int | None = None
        self._given: bool | None = None

    @property
    def none(self) -> bool:
        """Whether this producer's messages have no sequences, so that a message without one needs no check."""
        return self._given is False

    def check(self, sequence: int | None) -> bool:
        """Whether a message with this sequence (None: not given) is a duplicate. Raises `SequenceError` or `InvalidArgument`."""
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


class Buffer:
    """Gatherings in order, within a memory limit. All but ``take`` and ``release`` are called by senders, under ``lock``."""

    def __init__(
        self,
        options: ProducerOptions,
        *,
        id_prefix: int,
        loop_thread: int,
        now_s: Callable[[], float],
        wake: Callable[[], None],
    ) -> None:
        self._options = options
        self.id_prefix = id_prefix
        self._loop_thread = loop_thread
        self._now_s = now_s
        self._wake = wake
        self._largest_bytes = max(options.batch_bytes, min(_GROWTH_MAX * options.batch_bytes, options.memory_bytes // 4))
        self.lock = threading.Lock()
        self.room = threading.Condition(self.lock)
        self.queue: deque[Gathering] = deque()
        self.open: Gathering | None = None
        """What the next message joins, the last of ``queue``."""
        self.size_bytes = 0
        """Waiting or on its way."""
        self.room_bytes = options.memory_bytes
        """From so many bytes on a sender must `await_room`; zero once nothing may be sent any more."""
        self._number = 0
        """Of the first message behind all closed gatherings."""
        self.bytes_per_s = 0.0
        """Taken lately."""
        self._taken_s = now_s()
        self.failure: PenstockError | None = None
        self.heard = False
        """Whether a caller knows of the failure."""
        self.closed = False

    def await_room(self) -> None:
        """Return when there is room; raise what forbids sending, or `BackPressureError`."""
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

    def open_gathering(self) -> Gathering:
        """The gathering that the next message joins."""
        if self.open is None:
            gathering = Gathering(self._number, self._now_s(), self.id_prefix)
            self.queue.append(gathering)
            self.open = gathering
        return self.open

    def add(self, gathering: Gathering, size_bytes: int) -> None:
        """Let a batch of its own wait behind all that was sent before."""
        self._close_open()
        gathering.first_number, gathering.id_prefix = self._number, self.id_prefix
        gathering.started_s, gathering.closed = self._now_s(), True
        gathering.size_bytes = size_bytes
        self._number += gathering.count
        self.size_bytes += size_bytes
        self.queue.append(gathering)
        self._wake()

    def notice(self, gathering: Gathering) -> None:
        """The open gathering has grown to something: its first message, a batch, or as much as a batch may be."""
        payload_bytes, batch_bytes = gathering.payload_bytes, self._options.batch_bytes
        if payload_bytes >= self._largest_bytes:
            self._close_open()
        goal = batch_bytes if payload_bytes < batch_bytes else self._largest_bytes
        # Whoever has little in many messages is asked again and again, but seldom.
        gathering.notice_bytes = gathering.size_bytes + max(goal - payload_bytes, batch_bytes // 64)
        wake = gathering.count == 1 or (payload_bytes >= batch_bytes and not gathering.full)
        gathering.full = payload_bytes >= batch_bytes
        if wake:
            self._wake()

    def _close_open(self) -> None:
        if self.open is not None:
            self.open.closed = True
            self._number = self.open.first_number + self.open.count
            self.open = None

    def cut(self, gathering: Gathering, count: int, size_bytes: int, last_sequence: int | None) -> None:
        """Make ``gathering`` again what it was with ``count`` messages: a ``send`` that Ctrl-C interrupted has sent nothing."""
        del gathering.bodies[count:], gathering.groups[count:], gathering.born_s[count:]
        gathering.queues.pop(count, None)
        gathering.labelled.pop(count, None)
        self.size_bytes += size_bytes - gathering.size_bytes
        gathering.size_bytes, gathering.last_sequence = size_bytes, last_sequence
        if gathering.closed:
            self._number = gathering.first_number + count

    def head(self) -> Gathering | None:
        """The oldest gathering with something in it; an interrupted ``send`` may leave empty ones."""
        with self.lock:
            while self.queue and self.queue[0].count == 0:
                if self.queue.popleft() is self.open:
                    self.open = None
            return self.queue[0] if self.queue else None

    def take(self) -> Gathering:
        """The oldest gathering, to be appended; nothing joins it any more."""
        with self.lock:
            if self.queue[0] is self.open:
                self._close_open()
            now_s = self._now_s()
            lately = self.queue[0].payload_bytes / max(now_s - self._taken_s, 0.001)
            self.bytes_per_s += 0.5 * (lately - self.bytes_per_s)
            self._taken_s = now_s
            gathering = self.queue.popleft()
            gathering.sent_bytes = gathering.payload_bytes
            encoded_bytes = _COPIES * gathering.sent_bytes
            gathering.size_bytes += encoded_bytes
            self.size_bytes += encoded_bytes
            return gathering

    def release(self, gathering: Gathering) -> None:
        """Its bytes are free again."""
        with self.lock:
            self.size_bytes -= gathering.size_bytes
            self.room.notify_all()

    def fail(self, error: PenstockError) -> None:
        """Nothing can be sent any more; what waits ends with an error that says why."""
        with self.lock:
            self.failure = self.failure or error
            waiting, self.queue = list(self.queue), deque()
            self.open, self.size_bytes, self.room_bytes = None, 0, 0
            self.room.notify_all()
        for gathering in waiting:
            gathering.settle(failed_before(error))

    def close(self) -> None:
        """Refuse further messages; what waits is still to be taken."""
        with self.lock:
            self.closed, self.room_bytes = True, 0
            self.room.notify_all()

    def after_fork(self, error: PenstockError) -> None:
        """In a child process: the lock may be held by a thread that does not exist here."""
        self.lock = threading.Lock()
        self.room = threading.Condition(self.lock)
        self.failure, self.room_bytes = error, 0


def failed_before(error: PenstockError) -> PenstockError:
    """What a send gets after ``error`` ended its producer."""
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
