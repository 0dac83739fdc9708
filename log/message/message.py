"""Messages: what users send, what they get back, and the Arrow columns both are stored in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple, NoReturn, TypeAlias, TypeVar

import pyarrow as pa

from ..errors import CallError, InvalidArgument, LimitExceeded, MessageTypeMismatch
from ..limits import KEYS_MAX, TAG_BYTES_MAX, Duration, TopicLimits, named_tuple_text
from .message_type import MessageType

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Message(NamedTuple):
    """A message to send. Limits are the topic's (`TopicLimits`) and are checked by ``send``.

    Order is kept within a ``message_group``, which is required on FIFO topics. ``tag`` and ``properties`` can be filtered on, ``keys``
    looked up.

    Messages for a topic of type DELAY have a ``delivery_timestamp`` with a zone, or a ``delay`` counted from ``send``: a
    `timedelta` or a number of seconds. A message whose time has passed is delivered at once. A message group is optional there; it keeps
    the order of its messages once they are due.
    """

    body: bytes
    message_group: str | None = None
    tag: str | None = None
    keys: Sequence[str] = ()
    properties: Mapping[str, str] = {}
    delivery_timestamp: datetime | None = None
    delay: Duration | None = None

    def __repr__(self) -> str:
        return named_tuple_text(self, self._fields)

    @staticmethod
    def json(
        value: object,
        *,
        message_group: str | None = None,
        tag: str | None = None,
        keys: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        delivery_timestamp: datetime | None = None,
        delay: Duration | None = None,
    ) -> Message:
        """A message whose body is ``value`` as compact UTF-8 JSON. Raises `InvalidArgument` for what JSON cannot say."""
        try:
            body = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise InvalidArgument("the value is not JSON", operation="Message.json", observed=str(error)) from error
        return Message(body, message_group, tag, keys, properties or {}, delivery_timestamp, delay)

    @property
    def message_type(self) -> MessageType:
        """The message's type: DELAY with a delivery time or a delay, else FIFO with a message group, else NORMAL."""
        if self.delivery_timestamp is not None or self.delay is not None:
            return MessageType.DELAY
        return MessageType.NORMAL if self.message_group is None else MessageType.FIFO


class MessageView(NamedTuple):
    """A message as it is stored."""

    topic: str
    queue: int
    offset: int
    """The message's place in the queue: dense, from 0, never used twice."""
    message_id: str
    message_group: str | None
    tag: str | None
    keys: tuple[str, ...]
    properties: dict[str, str]
    body: bytes
    born_timestamp: datetime
    """The time when ``send`` was called, by the producer's corrected clock."""
    store_timestamp: datetime
    """The time when it was appended; never goes back along a topic."""
    delivery_timestamp: datetime | None
    producer: str
    delivery_attempt: int = 1
    """The number of this delivery to the group, from 1. Set by consumers."""
    epoch: int = 0
    """The epoch of the queue's ownership under which this delivery was made. Set by consumers."""
    receipt_handle: str = ""
    """The handle that acknowledges this delivery, also from another process. Set by ``receive``; empty otherwise."""

    def __repr__(self) -> str:
        return named_tuple_text(self, self._fields)

    @property
    def fencing_token(self) -> tuple[int, int, int, int]:
        """The fencing token (queue, epoch, offset, delivery attempt). Of two tokens of one queue, the one with the higher epoch is of
        the later owner. A system that stores a message's effects can so refuse an owner that was replaced.
        """
        return self.queue, self.epoch, self.offset, self.delivery_attempt

    def stored(self) -> dict[str, Any]:
        """The stored values by name: every field but those that a consumer adds when it hands the message out."""
        return {name: value for name, value in self._asdict().items() if name not in OF_A_DELIVERY}

    def json(self) -> Any:  # noqa: ANN401 - any JSON value
        """The body parsed as JSON. Raises `InvalidArgument` when it is not."""
        try:
            return json.loads(self.body)
        except ValueError as error:
            where = f"{self.topic}, queue {self.queue}, offset {self.offset}"
            raise InvalidArgument("the body is not JSON", operation="message.json", object=where, observed=str(error)) from error


OF_A_DELIVERY = frozenset({"delivery_attempt", "epoch", "receipt_handle"})
"""The fields of a `MessageView` that a consumer sets when it hands the message out."""


class _NoProperties(dict[str, str]):
    """An empty dict that all messages without properties share, so it stays empty."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a message without properties shares them with others: copy them first, dict(message.properties)")

    __setitem__ = setdefault = update = __ior__ = _refuse

    def __reduce__(self) -> tuple[type[_NoProperties], tuple[()]]:
        return _NoProperties, ()


_NO_PROPERTIES = _NoProperties()

_TIME = pa.timestamp("us", "UTC")
_QUEUE = pa.field("queue", pa.int32())
_PAYLOAD = [
    pa.field("message_id", pa.string()),
    pa.field("message_group", pa.string()),
    pa.field("tag", pa.string()),
    pa.field("keys", pa.list_(pa.field("element", pa.string()))),
    pa.field("properties", pa.map_(pa.string(), pa.string())),
    pa.field("body", pa.binary()),
    pa.field("born_timestamp", _TIME),
]
_DELIVERY = pa.field("delivery_timestamp", _TIME)
_PRODUCER = pa.field("producer", pa.string())

LOG_SCHEMA = pa.schema([_QUEUE, *_PAYLOAD, _DELIVERY, _PRODUCER])
"""The columns of rows in entries and staged objects; offset and store time follow from the fold."""

MESSAGE_SCHEMA = pa.schema(
    [
        _QUEUE,
        pa.field("offset", pa.int64()),
        *_PAYLOAD,
        pa.field("store_timestamp", _TIME),
        _DELIVERY,
        _PRODUCER,
    ]
)
"""The columns that readers hand out and the topic's table holds."""

SEND_SCHEMA = pa.schema([_QUEUE, *_PAYLOAD[1:6], _DELIVERY, pa.field("sequence", pa.int64())])
"""The columns that ``send_batch`` takes; only ``body`` is required, and ``delivery_timestamp`` by topics of type DELAY."""

COPY_SCHEMA = pa.schema([*SEND_SCHEMA, _PAYLOAD[0], _PAYLOAD[6]])
"""The columns of messages that were sent before, and keep their id and birth time on the way to another topic."""


def views(
    topic: str, batch: pa.RecordBatch | pa.Table, *, attempts: Iterable[int] | None = None, epoch: int = 0
) -> Iterator[MessageView]:
    """The rows of a batch with `MESSAGE_SCHEMA` as messages, in order. ``attempts`` has the delivery attempt of each; the default is 1."""
    columns = view_columns(topic, batch, epoch=epoch)
    if attempts is not None:
        of_each = [attempt for _, attempt in zip(range(batch.num_rows), attempts, strict=True)]
        columns[_ATTEMPT] = of_each
    return views_of(columns)


Column: TypeAlias = "list[Any] | repeat[Any]"
"""The values of one field of some messages; `itertools.repeat` without end where all have the same."""


def view_columns(topic: str, batch: pa.RecordBatch | pa.Table, *, epoch: int = 0) -> list[Column]:
    """The values of each field of a batch's messages."""
    return [
        repeat(topic),
        batch.column("queue").to_pylist(),
        batch.column("offset").to_pylist(),
        batch.column("message_id").to_pylist(),
        _texts(batch.column("message_group")),
        _texts(batch.column("tag")),
        _keys(batch.column("keys")),
        _properties(batch.column("properties")),
        batch.column("body").to_pylist(),
        _times(batch.column("born_timestamp")),
        _times(batch.column("store_timestamp")),
        _times(batch.column("delivery_timestamp")),
        _texts(batch.column("producer")),
        repeat(1),
        repeat(epoch),
        repeat(""),
    ]


def views_of(columns: Sequence[Iterable[Any]]) -> Iterator[MessageView]:
    """Messages with these values, field by field."""
    return map(_make_view, zip(*columns, strict=False))


_ATTEMPT = MessageView._fields.index("delivery_attempt")
_make_view: Callable[[Iterable[Any]], MessageView] = partial(tuple.__new__, MessageView)
"""A faster `MessageView._make`, without a Python call for every message. The columns must be as many as the fields."""


def _texts(column: pa.Array | pa.ChunkedArray) -> Column:
    if column.null_count == len(column):
        return repeat(None)
    texts: list[str | None] = column.to_pylist()
    return texts


def _keys(column: pa.Array | pa.ChunkedArray) -> Column:
    if _is_empty(column):
        return repeat(())
    return [tuple(keys) if keys else () for keys in column.to_pylist()]


def _properties(column: pa.Array | pa.ChunkedArray) -> Column:
    """The properties of each message; read-only where there are none. A dict for every message costs the garbage collector more than
    all else together.
    """
    if _is_empty(column):
        return repeat(_NO_PROPERTIES)
    return [dict(pairs) if pairs else _NO_PROPERTIES for pairs in column.to_pylist()]


def _is_empty(lists: pa.Array | pa.ChunkedArray) -> bool:
    """Whether no row of a column of lists or maps has anything in it."""
    chunks = lists.chunks if isinstance(lists, pa.ChunkedArray) else [lists]
    return all(not len(chunk) or chunk.offsets[0].as_py() == chunk.offsets[-1].as_py() for chunk in chunks)


def _times(column: pa.Array | pa.ChunkedArray) -> Column:
    if column.null_count == len(column):
        return repeat(None)
    ticks = column.cast(pa.int64())
    if column.null_count:
        return [None if tick is None else _EPOCH + _MICROSECOND * tick for tick in ticks.to_pylist()]
    values = ticks.to_numpy()
    if values[0] == values[-1] and bool((values == values[0]).all()):
        return repeat(_EPOCH + _MICROSECOND * int(values[0]))  # all rows of an entry have the same time
    return list(map(_EPOCH.__add__, values.astype("timedelta64[us]").tolist()))


def to_us(time: datetime) -> int:
    """Microseconds since the epoch. Raises `InvalidArgument` for a time without a zone."""
    if time.tzinfo is None:
        raise InvalidArgument("a time must have a zone", observed=time.isoformat(), hint="use datetime.now(UTC) or attach a tzinfo")
    return (time - _EPOCH) // _MICROSECOND


def from_us(time_us: int) -> datetime:
    return _EPOCH + _MICROSECOND * time_us


def from_ms(time_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=time_ms)


def check_message(message: Message, topic_type: MessageType, limits: TopicLimits) -> None:
    """Raise unless ``message`` may be sent to a topic of this type with these limits."""
    if not isinstance(message, Message):
        raise InvalidArgument("send takes a penstock.Message", operation="send", observed=type(message).__name__)
    if message.message_type is not topic_type:
        raise MessageTypeMismatch(
            f"the topic takes {topic_type} messages, and this is a {message.message_type} message",
            operation="send",
            expected=topic_type,
            observed=message.message_type,
            hint=_NO_DELAY if message.message_type is MessageType.DELAY else _TYPE_HINTS[topic_type],
        )
    body, group, tag, keys, properties, _, _ = message
    if not isinstance(body, (bytes, bytearray, memoryview)):
        raise InvalidArgument(
            "the body must be bytes", operation="send", observed=type(body).__name__, hint="Message.json(...) encodes"
        )
    _at_most(
        "the body", body.nbytes if isinstance(body, memoryview) else len(body), limits.body_bytes, "bytes", setting="body_bytes"
    )
    if group is not None:
        _at_most("the message group", len(_text("the message group", group)), limits.group_bytes, "bytes", setting="group_bytes")
    _check_labels(tag, keys, properties, limits)


def checked_each(messages: Iterable[Message], check: Callable[[Message], T]) -> Iterator[T]:
    """The result of ``check`` for each message of a batch. Its error says which message it is."""
    for number, message in enumerate(messages):
        try:
            yield check(message)
        except CallError as error:
            error.operation, error.object = "send_batch", f"message {number}"
            error.hint = NOTHING_SENT if error.hint is None else f"{NOTHING_SENT}; {error.hint}"
            raise


def frozen(message: Message) -> Message:
    """A checked message as it is now, unaffected by what its sender does to its parts later."""
    body, group, tag, keys, properties, due, delay = message
    return Message(bytes(body), group, tag, tuple(keys), dict(properties), due, delay)


NOTHING_SENT = "nothing of the batch was sent"
_NO_DELAY = "leave delivery_timestamp and delay out, or create a topic of type DELAY"
_TYPE_HINTS = {
    MessageType.FIFO: "give the message a message_group",
    MessageType.NORMAL: "leave message_group and delivery_timestamp out, or create a topic of the message's type",
    MessageType.DELAY: "give the message a delivery_timestamp or a delay",
    MessageType.TRANSACTION: "send it in a transaction",
}


def _check_labels(tag: object, keys: Sequence[str], properties: Mapping[str, str], limits: TopicLimits) -> None:
    """Check what most messages have little of, apart from the hot path."""
    size = 0
    if tag is not None:
        size = len(_text("the tag", tag))
        _at_most("the tag", size, TAG_BYTES_MAX, "bytes")
        if "|" in str(tag):
            raise InvalidArgument("a tag must not contain '|', which separates tags in filters", operation="send", observed=tag)
    if isinstance(keys, str) or not isinstance(keys, Sequence):
        raise InvalidArgument("keys must be a list of strings", operation="send", observed=type(keys).__name__)
    _at_most("the number of keys", len(keys), KEYS_MAX, "keys")
    size += sum(len(_text("a key", key)) for key in keys)
    if not isinstance(properties, Mapping):
        raise InvalidArgument(
            "properties must be a mapping of strings to strings", operation="send", observed=type(properties).__name__
        )
    _at_most("the number of properties", len(properties), limits.properties, "properties", setting="properties")
    for name, value in properties.items():
        size += len(_text("a property's name", name)) + len(_text(f"property {name!r}", value, may_be_empty=True))
    _at_most("properties, tag and keys together", size, limits.properties_bytes, "bytes", setting="properties_bytes")


def _text(what: str, value: object, *, may_be_empty: bool = False) -> bytes:
    if not isinstance(value, str):
        raise InvalidArgument(f"{what} must be a string", operation="send", observed=type(value).__name__)
    if not value.isprintable() or not (may_be_empty or value.strip()):
        raise InvalidArgument(f"{what} must be visible characters", operation="send", observed=repr(value))
    return value.encode()


def _at_most(what: str, observed: int, limit: int, unit: str, *, setting: str | None = None) -> None:
    """Raise if a size is over the limit. ``setting`` is the topic's setting, if the limit is one."""
    if observed > limit:
        raise LimitExceeded(
            f"{what} is over the limit",
            operation="send",
            expected=f"at most {limit} {unit}",
            observed=f"{observed} {unit}",
            hint=None if setting is None else limit_hint(setting),
        )


def limit_hint(setting: str) -> str:
    """A hint how to stay below a topic's limit, or raise it."""
    less = "ask for an earlier time" if setting == "delay" else "send less"
    return f"{less}, or raise the topic's limit: alter_topic(…, limits=TopicLimits({setting}=…))"
