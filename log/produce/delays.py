"""Delayed messages on their way into the timer log: due times, queues, and recall handles."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InvalidArgument, LimitExceeded
from ..format.stored_json import whole_number
from ..limits import QUEUES_MAX, TopicLimits, checked_duration, duration_text, named_tuple_text
from ..message.arrow import check_delivery_times
from ..message.batch_rows import MessageIds
from ..message.message import LOG_SCHEMA, MaybeNone, Message, from_us, limit_hint, to_us, views
from ..runtime.runtime import Clock

QUEUE = 0
"""The only queue of a timer log."""
DESTINATION_QUEUE = "\tqueue"
"""The property of the sender's queue in the timer log, which no sender can set: names are visible characters."""
_HANDLE_CHARS_MAX = 1_024
_MICROSECOND = timedelta(microseconds=1)
_PROPERTIES_TYPE = LOG_SCHEMA.field("properties").type


def delivery_us(message: Message, limit: timedelta, now_us: int) -> int:
    """The time when a message is due. Raises `InvalidArgument` or `LimitExceeded`."""
    at: object = message.delivery_timestamp
    delay: object = message.delay
    if at is not None and delay is not None:
        raise InvalidArgument(
            "a message has a delivery_timestamp or a delay, not both", operation="send", observed=f"{at}, {delay}"
        )
    if delay is not None:
        due_us = now_us + checked_duration("delay", delay, most=timedelta.max, operation="send") // _MICROSECOND
    else:
        if not isinstance(at, datetime):
            raise InvalidArgument(
                "a delivery_timestamp must be a datetime",
                operation="send",
                observed=repr(at),
                hint="datetime.fromtimestamp(seconds, UTC)" if isinstance(at, int | float) else None,
            )
        if at.tzinfo is None:
            raise InvalidArgument(
                "a delivery_timestamp must have a zone",
                operation="send",
                observed=at.isoformat(),
                hint="datetime.now(UTC) + timedelta(…), or attach a tzinfo",
            )
        due_us = to_us(at)
    if due_us < 0:
        raise InvalidArgument("a delivery_timestamp must not be before 1970", operation="send", observed=at)
    if due_us - now_us > limit // _MICROSECOND:
        raise LimitExceeded(
            "the delivery time is too far ahead",
            operation="send",
            expected=f"at most {duration_text(limit)} from now",
            observed=duration_text(timedelta(microseconds=due_us - now_us)),
            hint=limit_hint("max_delay"),
        )
    return due_us


class RecallHandle(NamedTuple):
    """The identity of a waiting message."""

    topic: str
    offset: int
    """The offset in the timer log."""
    due_us: int
    message_id: str

    def encode(self) -> str:
        """Text of letters, digits, ``-`` and ``_``."""
        return urlsafe_b64encode(f"v1 {self.topic} {self.offset} {self.due_us} {self.message_id}".encode()).decode().rstrip("=")

    @classmethod
    def decode(cls, handle: str) -> RecallHandle:
        """Raises `InvalidArgument` for what is no handle."""
        try:
            if len(handle) > _HANDLE_CHARS_MAX:
                raise ValueError(len(handle))
            text = urlsafe_b64decode(handle.encode("ascii") + b"=" * (-len(handle) % 4)).decode("ascii")
            version, topic, offset, due_us, identity = text.split(" ")
            found = cls(topic, int(offset), int(due_us), identity)
            if version == "v1" and found.encode() == handle and found.offset >= 0 and identity.isprintable():
                return found
        except (ValueError, AttributeError, TypeError):
            pass  # raised below
        raise InvalidArgument(
            "this is no recall handle",
            operation="recall",
            expected="the recall_handle of a delayed message's SendResult",
            observed=repr(handle)[:80],
        )


@dataclass(frozen=True, eq=False, slots=True)
class DelayedRows:
    """The part of a batch that receipts need."""

    topic: str
    due_us: npt.NDArray[np.int64]
    ids: MessageIds

    def handle(self, index: int, offset: int | None) -> str | None:
        if offset is None:
            return None
        return RecallHandle(self.topic, offset, int(self.due_us[index]), self.ids.one(index)).encode()


class RecallHandles(Sequence[str]):
    """Recall handles in sending order, made on demand."""

    def __init__(self, delayed: DelayedRows, first_offset: int) -> None:
        self._delayed, self._first_offset = delayed, first_offset

    def __len__(self) -> int:
        return len(self._delayed.due_us)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        at = range(len(self))[index]
        return self._of(at) if isinstance(at, int) else [self._of(one) for one in at]

    def _of(self, index: int) -> str:
        handle = self._delayed.handle(index, self._first_offset + index)
        assert handle is not None, "the offset is known"
        return handle


class WaitingMessage(NamedTuple):
    """A delayed message that is still to be delivered."""

    topic: str
    message_id: str
    message_group: str | None
    tag: str | None
    keys: tuple[str, ...]
    properties: dict[str, str]
    body: bytes | MaybeNone
    """None for a tombstone. A typed row is JSON by stored names."""
    queue: int | None
    """The sender's queue. None: its message group's, or any."""
    born_timestamp: datetime
    delivery_timestamp: datetime
    producer: str
    recall_handle: str

    def __repr__(self) -> str:
        return named_tuple_text(self, self._fields)


def waiting_messages(topic: str, rows: pa.Table) -> Iterator[WaitingMessage]:
    for row in views(topic, rows):
        due = row.delivery_timestamp or from_us(0)  # a row without one, which no producer writes, is due at once
        handle = RecallHandle(topic, row.offset, to_us(due), row.message_id).encode()
        yield WaitingMessage(
            topic=topic,
            message_id=row.message_id,
            message_group=row.message_group,
            tag=row.tag,
            keys=row.keys,
            properties={name: value for name, value in row.properties.items() if name != DESTINATION_QUEUE},
            body=row.body,
            queue=named_queue(row.properties),
            born_timestamp=row.born_timestamp,
            delivery_timestamp=due,
            producer=row.producer,
            recall_handle=handle,
        )


class Delays:
    """A producer's way into its topic's timer log."""

    def __init__(self, topic: str, limits: TopicLimits, clock: Clock) -> None:
        self._topic, self._limit, self._clock = topic, limits.max_delay, clock

    def timed(self, message: Message, queue: int | None) -> Message:
        """The message with delivery time and named queue. Raises as `delivery_us`."""
        due_us = delivery_us(message, self._limit, 1000 * self._clock.wall_ms())
        properties = message.properties if queue is None else {**message.properties, DESTINATION_QUEUE: str(queue)}
        return message._replace(properties=properties, delivery_timestamp=None if message.delay is not None else from_us(due_us))

    def timed_table(self, table: pa.Table) -> pa.Table:
        """Raises `InvalidArgument` or `LimitExceeded`."""
        check_delivery_times(table["delivery_timestamp"], self._limit, 1000 * self._clock.wall_ms())
        return with_destinations(table)

    def of(self, due: pa.Array | pa.ChunkedArray, ids: MessageIds) -> DelayedRows:
        return DelayedRows(self._topic, due.cast(pa.int64()).to_numpy(), ids)


def named_queue(properties: Mapping[str, str]) -> int | None:
    queue = whole_number(properties.get(DESTINATION_QUEUE, ""))
    return queue if queue is not None and queue < QUEUES_MAX else None


def with_destinations(table: pa.Table) -> pa.Table:
    """Named queues become properties."""
    queues = table["queue"]
    if queues.null_count == table.num_rows:
        return table
    properties = [
        [*(given or ()), *([] if queue is None else [(DESTINATION_QUEUE, str(queue))])]
        for given, queue in zip(table["properties"].to_pylist(), queues.to_pylist(), strict=True)
    ]
    return _with(table, pa.nulls(table.num_rows, pa.int32()), properties)


def without_destinations(table: pa.Table) -> pa.Table:
    """The inverse of `with_destinations`."""
    nowhere = pa.nulls(table.num_rows, pa.int32())
    names = table["properties"].combine_chunks().keys
    if not pc.any(pc.equal(names, DESTINATION_QUEUE)).as_py():
        return table.set_column(table.schema.get_field_index("queue"), LOG_SCHEMA.field("queue"), nowhere)
    given = table["properties"].to_pylist()
    queues = [named_queue(dict(pairs or ())) for pairs in given]
    properties = [[pair for pair in pairs or () if pair[0] != DESTINATION_QUEUE] for pairs in given]
    return _with(table, pa.array(queues, pa.int32()), properties)


def _with(table: pa.Table, queues: pa.Array, properties: list[list[tuple[str, str]]]) -> pa.Table:
    table = table.set_column(table.schema.get_field_index("queue"), LOG_SCHEMA.field("queue"), queues)
    column = pa.array(properties, _PROPERTIES_TYPE)
    return table.set_column(table.schema.get_field_index("properties"), LOG_SCHEMA.field("properties"), column)
