"""Labels of whole Arrow columns, with the same result as record by record."""

from __future__ import annotations

import string
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ....log import InvalidArgument
from ...labels import MessageLabels

_NUMBER = "record_number"


@dataclass(frozen=True, slots=True)
class LabelColumns:
    """The plan of ``send_batch`` tables for a file."""

    labels: MessageLabels
    read: list[str]

    def table(self, batch: pa.RecordBatch, *, first_row: int, name: str) -> pa.Table:
        """The messages of a batch, whose first row is the file's row ``first_row``, from 0. Raises `InvalidArgument`."""
        labels, columns = self.labels, {}
        numbers = pa.array(range(first_row + 1, first_row + 1 + batch.num_rows), pa.int64())
        source = pa.Table.from_batches([batch])
        if _NUMBER not in source.column_names:
            source = source.append_column(_NUMBER, numbers)
        place = f"{name}, rows {first_row + 1} to {first_row + batch.num_rows}"
        assert labels.body is not None, "columns_of asks for one"
        columns["body"] = source[labels.body].cast(pa.binary())
        if labels.message_group is not None:
            columns["message_group"] = _text(labels.message_group, source, place)
        if labels.tag is not None:
            columns["tag"] = _text(labels.tag, source, place)
        if labels.keys:
            columns["keys"] = _keys(labels.keys[0], source, place)
        if labels.sequence is not None:
            columns["sequence"] = _sequence(labels.sequence, source, place)
        return pa.table(columns)

    def duplicates(self, table: pa.Table, last_sequence: int) -> int:
        if self.labels.sequence is None:
            return 0
        return int(pc.sum(pc.less_equal(table["sequence"], last_sequence)).as_py() or 0)


def columns_of(schema: pa.Schema, labels: MessageLabels) -> LabelColumns | None:
    """The plan for a file with this schema; None where only a loop over records gives the same messages.

    Columns need a body of text or bytes, labels of text or whole numbers, at most one key, no properties and no delivery time.
    """
    if labels.body is None or labels.properties or len(labels.keys) > 1:
        return None
    if labels.deliver_at is not None or labels.delay is not None:
        return None
    body = _type(schema, labels.body)
    if body is None or not (_is_text(body) or pa.types.is_binary(body) or pa.types.is_large_binary(body)):
        return None
    specs = [spec for spec in (labels.message_group, labels.tag, *labels.keys) if spec is not None]
    names = {name for spec in specs for name in _names(spec)}
    if labels.sequence is not None:
        kind = _type(schema, labels.sequence)
        if kind is None or not pa.types.is_integer(kind):
            return None
        names.add(labels.sequence)
    for name in names:
        kind = _type(schema, name)
        if kind is None or not (_is_text(kind) or pa.types.is_integer(kind)):
            return None
    return LabelColumns(labels, [name for name in schema.names if name in names | {labels.body}])


def _type(schema: pa.Schema, name: str) -> pa.DataType | None:
    """None for a missing or repeated column."""
    if name in schema.names:
        place = schema.get_field_index(name)
        return schema.field(place).type if place >= 0 else None
    return pa.int64() if name == _NUMBER else None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _names(spec: str) -> list[str]:
    return [name for _, name, _, _ in string.Formatter().parse(spec) if name] if "{" in spec else [spec]


def _text(spec: str, source: pa.Table, place: str) -> pa.ChunkedArray:
    """The text of a spec; null for a null or empty column, which inside a format string is an error."""
    if "{" not in spec:
        text = source[spec].cast(pa.string())
        return pc.if_else(pc.equal(text, ""), None, text)
    parts: list[pa.ChunkedArray | pa.Scalar] = []
    for literal, name, _, _ in string.Formatter().parse(spec):
        parts.append(pa.scalar(literal))
        if name:
            text = source[name].cast(pa.string())
            if pc.any(pc.fill_null(pc.equal(text, ""), True)).as_py():
                raise InvalidArgument(
                    f"{spec} needs the field {name}, which is empty in some row",
                    operation="read the file",
                    object=place,
                    expected=name,
                )
            parts.append(text)
    return pc.binary_join_element_wise(*parts, pa.scalar(""))


def _keys(spec: str, source: pa.Table, place: str) -> pa.Array:
    text = _text(spec, source, place).combine_chunks()
    filled = pc.is_valid(text)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(filled.cast(pa.int32()))])
    return pa.ListArray.from_arrays(offsets, text.drop_null())


def _sequence(spec: str, source: pa.Table, place: str) -> pa.ChunkedArray:
    numbers = source[spec].cast(pa.int64())
    if numbers.null_count:
        raise InvalidArgument(
            f"the sequence, {spec}, is no integer in some row", operation="read the file", object=place, observed="nothing"
        )
    return numbers
