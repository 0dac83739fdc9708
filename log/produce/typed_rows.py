"""Turns users' rows into checked columns, with the labels from fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InvalidArgument, MessageTypeMismatch
from ..limits import TopicLimits
from ..message.batch_rows import label_columns
from ..message.message import NOTHING_SENT, SEND_SCHEMA, VALUE, Message
from ..message.message_type import MessageType
from ..schema.columns import convert_columns
from ..schema.labels import label_ids, label_name, labelled_fields
from ..schema.sizes import largest_row_bytes, row_bytes
from ..schema.topic_schema import TopicSchema
from ..schema.value_column import ValueColumn
from ..schema.value_json import value_json
from ..schema.values import BadValue, ConvertedRows
from ..topic.settings import TopicSettings

_TOLD = 5
Bad = Mapping[int, BadValue]


@dataclass(frozen=True, slots=True)
class RowRules:
    """The rules of rows, and the sources of their labels."""

    schema: TopicSchema
    message_type: MessageType
    limits: TopicLimits
    message_group: tuple[int, ...] | None = None
    """The numbers of the fields on the path of the message group's; None: the sender gives it."""
    tag: tuple[int, ...] | None = None
    keys: tuple[tuple[int, ...], ...] = ()
    ignore_extra: bool = False


def rules_of(settings: TopicSettings, schema: TopicSchema, *, ignore_extra: bool = False) -> RowRules:
    first = settings.schema or schema
    group, tag = (None if path is None else label_ids(path, first) for path in (settings.message_group, settings.tag))
    keys = tuple(label_ids(path, first) for path in settings.keys)
    return RowRules(schema, settings.message_type, settings.limits, group, tag, keys, ignore_extra)


@dataclass(frozen=True, eq=False, slots=True)
class TypedRows:
    """Columns of `SEND_SCHEMA` with NULL bodies, and ``value`` as it is stored."""

    table: pa.Table
    schema_version: int
    bad: Bad
    """Bad rows by place. Their values mean nothing."""
    given: Mapping[int, object] = field(default_factory=dict)
    """The bad rows as given, for another topic."""

    @property
    def fits(self) -> npt.NDArray[np.bool_]:
        return ~np.isin(np.arange(self.table.num_rows), list(self.bad))

    def behind(self, first: int) -> TypedRows:
        bad = {at - first: fault for at, fault in self.bad.items() if at >= first}
        given = {at - first: row for at, row in self.given.items() if at >= first}
        return TypedRows(self.table.slice(first), self.schema_version, bad, given)


def rows_of_converted(
    converted: ConvertedRows,
    groups: Sequence[str | None],
    labelled: Mapping[int, Message],
    queues: Mapping[int, int],
    rules: RowRules,
    *,
    born_us: npt.NDArray[np.int64],
) -> TypedRows:
    """Rows, None for a tombstone, of checked messages. ``labelled`` and ``queues`` are by place."""
    count = len(groups)
    columns: dict[str, pa.Array] = {field.name: pa.nulls(count, field.type) for field in SEND_SCHEMA}
    columns |= {"message_group": pa.array(groups, pa.string()), **label_columns(labelled, born_us)}
    if queues:
        columns["queue"] = pa.array([queues.get(at) for at in range(count)], pa.int32())
    return _with_labels(pa.table(columns), converted, rules)


def rows_of_columns(data: pa.Table, rules: RowRules) -> TypedRows:
    """The columns are the fields of the schema, and those of `SEND_SCHEMA` but ``body``. Raises `InvalidArgument` for wrong names or types."""
    own = [name for name in data.column_names if name in SEND_SCHEMA.names]
    if "body" in own:
        raise InvalidArgument(
            "the topic has a schema, so its messages have fields and no body",
            operation="send_batch",
            expected=rules.schema.ddl,
            observed=", ".join(data.column_names),
            hint=NOTHING_SENT,
        )
    twice = sorted({name for name in own if own.count(name) > 1})
    if twice:
        raise InvalidArgument(f"columns {', '.join(twice)} are there twice", operation="send_batch", hint=NOTHING_SENT)
    fields = data.drop_columns(own) if own else data
    own_columns = {"body": pa.nulls(data.num_rows, pa.binary()), **{name: data[name] for name in own}}
    return _with_labels(pa.table(own_columns), convert_columns(fields, rules.schema, ignore_extra=rules.ignore_extra), rules)


def given_rows(data: pa.Table, places: Iterable[int]) -> dict[int, object]:
    """Rows by place; a value that Python lacks is its type and number."""
    fields = {name: data[name] for name in data.column_names if name not in SEND_SCHEMA.names}
    return {at: {name: _value(column[at]) for name, column in fields.items()} for at in places}


def _value(value: pa.Scalar) -> object:
    try:
        return value.as_py()
    except (OverflowError, ValueError):  # no year of Python's, nanoseconds without pandas, or no text
        return " ".join(str(part) for part in (value.type, getattr(value, "value", None)) if part is not None)


def _with_labels(table: pa.Table, converted: ConvertedRows, rules: RowRules) -> TypedRows:
    value, bad = converted.value, dict(converted.bad)
    if largest_row_bytes(value) > rules.limits.max_body_bytes:
        sizes = row_bytes(value)
        for at in np.flatnonzero(sizes > rules.limits.max_body_bytes):
            bad.setdefault(int(at), BadValue("the row", f"at most {rules.limits.max_body_bytes} bytes", f"{sizes[at]} bytes"))
    count = len(value)
    for name, ids in (("message_group", rules.message_group), ("tag", rules.tag)):
        if ids is None:
            continue
        path, texts = label_name(ids, rules.schema), _label(value, ids, rules.schema)
        if name in table.column_names and table[name].null_count < count:
            # A tombstone has no fields, so its sender says what they would have said.
            given = table[name].combine_chunks()
            for at in np.flatnonzero(np.asarray(pc.and_(given.is_valid(), value.is_valid()))):
                bad.setdefault(int(at), BadValue(name, f"none, as it comes from {path}", str(given[int(at)])))
            texts = pc.coalesce(texts, given)
        _check_label(name, path, texts, rules, bad)
        if bad:  # they are checked no further, as they will be taken out
            texts = pc.if_else(pa.array(np.isin(np.arange(count), list(bad))), pa.scalar("-"), texts)
        table = _put(table, name, texts)
    if rules.keys:
        table = _put(table, "keys", _key_lists([_label(value, ids, rules.schema) for ids in rules.keys], count))
    return TypedRows(table.append_column(VALUE, value), rules.schema.version, bad)


def _put(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    at = table.schema.get_field_index(name)
    return table.append_column(name, column) if at < 0 else table.set_column(at, name, column)


def _label(value: pa.StructArray, ids: tuple[int, ...], schema: TopicSchema) -> pa.Array:
    found: pa.Array = value
    for one in labelled_fields(ids, schema):
        place = found.type.get_field_index(one.stored_name)
        if place < 0:
            return pa.nulls(len(value), pa.string())
        found = found.flatten()[place]
    return found.cast(pa.string())


def _check_label(name: str, path: str, texts: pa.Array, rules: RowRules, bad: dict[int, BadValue]) -> None:
    is_group = name == "message_group"
    most = rules.limits.max_message_group_bytes if is_group else rules.limits.max_properties_bytes
    what = "a message group" if is_group else "a tag"
    unfit = [
        (pc.greater(pc.binary_length(texts), most), f"{what} of at most {most} bytes"),
        (pc.invert(pc.utf8_is_printable(texts)), f"{what} of visible characters"),
        (pc.equal(pc.binary_length(pc.utf8_trim_whitespace(texts)), 0), f"{what} of visible characters"),
    ]
    if not is_group:
        unfit.append((pc.match_substring(texts, "|"), "a tag without |"))
    for mask, expected in unfit:
        for at in np.flatnonzero(np.asarray(pc.fill_null(mask, False))):
            bad.setdefault(int(at), BadValue(path, expected, repr(texts[int(at)].as_py())))
    if is_group and rules.message_type is MessageType.FIFO and texts.null_count:
        for at in np.flatnonzero(np.asarray(texts.is_null())):
            bad.setdefault(int(at), BadValue(path, "a message group", "NULL"))


def _key_lists(columns: Sequence[pa.Array], count: int) -> pa.Array:
    valid = np.stack([np.asarray(column.is_valid()) for column in columns], axis=1)
    offsets = np.r_[0, np.cumsum(valid.sum(axis=1))].astype(np.int32)
    # Row by row, one column after the other: where each text lies among all columns' texts.
    order = (np.arange(count)[:, None] + count * np.arange(len(columns))[None, :])[valid]
    texts = pa.concat_arrays([column if isinstance(column, pa.Array) else column.combine_chunks() for column in columns])
    return pa.ListArray.from_arrays(pa.array(offsets), texts.take(pa.array(order)), type=SEND_SCHEMA.field("keys").type)


def as_json_bodies(table: pa.Table) -> pa.Table:
    """Rows as JSON bodies, by stored field names."""
    values = ValueColumn.of(table[VALUE])
    bodies = [None if value is None else value_json(value).encode() for value in values]
    body = pa.array(bodies, pa.binary())
    return _put(table.drop_columns([VALUE]), "body", body)


def refusal(bad: Bad, *, topic: str, named: Mapping[int, str] | None = None, count: int) -> InvalidArgument:
    """The error for bad rows. ``named`` has names of rows; else their numbers."""
    first, fault = min(bad.items())
    called = f"message {first}" if named is None else named[first]
    others = sorted(bad.items())[1:_TOLD]
    more = [f"message {at}, {one}" if named is None else f"{named[at]}, {one}" for at, one in others]
    if len(bad) > _TOLD:
        more.append(f"and {len(bad) - _TOLD} more")
    hint = "nothing of the batch was sent" + (f"; also bad: {'; '.join(more)}" if more else "")
    return InvalidArgument(
        f"{len(bad)} of {count} rows do not fit the topic's schema" if count > 1 else "the row does not fit the topic's schema",
        operation="send",
        object=f"{topic}, {called}, {fault.path}",
        expected=fault.expected,
        observed=fault.found,
        hint=hint,
    )


def check_content(message: Message, rules: RowRules | None, *, topic: str) -> None:
    """Raise unless a message is a row or a tombstone where the topic has a schema, and is no row elsewhere."""
    if rules is None:
        if message.value is not None:
            raise InvalidArgument(
                "the topic has no schema, so it takes no rows",
                operation="send",
                object=topic,
                hint="send bytes, or Message.json(row); a schema is given when a topic is created",
            )
        return
    if message.body is not None:
        raise InvalidArgument(
            "the topic has a schema, so it takes rows and no bodies",
            operation="send",
            object=topic,
            expected=rules.schema.ddl,
            observed=f"a body of {len(message.body)} bytes",
            hint="send_row(row), or send(Message.of(row))",
        )
    if message.value is None and message.message_group is None and rules.message_type is MessageType.FIFO:
        raise MessageTypeMismatch(
            "the topic takes FIFO messages, and this tombstone has no message group",
            operation="send",
            object=topic,
            expected=MessageType.FIFO,
            observed=MessageType.NORMAL,
            hint="give the tombstone a message_group: it has no field to take it from",
        )
