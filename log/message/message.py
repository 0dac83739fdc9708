"""Messages and their Arrow columns."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple, NoReturn, TypeAlias, TypeVar

import pyarrow as pa

from ..errors import CallError, InvalidArgument, LimitExceeded, MessageTypeMismatch
from ..limits import MESSAGE_ID_CHARS_MAX, Duration, StringList, TopicLimits, named_tuple_text, plain
from ..schema.class_values import value_of_class
from ..schema.value_column import ValueColumn
from ..schema.value_json import value_json
from .message_type import MessageType

T = TypeVar("T")
MaybeNone: TypeAlias = Any
"""Any, where None occurs too and a check at every use would be a burden (typeshed's name)."""

_SURROGATES = frozenset(map(chr, range(0xD800, 0xE000)))
_ID = re.compile(rf"[!-~]{{1,{MESSAGE_ID_CHARS_MAX}}}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


Header: TypeAlias = "tuple[str, bytes | None]"


class Message(NamedTuple):
    """A message to send. ``send`` checks its limits (`TopicLimits`).

    Order is kept within a ``message_group``, which is required on FIFO topics. ``tag`` and ``properties`` can be filtered on, ``keys`` looked up.

    Messages for a topic of type DELAY have a ``delivery_timestamp`` with a zone, or a ``delay`` counted from ``send``: a `timedelta` or seconds. A
    time that has passed means at once. A message group there keeps the order of its messages once they are due.
    """

    body: bytes | None
    """None is a tombstone, no empty body. In a topic with a schema ``value`` is the content, and this None."""
    message_group: str | None = None
    tag: str | None = None
    keys: StringList = ()
    properties: Mapping[str, str] = {}
    delivery_timestamp: datetime | None = None
    delay: Duration | None = None
    key: bytes | None = None
    """A binary key of other systems' clients. It routes nothing: a ``message_group`` does."""
    headers: Sequence[Header] = ()
    """Names and binary values, in order; names may repeat."""
    value: object = None
    """The row, in a topic with a schema."""
    message_id: str | None = None
    """An id of visible ASCII characters, if needed before ``send``; else Penstock gives a unique one."""

    def __repr__(self) -> str:
        return named_tuple_text(self, self._fields)

    @staticmethod
    def json(
        value: object,
        *,
        message_group: str | None = None,
        tag: str | None = None,
        keys: StringList = (),
        properties: Mapping[str, str] | None = None,
        delivery_timestamp: datetime | None = None,
        delay: Duration | None = None,
    ) -> Message:
        """A message whose body is ``value`` as compact UTF-8 JSON. Raises `InvalidArgument` for other values."""
        try:
            body = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise InvalidArgument("the value is not JSON", operation="Message.json", observed=str(error)) from error
        return Message(body, message_group, tag, keys, properties or {}, delivery_timestamp, delay)

    @staticmethod
    def of(
        row: object,
        *,
        message_group: str | None = None,
        tag: str | None = None,
        keys: StringList = (),
        properties: Mapping[str, str] | None = None,
        delivery_timestamp: datetime | None = None,
        delay: Duration | None = None,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
    ) -> Message:
        """A message whose content is a row: a dict, dataclass, named tuple or pydantic model. It is checked by ``send``."""
        return Message(None, message_group, tag, keys, properties or {}, delivery_timestamp, delay, key, headers, row)

    @property
    def message_type(self) -> MessageType:
        """DELAY with a delivery time or a delay, else FIFO with a message group, else NORMAL."""
        if self.delivery_timestamp is not None or self.delay is not None:
            return MessageType.DELAY
        return MessageType.NORMAL if self.message_group is None else MessageType.FIFO


class MessageView(NamedTuple):
    """A message as it is stored."""

    topic: str
    queue: int
    offset: int
    """The place in the queue: dense, from 0, never used twice."""
    message_id: str
    message_group: str | None
    tag: str | None
    keys: tuple[str, ...]
    properties: dict[str, str]
    body: bytes | MaybeNone
    """None for a tombstone, and in a topic with a schema."""
    born_timestamp: datetime
    """The time of ``send``, by the producer's corrected clock, or as ``send_batch`` was given it."""
    store_timestamp: datetime
    """The time of the append; never goes back along a topic."""
    delivery_timestamp: datetime | MaybeNone
    """None but for delayed messages."""
    producer: str
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    value: Any = None
    """The row as a dict by present names, in a topic with a schema. None for a tombstone."""
    delivery_attempt: int = 1
    epoch: int = 0
    """The epoch of the queue's ownership at this delivery."""
    receipt_handle: str = ""
    """The handle that acknowledges this delivery, from any process. Set by ``receive``."""

    def __repr__(self) -> str:
        return named_tuple_text(self, self._fields)

    @property
    def fencing_token(self) -> tuple[int, int, int, int]:
        """(queue, epoch, offset, delivery attempt). Within a queue the higher epoch is the later owner's, so that a store of effects can refuse a
        replaced owner.
        """
        return self.queue, self.epoch, self.offset, self.delivery_attempt

    @property
    def content(self) -> bytes:
        """The body, or the row as JSON in a topic with a schema; empty for a tombstone."""
        if self.value is not None:
            return value_json(self.value).encode()
        return b"" if self.body is None else self.body

    def stored(self) -> dict[str, Any]:
        """The stored values by name."""
        return {name: value for name, value in self._asdict().items() if name not in OF_A_DELIVERY}

    def json(self) -> Any:  # noqa: ANN401 - any JSON value
        """The body parsed as JSON, or the row; None for a tombstone. Raises `InvalidArgument` when the body is no JSON."""
        if self.value is not None:
            return json.loads(value_json(self.value))
        try:
            return None if self.body is None else json.loads(self.body)
        except ValueError as error:
            where = f"{self.topic}, queue {self.queue}, offset {self.offset}"
            raise InvalidArgument("the body is not JSON", operation="message.json", object=where, observed=str(error)) from error

    def as_(self, cls: type[T]) -> T | None:
        """The row as a ``cls``: a dataclass, named tuple, TypedDict or pydantic model; None for a tombstone.

        Fields that ``cls`` lacks are left out. Raises `InvalidArgument` for a missing required field.
        """
        return value_of_class(self.value, cls)


OF_A_DELIVERY = frozenset({"delivery_attempt", "epoch", "receipt_handle"})


class _NoProperties(dict[str, str]):
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
_KEY = pa.field("key", pa.binary())
_HEADERS = pa.field("headers", pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))))
VALUE = "value"
"""The struct column of typed rows, behind all others."""
RARE = ("key", "headers")
"""Left out of files where all rows have NULL."""

LOG_SCHEMA = pa.schema([_QUEUE, *_PAYLOAD, _DELIVERY, _PRODUCER, _KEY, _HEADERS])
"""The columns in entries and staged objects."""

MESSAGE_SCHEMA = pa.schema(
    [
        _QUEUE,
        pa.field("offset", pa.int64()),
        *_PAYLOAD,
        pa.field("store_timestamp", _TIME),
        _DELIVERY,
        _PRODUCER,
        _KEY,
        _HEADERS,
    ]
)
"""The columns of readers and of the topic's table; a ``value`` comes behind them."""

SEND_SCHEMA = pa.schema([_QUEUE, *_PAYLOAD[1:6], _DELIVERY, _KEY, _HEADERS, pa.field("sequence", pa.int64()), _PAYLOAD[6]])
"""The columns that ``send_batch`` takes. Only ``body`` is required, and ``delivery_timestamp`` by topics of type DELAY. A topic
with a schema takes the fields of its rows instead of ``body``."""

COPY_SCHEMA = pa.schema([*SEND_SCHEMA, _PAYLOAD[0]])
"""Columns of messages that keep their id on the way to another topic."""


def views(
    topic: str, batch: pa.RecordBatch | pa.Table, *, attempts: Iterable[int] | None = None, epoch: int = 0
) -> Iterator[MessageView]:
    """The rows of a batch with `MESSAGE_SCHEMA` as messages. ``attempts`` are by default 1."""
    columns = view_columns(topic, batch, epoch=epoch)
    if attempts is not None:
        of_each = [attempt for _, attempt in zip(range(batch.num_rows), attempts, strict=True)]
        columns[_ATTEMPT] = of_each
    return views_of(columns)


Column: TypeAlias = "list[Any] | ValueColumn | repeat[Any]"


def view_columns(topic: str, batch: pa.RecordBatch | pa.Table, *, epoch: int = 0) -> list[Column]:
    return [
        repeat(topic),
        batch.column("queue").to_pylist(),
        batch.column("offset").to_pylist(),
        batch.column("message_id").to_pylist(),
        _texts(batch.column("message_group")),
        _texts(batch.column("tag")),
        _keys(batch.column("keys")),
        _properties(batch.column("properties")),
        _texts(batch.column("body")),
        _times(batch.column("born_timestamp")),
        _times(batch.column("store_timestamp")),
        _times(batch.column("delivery_timestamp")),
        _texts(batch.column("producer")),
        _texts(batch.column("key")),
        _headers(batch.column("headers")),
        ValueColumn.of(batch.column(VALUE)) if VALUE in batch.schema.names else repeat(None),
        repeat(1),
        repeat(epoch),
        repeat(""),
    ]


def views_of(columns: Sequence[Iterable[Any]]) -> Iterator[MessageView]:
    return map(_make_view, zip(*columns, strict=False))


_ATTEMPT = MessageView._fields.index("delivery_attempt")
_make_view: Callable[[Iterable[Any]], MessageView] = partial(tuple.__new__, MessageView)
"""Faster than `MessageView._make`: no Python call for every message."""


def _texts(column: pa.Array | pa.ChunkedArray) -> Column:
    return repeat(None) if column.null_count == len(column) else column.to_pylist()


def _headers(column: pa.Array | pa.ChunkedArray) -> Column:
    if column.null_count == len(column):
        return repeat(())
    return [tuple((one["key"], one["value"]) for one in headers) if headers else () for headers in column.to_pylist()]


def _keys(column: pa.Array | pa.ChunkedArray) -> Column:
    if _is_empty(column):
        return repeat(())
    return [tuple(keys) if keys else () for keys in column.to_pylist()]


def _properties(column: pa.Array | pa.ChunkedArray) -> Column:
    """The properties of each message; read-only where there are none, to spare the garbage collector."""
    if _is_empty(column):
        return repeat(_NO_PROPERTIES)
    return [dict(pairs) if pairs else _NO_PROPERTIES for pairs in column.to_pylist()]


def _is_empty(lists: pa.Array | pa.ChunkedArray) -> bool:
    chunks = lists.chunks if isinstance(lists, pa.ChunkedArray) else [lists]
    return all(not len(chunk) or chunk.offsets[0].as_py() == chunk.offsets[-1].as_py() for chunk in chunks)


def _times(column: pa.Array | pa.ChunkedArray) -> Column:
    if column.null_count == len(column):
        return repeat(None)
    ticks = column.view(pa.int64()) if isinstance(column, pa.Array) else column.cast(pa.int64())  # a view is far quicker
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


def check_message(message: Message, topic_type: MessageType, limits: TopicLimits, *, derives_group: bool = False) -> None:
    """Raise unless ``message`` may be sent to the topic. ``derives_group``: a field gives a FIFO topic's groups."""
    if not isinstance(message, Message):
        raise InvalidArgument("send takes a penstock.Message", operation="send", observed=type(message).__name__)
    if message.message_type not in topic_type.taken and not (
        derives_group and topic_type is MessageType.FIFO and message.message_type is MessageType.NORMAL
    ):
        raise MessageTypeMismatch(
            f"the topic takes {topic_type} messages, and this is a {message.message_type} message",
            operation="send",
            expected=", ".join(topic_type.taken),
            observed=message.message_type,
            hint=_NO_DELAY if message.message_type is MessageType.DELAY else _TYPE_HINTS[topic_type],
        )
    body, group, tag, keys, properties, _, _, key, headers, _, identity = message
    if body is not None:
        if not isinstance(body, bytes | bytearray | memoryview):
            raise InvalidArgument(
                "the body must be bytes", operation="send", observed=type(body).__name__, hint="Message.json(...) encodes"
            )
        _at_most("the body", _size(body), limits.max_body_bytes, "bytes", setting="max_body_bytes")
    if group is not None:
        _at_most(
            "the message group",
            len(_text("the message group", group)),
            limits.max_message_group_bytes,
            "bytes",
            setting="max_message_group_bytes",
        )
    _check_labels(tag, keys, properties, limits)
    if key is not None or headers:
        _check_foreign(key, headers, limits)
    if identity is not None:
        _check_id(identity)


def checked_each(messages: Iterable[Message], check: Callable[[Message], T]) -> Iterator[T]:
    for number, message in enumerate(messages):
        try:
            yield check(message)
        except CallError as error:
            error.operation, error.object = "send_batch", f"message {number}"
            error.hint = NOTHING_SENT if error.hint is None else f"{NOTHING_SENT}; {error.hint}"
            raise


def frozen(message: Message) -> Message:
    """A copy that its sender cannot change later."""
    body, group, tag, keys, properties, due, delay, key, headers, value, identity = message
    return Message(
        None if body is None else bytes(body),
        group,
        tag,
        tuple(keys),
        dict(properties),
        due,
        delay,
        None if key is None else bytes(key),
        tuple((name, None if content is None else bytes(content)) for name, content in headers),
        value,
        identity,
    )


def _size(data: bytes | bytearray | memoryview) -> int:
    return data.nbytes if isinstance(data, memoryview) else len(data)


def labels_bytes(message: Message) -> int:
    size = sum(map(len, message.keys)) + sum(len(name) + len(value) for name, value in message.properties.items())
    size += 0 if message.key is None else len(message.key)
    size += 0 if message.message_id is None else len(message.message_id)
    return size + sum(len(name) + len(value or b"") for name, value in message.headers)


NOTHING_SENT = "nothing of the batch was sent"
_NO_DELAY = "leave delivery_timestamp and delay out, or create a topic of type DELAY"
_TYPE_HINTS = {
    MessageType.FIFO: "give the message a message_group",
    MessageType.NORMAL: "leave message_group and delivery_timestamp out, or create a topic of the message's type",
    MessageType.DELAY: "give the message a delivery_timestamp or a delay",
    MessageType.TRANSACTION: "send it in a transaction",
}


def _check_labels(tag: object, keys: StringList, properties: Mapping[str, str], limits: TopicLimits) -> None:
    size = 0
    if tag is not None:
        size = len(_text("the tag", tag))
        if "|" in str(tag):
            raise InvalidArgument("a tag must not contain '|', which separates tags in filters", operation="send", observed=tag)
    if isinstance(keys, str) or not isinstance(keys, Sequence):
        raise InvalidArgument("keys must be a list of strings", operation="send", observed=type(keys).__name__)
    size += sum(len(_text("a key", key)) for key in keys)
    if not isinstance(properties, Mapping):
        raise InvalidArgument(
            "properties must be a mapping of strings to strings", operation="send", observed=type(properties).__name__
        )
    _at_most("the number of properties", len(properties), limits.max_properties, "properties", setting="max_properties")
    for name, value in properties.items():
        size += len(_text("a property's name", name)) + len(_text(f"property {name!r}", value, may_be_empty=True))
    _at_most("properties, tag and keys together", size, limits.max_properties_bytes, "bytes", setting="max_properties_bytes")


def _check_foreign(key: object, headers: object, limits: TopicLimits) -> None:
    size = 0
    if key is not None:
        if not isinstance(key, bytes | bytearray | memoryview):
            raise InvalidArgument("the key must be bytes", operation="send", observed=plain(key))
        size += _size(key)
    if isinstance(headers, str | bytes) or not isinstance(headers, Sequence):
        raise InvalidArgument("headers must be a list of (name, value) pairs", operation="send", observed=plain(headers))
    _at_most("the number of headers", len(headers), limits.headers_max, "headers", setting="max_headers")
    for header in headers:
        if not isinstance(header, tuple | list) or len(header) != 2:
            raise InvalidArgument("a header must be a (name, value) pair", operation="send", observed=plain(header))
        name, value = header
        if not isinstance(name, str) or not _SURROGATES.isdisjoint(name):
            raise InvalidArgument("a header's name must be a text", operation="send", observed=plain(name))
        if value is not None and not isinstance(value, bytes | bytearray | memoryview):
            raise InvalidArgument(f"header {name!r} must be bytes or None", operation="send", observed=plain(value))
        size += len(name.encode()) + (0 if value is None else _size(value))
    _at_most("key and headers together", size, limits.headers_bytes_max, "bytes", setting="max_headers_bytes")


def _check_id(identity: object) -> None:
    if not isinstance(identity, str) or not _ID.fullmatch(identity):
        raise InvalidArgument(
            "a message's id is no id",
            operation="send",
            expected=f"1 to {MESSAGE_ID_CHARS_MAX} visible ASCII characters",
            observed=plain(identity),
            hint="leave message_id out: then Penstock gives one",
        )


def check_no_ids(messages: Iterable[Message], topic: str) -> None:
    """Raises `InvalidArgument` for messages with ids of their own."""
    if any(message.message_id is not None for message in messages):
        raise InvalidArgument(
            "the rows of one batch have no ids of their own",
            operation="send_batch",
            object=topic,
            hint="send messages with a message_id one by one",
        )


def _text(what: str, value: object, *, may_be_empty: bool = False) -> bytes:
    if not isinstance(value, str):
        raise InvalidArgument(f"{what} must be a string", operation="send", observed=type(value).__name__)
    if not value.isprintable() or not (may_be_empty or value.strip()):
        raise InvalidArgument(f"{what} must be visible characters", operation="send", observed=repr(value))
    return value.encode()


def _at_most(what: str, observed: int, limit: int, unit: str, *, setting: str | None = None) -> None:
    """Raise if a size is over the limit. ``setting`` names the topic's setting."""
    if observed > limit:
        raise LimitExceeded(
            f"{what} is over the limit",
            operation="send",
            expected=f"at most {limit} {unit}",
            observed=f"{observed} {unit}",
            hint=None if setting is None else limit_hint(setting),
        )


def limit_hint(setting: str) -> str:
    less = "ask for an earlier time" if setting == "max_delay" else "send less"
    return f"{less}, or raise the topic's limit: alter_topic(…, limits=TopicLimits({setting}=…))"
