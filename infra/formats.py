"""Files of JSON lines, CSV, Parquet and Debezium events as messages to produce."""

from __future__ import annotations

import base64
import codecs
import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import StrEnum
from math import isfinite
from typing import Any, BinaryIO, TypeAlias

from ..log.errors import InvalidArgument
from ..log.schema.value_json import jsonable
from .labels import InputRecord, MessageLabels

_LINE_BYTES_MAX = 64 * 1024 * 1024
_PARQUET_ROWS = 4096
_ARRAY_HINT = "Write one object a line, without brackets and commas around them: `jq -c '.[]'` makes that of an array"
_NO_KEY_HINT = (
    "Its events have no key: --group table keeps all events of a table in order. Where primary keys never change, their columns do, in many "
    "groups: --group '{table}-{id}' --key '{table}-{id}'"
)
_MOVED_HINT = (
    "--group table keeps all events of a table in order: import the file so into a new topic, as what stands before this event is sent. With keys "
    "in its events the source tells such a change as two"
)

Skip: TypeAlias = Callable[[InvalidArgument], None]


class FileFormat(StrEnum):
    """The format of an import file."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    DEBEZIUM = "debezium"


DEBEZIUM_LABELS = MessageLabels(message_group="{table}-{key}", tag="table", keys=("{table}-{key}",), properties={"op": "op"})
"""The default labels of Debezium events: a row is a message group."""
_NO_ROW = "tm"
"""Operations without a row: a truncate belongs to its table, a message to its prefix."""


def read_records(
    file: BinaryIO,
    format: FileFormat,
    *,
    name: str,
    labels: MessageLabels | None = None,
    skip: Skip | None = None,
    typed: bool = False,
) -> Iterator[InputRecord]:
    """Read the messages of a file, in its order.

    - JSON lines: an object a line; the body is the line as it stands. Empty lines are passed over.
    - CSV: with a header; all values are text, the body is a JSON object.
    - Parquet: the body is a JSON object; bytes in it are base64. The file must be seekable.
    - Debezium: as JSON lines. Fields besides the row's columns: ``table``, ``schema``, ``op``, ``key`` (the values of the key
      columns joined by ``-``) and ``position`` (see `position_of`). These five win over columns of the same name.
      A truncate, and a message of the log, have no row. By the default labels their group and key are the table, or the message's
      prefix. So no order is kept between them and changes of rows.

    ``record_number``, from 1, is a field too, unless the record has one. ``labels`` default to none, for Debezium to
    `DEBEZIUM_LABELS`. A record that cannot be read raises `InvalidArgument` naming ``name`` and the line; with ``skip`` that
    error is handed over instead and reading goes on. ``typed``: bodies are the JSON of topics with a schema.
    """
    labels = labels or (DEBEZIUM_LABELS if format is FileFormat.DEBEZIUM else MessageLabels())
    rows = {
        FileFormat.JSONL: _json_rows,
        FileFormat.DEBEZIUM: _json_rows,
        FileFormat.CSV: _csv_rows,
        FileFormat.PARQUET: _parquet_rows,
    }
    make = _debezium_record if format is FileFormat.DEBEZIUM else _plain_record
    for number, (place, row) in enumerate(rows[format](file, name), 1):
        try:
            record = make(jsonable(row) if typed and isinstance(row, dict) else row, number, labels)
        except (ValueError, RecursionError) as error:
            bad = _located(error, name, place)
            if isinstance(row, bytes) and row.startswith(b"["):
                bad.hint = _ARRAY_HINT
            if skip is None:
                raise bad from None
            skip(bad)
            continue
        if record is not None:
            yield record


_Row: TypeAlias = bytes | dict[str, Any] | ValueError
"""A line of JSON, a record, or the error in its place."""


def _plain_record(row: _Row, number: int, labels: MessageLabels) -> InputRecord:
    fields, whole = _opened(row)
    if not isinstance(fields, dict):
        raise InvalidArgument("the line is no JSON object", expected="an object", observed=type(fields).__name__)
    return labels.record({"record_number": number, **fields}, whole)


def _debezium_record(row: _Row, number: int, labels: MessageLabels) -> InputRecord | None:
    from ..cdc.events.conversion import KEEP
    from ..cdc.events.debezium import parse_change
    from ..cdc.events.placeholders import PLACEHOLDER

    event, whole = _opened(row)
    change = parse_change(event)
    if change is None:
        return None
    fields = {
        "record_number": number,
        **{name: PLACEHOLDER if value is KEEP else value for name, value in change.row.items()},
        **change.key,
        "table": change.table,
        "schema": change.schema,
        "op": change.op,
        "key": "-".join(map(str, change.key.values())),
        "position": change.sequence,
    }
    if change.op in _NO_ROW and labels.message_group == DEBEZIUM_LABELS.message_group:
        labels = replace(labels, message_group="table", keys=("table",))
    try:
        record = labels.record(fields, whole)
    except InvalidArgument as error:
        if not change.key and error.expected == "key":
            error.hint = _NO_KEY_HINT
        raise
    if change.op == "u" and not change.key:
        _check_stays(
            record, {**fields, **{name: value for name, value in (change.before or {}).items() if value is not None}}, labels
        )
    return record


def _check_stays(record: InputRecord, before: dict[str, Any], labels: MessageLabels) -> None:
    """Raise `InvalidArgument` for an update that leaves its message group, whose queue would keep the row."""
    if (former := labels.group(before)) != record.message_group:
        raise InvalidArgument(
            "the update moves its row to another message group, where nothing keeps it behind the row's earlier events",
            expected=f"message group {former}",
            observed=f"message group {record.message_group}",
            hint=_MOVED_HINT,
        )


def _opened(row: _Row) -> tuple[Any, bytes]:
    """A row's value, and its original form, which becomes the body."""
    if isinstance(row, ValueError):
        raise row
    if isinstance(row, bytes):
        return json.loads(row.decode()), row  # by bytes Python would guess UTF-16, too, and the body would be what nobody can read
    try:
        body = json.dumps(row, ensure_ascii=False, separators=(",", ":"), default=_spelt, allow_nan=False)
    except ValueError as error:
        raise InvalidArgument(
            "the record has NaN or an infinite number, which JSON has not",
            observed=", ".join(name for name, value in row.items() if isinstance(value, float) and not isfinite(value))
            or str(error),
            hint="Write null or text in its place, or leave such records out with --on-error skip",
        ) from error
    return row, body.encode()


def _json_rows(file: BinaryIO, name: str) -> Iterator[tuple[str, _Row]]:
    for number, line in enumerate(_lines(file, name), 1):
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        if stripped := line.strip():
            yield f"line {number}", stripped


def _csv_rows(file: BinaryIO, name: str) -> Iterator[tuple[str, _Row]]:
    # The module's own limit is 128 KiB. It belongs to the process, so it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), _LINE_BYTES_MAX))
    # Bytes that are no UTF-8 become lone surrogates, so that one bad record does not end the reading.
    reader = csv.reader((line.decode("utf-8", "surrogateescape") for line in _lines(file, name)), strict=True)
    header: list[str] | None = None
    while True:
        try:
            values = next(reader, None)
        except csv.Error as error:
            yield f"line {reader.line_num}", InvalidArgument(f"the line is no CSV: {error}")
            continue
        if values is None:
            return
        if header is None:
            header = _csv_header(values, name)
        elif values:
            yield f"line {reader.line_num}", _csv_row(header, values)


def _csv_header(values: list[str], name: str) -> list[str]:
    header = [values[0].removeprefix("\ufeff").removeprefix("\udcef\udcbb\udcbf"), *values[1:]] if values else []
    twice = sorted({column for column in header if header.count(column) > 1})
    if twice:  # one of the columns would be lost
        raise _unreadable(name, "the header names a column twice", expected="a name for each column", observed=", ".join(twice))
    return header


def _csv_row(header: list[str], values: list[str]) -> _Row:
    if len(values) != len(header):
        return InvalidArgument("the line has another number of fields than the header", expected=len(header), observed=len(values))
    return dict(zip(header, values, strict=True))


def _parquet_rows(file: BinaryIO, name: str) -> Iterator[tuple[str, _Row]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not file.seekable():
        raise _unreadable(name, "Parquet cannot be read from a pipe", hint="Save it to a file first")
    number = 0
    try:
        # Here, and nowhere else: Arrow's threads would want a file of Python's after the interpreter's end, and abort the process.
        for batch in pq.ParquetFile(file, pre_buffer=False).iter_batches(_PARQUET_ROWS, use_threads=False):
            for row in batch.to_pylist():
                number += 1
                yield f"row {number}", row
    except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:
        raise _unreadable(name, f"this is no Parquet file, or a damaged one: {error}", observed=f"{number} rows") from error


def _lines(file: BinaryIO, name: str) -> Iterator[bytes]:
    while line := file.readline(_LINE_BYTES_MAX + 1):
        if len(line) > _LINE_BYTES_MAX:
            raise _unreadable(name, "a line is too long; is this a text file?", expected=f"at most {_LINE_BYTES_MAX} bytes")
        yield line


def _spelt(value: object) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _unreadable(name: str, message: str, **facts: str) -> InvalidArgument:
    """An error of the whole file, which cannot be skipped."""
    return InvalidArgument(message, operation="read the file", object=name, **facts)


def _located(error: ValueError | RecursionError, name: str, place: str) -> InvalidArgument:
    known = error if isinstance(error, InvalidArgument) else InvalidArgument(_described(error))
    known.operation, known.object = "read the file", f"{name}, {place}"
    known.hint = known.hint or "Correct it, or leave such records out with --on-error skip"
    return known


def _described(error: ValueError | RecursionError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"the line is no JSON: {error.msg} at column {error.colno}"
    if isinstance(error, UnicodeError):
        return "the line is no UTF-8 (`iconv -f UTF-16 -t UTF-8` makes that of the UTF-16 that Windows writes)"
    return f"the line cannot be read: {error}"
