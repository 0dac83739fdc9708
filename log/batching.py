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

_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint8).reshape(256, 2)
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
    def ranks(self) -> npt.NDArray[np.int64]:
        """How many messages of the same queue stand before each message."""
        order = _stable_order(self.queues)
        starts = np.zeros(len(order), np.int64)
        sorted_queues = self.queues[order]
        first = np.flatnonzero(np.r_[True, sorted_queues[1:] != sorted_queues[:-1]]) if len(order) else np.empty(0, np.int64)
        lengths = np.diff(np.r_[first, len(order)])
        starts = np.arange(len(order)) - np.repeat(first, lengths)
        ranks = np.empty(len(order), np.int64)
        ranks[order] = starts
        return ranks


@dataclass(frozen=True, eq=False)
class BatchRows:
    """The rows of one batch."""

    table: pa.Table
    """With `LOG_SCHEMA`, sorted by queue, and by sending order within each."""
    places: Places

    @property
    def size_bytes(self) -> int:
        """Of the rows in memory, uncompressed."""
        return int(self.table.get_total_buffer_size())


def message_id(prefix: int, number: int) -> str:
    """32 hexadecimal digits: a random number of the open producer, and the message's number in it."""
    return f"{prefix:016x}{number:016x}"


@dataclass(frozen=True, slots=True)
class MessageIds:
    """The ids of a batch's messages: those of one open producer begin alike, and count up."""

    prefix: int
    first_number: int

    def column(self, count: int) -> pa.Array:
        """Of the first ``count`` messages, built without a Python object for each."""
        numbers = np.empty((count, 2), ">u8")
        numbers[:, 0] = self.prefix
        numbers[:, 1] = np.arange(self.first_number, self.first_number + count, dtype=np.uint64)
        text = _HEX[numbers.view(np.uint8).reshape(-1)].reshape(-1)
        offsets = np.arange(0, (count + 1) * _ID_CHARS, _ID_CHARS, dtype=np.int32)
        return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(text)))


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
    count = len(messages)
    group_column = pa.array([message[1] for message in messages], pa.string())
    tags = [message[2] for message in messages] if labelled else []
    keys = [message[3] for message in messages] if labelled else []
    properties = [message[4] for message in messages] if labelled else []
    routed = router.route(group_column)
    for index, queue in queues.items():
        routed[index] = queue
    columns = {
        "queue": pa.array(routed),
        "message_id": ids.column(count),
        "message_group": group_column,
        "tag": pa.array(tags, pa.string()) if any(tags) else pa.nulls(count, pa.string()),
        "keys": pa.array(map(list, keys), _KEYS_TYPE) if any(keys) else _all_empty(_KEYS_TYPE, count),
        "properties": _properties(properties) if any(properties) else _all_empty(_PROPERTIES_TYPE, count),
        "body": pa.array([message[0] for message in messages], pa.binary()),
        "born_timestamp": pa.array(born_us).view(_TIME_TYPE),
        "delivery_timestamp": pa.nulls(count, _TIME_TYPE),
        "producer": pa.repeat(pa.scalar(producer), count),
    }
    return _sorted_by_queue(pa.table(columns, schema=LOG_SCHEMA), routed)


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
    columns = {
        "queue": pa.array(routed),
        "message_id": ids.column(count),
        "message_group": groups,
        "tag": data["tag"],
        "keys": data["keys"]
        if data["keys"].null_count == 0
        else pc.if_else(data["keys"].is_valid(), data["keys"], pa.scalar([], _KEYS_TYPE)),
        "properties": _without_nulls(data["properties"].combine_chunks()),
        "body": data["body"],
        "born_timestamp": pa.repeat(pa.scalar(born_us, pa.int64()), count).view(_TIME_TYPE),
        "delivery_timestamp": pa.nulls(count, _TIME_TYPE),
        "producer": pa.repeat(pa.scalar(producer), count),
    }
    return _sorted_by_queue(pa.table(columns, schema=LOG_SCHEMA), routed)


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


def _sorted_by_queue(table: pa.Table, queues: npt.NDArray[np.int32]) -> BatchRows:
    if len(queues) > 1 and (queues[1:] < queues[:-1]).any():
        table = table.take(pa.array(_stable_order(queues)))
    return BatchRows(table, Places(queues))


def _stable_order(queues: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    return np.argsort(queues.astype(np.uint16), kind="stable")  # 16 bits: numpy sorts them by radix


def _properties(properties: Sequence[Mapping[str, str]]) -> pa.Array:
    return pa.array([list(one.items()) for one in properties], _PROPERTIES_TYPE)


def _all_empty(kind: pa.DataType, count: int) -> pa.Array:
    """``count`` empty lists or maps."""
    offsets = pa.array(np.zeros(count + 1, np.int32))
    if pa.types.is_map(kind):
        return pa.MapArray.from_arrays(offsets, pa.array([], kind.key_type), pa.array([], kind.item_type), type=kind)
    return pa.ListArray.from_arrays(offsets, pa.array([], kind.value_type), type=kind)


def _without_nulls(maps: pa.Array) -> pa.Array:
    """A map column with empty maps for nulls."""
    if maps.null_count == 0:
        return maps
    if maps.null_count == len(maps):
        return _all_empty(_PROPERTIES_TYPE, len(maps))
    return pa.array([one or [] for one in maps.to_pylist()], _PROPERTIES_TYPE)
