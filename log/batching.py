"""From messages to the rows of a batch: columns built at once, routed, and sorted by queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .errors import InvalidArgument, LimitExceeded, MessageTypeMismatch
from .limits import TopicLimits
from .messages import LOG_SCHEMA, SEND_SCHEMA, Message, MessageType
from .routing import Router

_HEX = np.frombuffer(b"".join(b"%04x" % number for number in range(1 << 16)), np.uint32)
_ID_CHARS = 32
_KEYS_TYPE = LOG_SCHEMA.field("keys").type
_PROPERTIES_TYPE = LOG_SCHEMA.field("properties").type
_TIME_TYPE = LOG_SCHEMA.field("born_timestamp").type


@dataclass(frozen=True, eq=False)
class Places:
    """Where the messages of a batch go; small, so that receipts may keep it."""

    queues: npt.NDArray[np.int32]
    """The queue of every message, in sending order."""

    @cached_property
    def rows(self) -> dict[int, int]:
        """Rows of every queue."""
        counts = np.bincount(self.queues)
        return {int(queue): int(counts[queue]) for queue in np.flatnonzero(counts)}

    @cached_property
    def order(self) -> npt.NDArray[np.int64]:
        """The messages by queue, and by sending order within each."""
        return np.argsort(self.queues.astype(np.uint16), kind="stable")  # 16 bits: numpy sorts them by radix

    @cached_property
    def ranks(self) -> npt.NDArray[np.int64]:
        """How many messages of the same queue stand before each message."""
        order = self.order
        sorted_queues = self.queues[order]
        first = np.flatnonzero(np.r_[True, sorted_queues[1:] != sorted_queues[:-1]]) if len(order) else np.empty(0, np.int64)
        lengths = np.diff(np.r_[first, len(order)])
        starts = np.arange(len(order)) - np.repeat(first, lengths)
        ranks = np.empty(len(order), np.int64)
        ranks[order] = starts
        return ranks


@dataclass(frozen=True, eq=False)
class BatchRows:
    """The rows of one batch: in parts, so that several threads can build them at once."""

    columns: Mapping[str, pa.Array | pa.ChunkedArray]
    """What differs from message to message but ids and queues, in sending order; all that is not here is empty."""
    places: Places
    ids: MessageIds
    producer: str

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.places.queues)

    @property
    def size_bytes(self) -> int:
        """Of the rows in memory, uncompressed, more or less."""
        return self.count * (_ID_CHARS + len(self.producer) + 16) + sum(column.nbytes for column in self.columns.values())

    @cached_property
    def table(self) -> pa.Table:
        """With `LOG_SCHEMA`, sorted by queue, and by sending order within each."""
        return self.part(0, self.count)

    def part(self, start: int, count: int) -> pa.Table:
        """``count`` rows of `table` from ``start`` on."""
        order = self.places.order[start : start + count]
        count = len(order)
        taken = pa.array(order)

        def column(name: str) -> pa.Array | pa.ChunkedArray:
            if name in self.columns:
                return self.columns[name].take(taken)
            return _empty(LOG_SCHEMA.field(name).type, count)

        rest = {name: column(name) for name in LOG_SCHEMA.names if name not in {"queue", "message_id", "producer"}}
        fixed = {
            "queue": pa.array(self.places.queues[order]),
            "message_id": self.ids.column(order),
            "producer": pa.repeat(pa.scalar(self.producer), count),
        }
        return pa.table({name: fixed.get(name, rest.get(name)) for name in LOG_SCHEMA.names}, schema=LOG_SCHEMA)


def message_id(prefix: int, number: int) -> str:
    """32 hexadecimal digits: a random number of the open producer, and the message's number in it."""
    return f"{prefix:016x}{number:016x}"


@dataclass(frozen=True, slots=True)
class MessageIds:
    """The ids of a batch's messages: those of one open producer begin alike, and count up."""

    prefix: int
    first_number: int

    def column(self, indices: npt.NDArray[np.int64]) -> pa.Array:
        """Of these messages, built without a Python object for each."""
        count = len(indices)
        text = np.empty((count, _ID_CHARS // 4), np.uint32)  # four digits at a time
        text[:, :4] = np.frombuffer(f"{self.prefix:016x}".encode(), np.uint32)
        numbers = indices.astype(np.uint64) + np.uint64(self.first_number)
        for place in range(4):
            text[:, -1 - place] = _HEX[numbers >> np.uint64(16 * place) & np.uint64(0xFFFF)]
        offsets = np.arange(0, (count + 1) * _ID_CHARS, _ID_CHARS, dtype=np.int32)
        return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text))


def rows_of_messages(
    messages: Sequence[Message],
    born_us: npt.NDArray[np.int64],
    queues: Mapping[int, int],
    router: Router,
    *,
    producer: str,
    ids: MessageIds,
    labelled: bool = True,
) -> BatchRows:
    """Rows for checked messages; ``queues`` names the queue of those (by index) whose sender chose it.

    Unless ``labelled``, none of them has a tag, keys or properties.
    """
    group_column = pa.array([message[1] for message in messages], pa.string())
    tags = [message[2] for message in messages] if labelled else []
    keys = [message[3] for message in messages] if labelled else []
    properties = [message[4] for message in messages] if labelled else []
    routed = router.route(group_column)
    for index, queue in queues.items():
        routed[index] = queue
    columns = {"body": pa.array([message[0] for message in messages], pa.binary()), "born_timestamp": _times(born_us)}
    if group_column.null_count < len(messages):
        columns["message_group"] = group_column
    if any(tags):
        columns["tag"] = pa.array(tags, pa.string())
    if any(keys):
        columns["keys"] = pa.array(map(list, keys), _KEYS_TYPE)
    if any(properties):
        columns["properties"] = pa.array([list(one.items()) for one in properties], _PROPERTIES_TYPE)
    return BatchRows(columns, Places(routed), ids, producer)


def rows_of_arrow(
    data: pa.Table,
    born_us: int,
    router: Router,
    *,
    producer: str,
    ids: MessageIds,
) -> BatchRows:
    """Rows for a table that `check_arrow` has passed."""
    count = data.num_rows
    groups = data["message_group"].combine_chunks()
    routed = router.route(groups)
    chosen = data["queue"].combine_chunks()
    if chosen.null_count < count:
        named = chosen.is_valid().to_numpy(zero_copy_only=False)
        routed = np.where(named, chosen.fill_null(0).to_numpy(), routed).astype(np.int32)
    columns = {"body": data["body"], "born_timestamp": _times(np.full(count, born_us))}
    columns |= {name: data[name] for name in ("message_group", "tag") if data[name].null_count < count}
    if data["keys"].null_count < count:
        columns["keys"] = _empty_for_null(data["keys"])
    if data["properties"].null_count < count:
        columns["properties"] = _without_nulls(data["properties"].combine_chunks())
    return BatchRows(columns, Places(routed), ids, producer)


def check_arrow(data: object, topic_type: MessageType, limits: TopicLimits, queues: int) -> pa.Table:
    """``data`` as a table with all of `SEND_SCHEMA`'s columns, the missing ones empty.

    Raises `InvalidArgument`, `LimitExceeded` or `MessageTypeMismatch` naming the column and the first bad row.
    """
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if not isinstance(data, pa.Table):
        raise InvalidArgument("send_batch takes Arrow data or messages", operation="send_batch", observed=type(data).__name__)
    unknown = sorted(set(data.column_names) - set(SEND_SCHEMA.names))
    if unknown or "body" not in data.column_names:
        raise InvalidArgument(
            f"unknown columns {unknown}" if unknown else "the column body is missing",
            operation="send_batch",
            expected=", ".join(SEND_SCHEMA.names),
            observed=", ".join(data.column_names),
        )
    columns = []
    for field in SEND_SCHEMA:
        if field.name not in data.column_names:
            columns.append(pa.nulls(data.num_rows, field.type))
            continue
        try:
            columns.append(data[field.name].cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise InvalidArgument(
                f"column {field.name} has the wrong type",
                operation="send_batch",
                expected=field.type,
                observed=data.schema.field(field.name).type,
            ) from error
    table = pa.table(columns, schema=SEND_SCHEMA)
    _check_values(table, topic_type, limits, queues)
    return table


def _check_values(table: pa.Table, topic_type: MessageType, limits: TopicLimits, queues: int) -> None:
    _refuse(pc.is_null(table["body"]), "column body is null", InvalidArgument)
    _refuse(
        pc.greater(pc.binary_length(table["body"]), limits.body_bytes), f"the body is over {limits.body_bytes} bytes", LimitExceeded
    )
    groups = table["message_group"]
    if topic_type is MessageType.FIFO:
        _refuse(
            pc.is_null(groups),
            "the topic takes FIFO messages, and this is a NORMAL message: message_group is null",
            MessageTypeMismatch,
        )
    else:
        _refuse(
            pc.is_valid(groups),
            "the topic takes NORMAL messages, and this is a FIFO message: message_group is given",
            MessageTypeMismatch,
        )
    group_bytes = pc.binary_length(groups)
    _refuse(pc.greater(group_bytes, limits.group_bytes), f"the message group is over {limits.group_bytes} bytes", LimitExceeded)
    _refuse(pc.equal(group_bytes, 0), "the message group is empty", InvalidArgument)
    chosen = table["queue"]
    _refuse(
        pc.or_(pc.less(chosen, 0), pc.greater_equal(chosen, queues)), f"the topic has queues 0 to {queues - 1}", InvalidArgument
    )
    _refuse(pc.match_substring(table["tag"], "|"), "a tag must not contain '|'", InvalidArgument)
    if all(table[name].null_count == table.num_rows for name in ("tag", "keys", "properties")):
        return
    properties = table["properties"].combine_chunks()
    _refuse(
        pa.array(np.diff(np.asarray(properties.offsets)) > limits.properties),
        f"more than {limits.properties} properties",
        LimitExceeded,
    )
    sizes = _list_bytes(properties, properties.keys) + _list_bytes(properties, properties.items)
    keys = table["keys"].combine_chunks()
    sizes = sizes + _list_bytes(keys, keys.values) + pc.binary_length(table["tag"]).combine_chunks().fill_null(0).to_numpy()
    _refuse(
        pa.array(sizes > limits.properties_bytes),
        f"properties, tag and keys together are over {limits.properties_bytes} bytes",
        LimitExceeded,
    )


def _refuse(
    bad: pa.ChunkedArray | pa.Array, message: str, error: type[InvalidArgument | LimitExceeded | MessageTypeMismatch]
) -> None:
    bad = pc.fill_null(bad, False)
    if pc.any(bad).as_py():
        raise error(
            message, operation="send_batch", object=f"row {pc.index(bad, True).as_py()}", hint="nothing of the batch was sent"
        )


def _list_bytes(lists: pa.Array, values: pa.Array) -> npt.NDArray[np.int64]:
    """The bytes of the strings in each row of a list or map column."""
    offsets = np.asarray(lists.offsets, np.int64)
    lengths = pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.r_[0, np.cumsum(lengths)]
    return np.asarray(ends[offsets[1:] - offsets[0]] - ends[offsets[:-1] - offsets[0]], np.int64)


def _empty_for_null(lists: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """A column of lists with empty ones for nulls."""
    if lists.null_count == 0:
        return lists
    return pc.if_else(lists.is_valid(), lists, pa.scalar([], _KEYS_TYPE))


def _times(times_us: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(times_us).view(_TIME_TYPE)


def _empty(kind: pa.DataType, count: int) -> pa.Array:
    """``count`` empty lists or maps, or nulls."""
    if not pa.types.is_nested(kind):
        return pa.nulls(count, kind)
    offsets = pa.array(np.zeros(count + 1, np.int32))
    if pa.types.is_map(kind):
        return pa.MapArray.from_arrays(offsets, pa.array([], kind.key_type), pa.array([], kind.item_type), type=kind)
    return pa.ListArray.from_arrays(offsets, pa.array([], kind.value_type), type=kind)


def _without_nulls(maps: pa.Array) -> pa.Array:
    """A map column with empty maps for nulls."""
    if maps.null_count == 0:
        return maps
    return pa.array([one or [] for one in maps.to_pylist()], _PROPERTIES_TYPE)
