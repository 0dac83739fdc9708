"""Checks Arrow data that users send, column by column."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InvalidArgument, LimitExceeded, MessageTypeMismatch, SequenceError
from ..limits import TIME_MAX_MS, TopicLimits, plain
from ..schema.stored_columns import FlattenedParts
from .message import NOTHING_SENT, RARE, SEND_SCHEMA, limit_hint
from .message_type import MessageType


class ArrowData(Protocol):
    """What a type checker sees of a `pyarrow.Table`, a `pyarrow.RecordBatch` or a DataFrame, as pyarrow has no types."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> object: ...  # noqa: ANN401 - libraries differ


_Refusal: TypeAlias = type[InvalidArgument | LimitExceeded | MessageTypeMismatch]


def check_arrow(data: object, topic_type: MessageType, limits: TopicLimits, queues: int) -> pa.Table:
    """``data`` with all of `SEND_SCHEMA`'s columns, missing ones NULL, ``message_group`` dictionary-encoded. Raises `InvalidArgument`,
    `LimitExceeded` or `MessageTypeMismatch` naming the column and the first bad row.
    """
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if not isinstance(data, pa.Table):
        raise InvalidArgument("send_batch takes Arrow data or messages", operation="send_batch", observed=type(data).__name__)
    if topic_type is MessageType.TRANSACTION:
        raise MessageTypeMismatch(
            "the topic takes TRANSACTION messages, and these are in no transaction",
            operation="send_batch",
            expected=MessageType.TRANSACTION,
            hint="send them in a transaction, or to a topic of another type",
        )
    unknown = sorted(set(data.column_names) - set(SEND_SCHEMA.names))
    twice = sorted({name for name in data.column_names if data.column_names.count(name) > 1})
    if unknown or twice or "body" not in data.column_names:
        wrong = f"unknown columns {unknown}" if unknown else f"columns {twice} are there twice"
        raise InvalidArgument(
            wrong if unknown or twice else "the column body is missing",
            operation="send_batch",
            expected=", ".join(SEND_SCHEMA.names),
            observed=", ".join(data.column_names),
        )
    columns: dict[str, pa.Array | pa.ChunkedArray] = {field.name: _column(data, field) for field in SEND_SCHEMA}
    columns["message_group"] = groups = _distinct(columns["message_group"])
    table = pa.table(columns)
    _check_bodies(table["body"], limits)
    _check_groups(groups, topic_type, limits)
    _check_type(table["delivery_timestamp"], topic_type)
    if (born := table["born_timestamp"]).null_count < len(born):
        _check_births(born)
    chosen = table["queue"]
    if chosen.null_count < len(chosen):
        outside = pc.or_(pc.less(chosen, 0), pc.greater_equal(chosen, queues))
        _refuse(outside, f"the topic has queues 0 to {queues - 1}", InvalidArgument)
    if any(table[name].null_count < table.num_rows for name in ("tag", "keys", "properties")):
        _check_labels(table, limits)
    if any(table[name].null_count < table.num_rows for name in RARE):
        _check_foreign(table, limits)
    return table


def _column(data: pa.Table, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    if field.name not in data.column_names:
        return pa.nulls(data.num_rows, field.type)
    given = data.schema.field(field.name).type
    if pa.types.is_timestamp(field.type) and pa.types.is_timestamp(given) and given.tz is None:
        raise InvalidArgument(
            f"column {field.name} has no zone", operation="send_batch", expected=field.type, observed=given, hint=NOTHING_SENT
        )
    try:
        if pa.types.is_timestamp(field.type) and pa.types.is_integer(given):
            raise pa.ArrowTypeError("a number has no unit")
        made = data[field.name].cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise InvalidArgument(
            f"column {field.name} has the wrong type",
            operation="send_batch",
            expected=field.type,
            observed=given,
        ) from error
    try:
        made.validate(full=True)  # text that is none would make all rows of its entry unreadable
    except pa.ArrowInvalid as error:
        raise InvalidArgument(
            f"column {field.name} is damaged",
            operation="send_batch",
            expected=field.type,
            observed=plain(str(error)),
            hint=NOTHING_SENT,
        ) from error
    return made


def _check_bodies(bodies: pa.ChunkedArray, limits: TopicLimits) -> None:
    lengths = pc.binary_length(bodies)
    if (pc.max(lengths).as_py() or 0) > limits.max_body_bytes:
        said = f"the body is over {limits.max_body_bytes} bytes"
        _refuse(pc.greater(lengths, limits.max_body_bytes), said, LimitExceeded, setting="max_body_bytes")


def _check_groups(groups: pa.DictionaryArray, topic_type: MessageType, limits: TopicLimits) -> None:
    if topic_type is MessageType.FIFO and groups.null_count:
        said = "the topic takes FIFO messages, and this is a NORMAL message: message_group is null"
        _refuse(pc.is_null(groups), said, MessageTypeMismatch)
    if topic_type is MessageType.NORMAL and groups.null_count < len(groups):
        said = "the topic takes NORMAL messages, and this is a FIFO message: message_group is given"
        _refuse(pc.is_valid(groups), said, MessageTypeMismatch)
    too_long = pc.greater(pc.binary_length(groups.dictionary), limits.max_message_group_bytes)
    if (number := pc.index(too_long, True).as_py()) >= 0:
        said = f"the message group is over {limits.max_message_group_bytes} bytes"
        _refuse(pc.equal(groups.indices, number), said, LimitExceeded, setting="max_message_group_bytes")
    _check_texts("the message group", groups)


def _check_type(due: pa.ChunkedArray, topic_type: MessageType) -> None:
    if topic_type is MessageType.DELAY and due.null_count:
        said = "the topic takes DELAY messages, and this is none: delivery_timestamp is null"
        _refuse(pc.is_null(due), said, MessageTypeMismatch)
    if topic_type is not MessageType.DELAY and due.null_count < len(due):
        said = f"the topic takes {topic_type} messages, and this is a DELAY message: delivery_timestamp is given"
        _refuse(pc.is_valid(due), said, MessageTypeMismatch)


def _check_births(born: pa.ChunkedArray) -> None:
    born_us = born.cast(pa.int64())
    _refuse(pc.less(born_us, 0), "born_timestamp is before 1970", InvalidArgument)
    _refuse(pc.greater(born_us, 1000 * TIME_MAX_MS), "born_timestamp is behind the year 9999", InvalidArgument)


def check_delivery_times(due: pa.ChunkedArray, limit: timedelta, now_us: int) -> None:
    """Raise `InvalidArgument` or `LimitExceeded`, naming the first bad row."""
    due_us = due.cast(pa.int64())
    _refuse(pc.less(due_us, 0), "delivery_timestamp is before 1970", InvalidArgument)
    latest_us = now_us + limit // timedelta(microseconds=1)
    _refuse(pc.greater(due_us, latest_us), f"delivery_timestamp is more than {limit} from now", LimitExceeded, setting="max_delay")


def _check_labels(table: pa.Table, limits: TopicLimits) -> None:
    tags = _distinct(table["tag"])
    _check_texts("the tag", tags)
    _refuse(pc.match_substring(table["tag"], "|"), "a tag must not contain '|', which separates tags in filters", InvalidArgument)
    keys, properties = table["keys"].combine_chunks(), table["properties"].combine_chunks()
    too_many = pa.array(np.diff(np.asarray(properties.offsets)) > limits.max_properties)
    _refuse(too_many, f"more than {limits.max_properties} properties", LimitExceeded, setting="max_properties")
    _check_list("a key", keys, keys.values)
    _check_list("a property's name", properties, properties.keys)
    _check_list("a property's value", properties, properties.items, may_be_empty=True)
    sizes = _list_bytes(properties, properties.keys) + _list_bytes(properties, properties.items)
    sizes = sizes + _list_bytes(keys, keys.values) + pc.binary_length(table["tag"]).combine_chunks().fill_null(0).to_numpy()
    said = f"properties, tag and keys together are over {limits.max_properties_bytes} bytes"
    _refuse(pa.array(sizes > limits.max_properties_bytes), said, LimitExceeded, setting="max_properties_bytes")


def _check_foreign(table: pa.Table, limits: TopicLimits) -> None:
    headers = table["headers"].combine_chunks()
    too_many = pc.fill_null(pc.greater(pc.list_value_length(headers), limits.headers_max), False)
    _refuse(too_many, f"more than {limits.headers_max} headers", LimitExceeded, setting="max_headers")
    flat = FlattenedParts(headers)
    names, values = (flat.of(headers.values).field(place) for place in range(2))
    if names.null_count:
        row = int(flat.owners[pc.index(names.is_null(), True).as_py()])
        raise _refusal(row, "a header's name is null", InvalidArgument)
    parts = (pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False) for column in (names, values))
    sizes = np.bincount(flat.owners, weights=np.sum(list(parts), axis=0), minlength=len(headers))
    sizes = sizes + pc.fill_null(pc.binary_length(table["key"]), 0).to_numpy()
    said = f"key and headers together are over {limits.headers_bytes_max} bytes"
    _refuse(pa.array(sizes > limits.headers_bytes_max), said, LimitExceeded, setting="max_headers_bytes")


def _check_texts(what: str, column: pa.DictionaryArray) -> None:
    if (number := pc.index(invisible(column.dictionary), True).as_py()) >= 0:
        _refuse(pc.equal(column.indices, number), f"{what} must be visible characters", InvalidArgument)


def _check_list(what: str, lists: pa.Array, texts: pa.Array, *, may_be_empty: bool = False) -> None:
    offsets = np.asarray(lists.offsets)
    bad = invisible(texts.slice(offsets[0], offsets[-1] - offsets[0]), may_be_empty=may_be_empty)
    if (number := pc.index(bad, True).as_py()) >= 0:
        row = int(np.searchsorted(offsets - offsets[0], number, side="right")) - 1
        raise _refusal(row, f"{what} must be visible characters", InvalidArgument)


def invisible(texts: pa.Array, *, may_be_empty: bool = False) -> pa.Array:
    bad = pc.invert(pc.utf8_is_printable(texts))
    if not may_be_empty:
        bad = pc.or_(bad, pc.equal(pc.binary_length(pc.utf8_trim_whitespace(texts)), 0))
    return pc.fill_null(bad, True)


def check_rising(sequences: npt.NDArray[np.int64]) -> None:
    """Raise `SequenceError`, naming the first row whose sequence does not rise."""
    stuck = np.flatnonzero(sequences[1:] <= sequences[:-1])
    if len(stuck):
        row = int(stuck[0]) + 1
        raise SequenceError(
            "the sequences do not rise from row to row",
            operation="send_batch",
            object=f"row {row}",
            expected=f"above {sequences[row - 1]}",
            observed=sequences[row],
            hint=NOTHING_SENT,
        )


def _refuse(bad: pa.ChunkedArray | pa.Array, message: str, error: _Refusal, *, setting: str | None = None) -> None:
    if (row := pc.index(bad, True).as_py()) >= 0:
        raise _refusal(row, message, error, setting=setting)


def _refusal(
    row: int, message: str, error: _Refusal, *, setting: str | None = None
) -> InvalidArgument | LimitExceeded | MessageTypeMismatch:
    hint = NOTHING_SENT if setting is None else f"{NOTHING_SENT}; {limit_hint(setting)}"
    return error(message, operation="send_batch", object=f"row {row}", hint=hint)


def _distinct(texts: pa.Array | pa.ChunkedArray) -> pa.DictionaryArray:
    whole = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    return whole.dictionary_encode()


def _list_bytes(lists: pa.Array, values: pa.Array) -> npt.NDArray[np.int64]:
    offsets = np.asarray(lists.offsets, np.int64)
    lengths = pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.r_[0, np.cumsum(lengths)]
    return np.asarray(ends[offsets[1:] - offsets[0]] - ends[offsets[:-1] - offsets[0]], np.int64)


def columns_of(data: object) -> object:
    """A table of an object with Arrow columns, such as a DataFrame; else the object."""
    if isinstance(data, Mapping):
        raise InvalidArgument(
            "send_batch takes many rows, and this is one dict",
            operation="send_batch",
            observed=plain(data),
            hint="send_row(row) sends one row, pyarrow.table(columns) makes a table of columns",
        )
    if isinstance(data, pa.Table | pa.RecordBatch) or not hasattr(data, "__arrow_c_stream__"):
        return data
    try:
        return pa.table(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidArgument("this makes no Arrow table", operation="send_batch", observed=plain(error)) from error
