"""Rows of topics with a schema in `penstock read`: one column for each field."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from ....log.message.message import VALUE
from ....log.schema.value_column import ValueColumn
from ....log.schema.value_json import value_json
from ...operating.messages import body_fields, header_list, key_fields
from ...terminal import output
from .rendering import FittedLines, Row

if TYPE_CHECKING:
    import pyarrow as pa

_SHOWN = ("queue", "offset", "store_timestamp", "message_group", "tag")
"""The columns before a message's fields."""
_CELLS_MIN, _CELLS_MAX = 5, 32


def column_names(columns: str | None) -> tuple[str, ...] | None:
    """Raises `click.UsageError` for an empty list."""
    if columns is None:
        return None
    names = tuple(name.strip() for name in columns.split(",") if name.strip())
    if not names:
        raise click.UsageError("--columns names no column; leave it out to see all.")
    return names


class FieldLineOutput:
    """One line a message, under one heading, in widths by the first batch."""

    def __init__(self, *, columns_chosen: bool = False) -> None:
        """``columns_chosen``: the batches have chosen columns only."""
        self._columns_chosen = columns_chosen
        self._lines = FittedLines(self._widths)

    def write(self, batch: pa.RecordBatch) -> None:
        rows = _rows(batch, None if self._columns_chosen else _SHOWN)
        self._lines.show([{name: _shown(value) for name, value in row.items()} for row in rows])

    def _widths(self, rows: Sequence[Row]) -> dict[str, int]:
        labels = () if self._columns_chosen else ("message_group", "tag")
        names = [name for name in rows[0] if name not in labels or any(row[name] != "-" for row in rows)]
        return {name: min(_CELLS_MAX, max(_CELLS_MIN, len(name), *(len(row[name]) for row in rows))) for name in names}


class FieldCells:
    """Rows as cells of CSV: columns of messages, and fields of ``value``."""

    def __init__(self, shown: pa.Schema) -> None:
        self._fields = [field.name for field in shown.field(VALUE).type] if VALUE in shown.names else []
        spelt = {"body": ["body", "body_base64"], "key": ["key_base64"], VALUE: self._fields}
        self.heading = [column for name in shown.names for column in spelt.get(name, [name])]

    def rows(self, batch: pa.RecordBatch) -> Iterator[list[object]]:
        """NULL and an empty text are an empty cell."""
        for found in documents_of_columns(batch):
            value = found.pop(VALUE, None) or {}
            cells = {name: csv_cell(one) for name, one in found.items()}
            # An empty list is not NULL, as it is where messages have keys and properties.
            cells |= {name: "[]" if one == [] else "{}" if one == {} else csv_cell(one) for name, one in value.items()}
            yield [cells.get(name, "") for name in self.heading]  # a schema that evolved meanwhile may have other fields


def csv_cell(value: object) -> object:
    """Lists and objects are JSON, and None is an empty cell."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case list() | dict():
            return json.dumps(value, ensure_ascii=False) if value else ""
        case datetime():
            return value.isoformat()
        case _:
            return value


def documents_of_columns(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """One JSON object a message."""
    return map(_document, _rows(batch, None, flat=False))


def _document(row: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in row.items():
        match name:
            case "body":
                found |= body_fields(value)
            case "key":
                found |= key_fields(value)
            case "headers":
                found[name] = header_list((one["key"], one["value"]) for one in value or ())
            case _:
                found[name] = json.loads(value_json(value)) if name == VALUE else value
    return found


def _rows(batch: pa.RecordBatch, names: tuple[str, ...] | None, *, flat: bool = True) -> list[dict[str, Any]]:
    plain = [name for name in names or batch.schema.names if name != VALUE]
    rows = [dict(zip(plain, row, strict=True)) for row in zip(*(_values(batch, name) for name in plain), strict=True)]
    if not plain:
        rows = [{} for _ in range(batch.num_rows)]
    if VALUE not in batch.schema.names:
        return rows
    fields = [field.name for field in batch.schema.field(VALUE).type]
    for row, value in zip(rows, ValueColumn.of(batch.column(VALUE)), strict=True):
        row.update((value or dict.fromkeys(fields)) if flat else {VALUE: value})
    return rows


def _values(batch: pa.RecordBatch, name: str) -> list[Any]:
    values: list[Any] = batch.column(name).to_pylist()
    return [dict(pairs or ()) for pairs in values] if name == "properties" else values


def _shown(value: object) -> str:
    match value:
        case None:
            return "-"
        case str():
            return output.printable(value)
        case datetime() if value.tzinfo is not None:
            return output.time_text(value)
        case bytes():
            return output.printable(value[:_CELLS_MAX].decode(errors="replace"))
        case dict() | list():
            return output.printable(value_json({"": value})[4:-1])
        case _:
            return output.printable(str(value))
