"""Dumps of a source's table: CSV, JSON lines and Parquet, in one file or several."""

from __future__ import annotations

import codecs
import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from ...log.errors import InvalidArgument
from .dump_format import DumpFormat

if TYPE_CHECKING:
    import pyarrow as pa

Opener: TypeAlias = Callable[[str], AbstractContextManager[BinaryIO]]
"""The file is unpacked."""

_BATCH_ROWS = 10_000
_BLOCK_BYTES = 4 * 1024 * 1024
_HINT = "dumps are CSV with a header, JSON lines (one object a line) or Parquet"


@dataclass(frozen=True, slots=True)
class Dump:
    """A table of the source as files. Their values are text (CSV), JSON's or Parquet's."""

    name: str
    files: Sequence[str]
    format: DumpFormat
    open: Opener
    null: str = ""
    """The unquoted text of NULL in CSV."""

    def columns(self) -> Sequence[str]:
        """Raises `InvalidArgument` for an unreadable file."""
        names: dict[str, None] = {}
        for file in self.files:
            match self.format:
                case DumpFormat.CSV:
                    with self.open(file) as opened:
                        names |= dict.fromkeys(_header(opened, file))
                case DumpFormat.JSONL:
                    for batch in _json_lines(file, self.open, None):
                        names |= dict.fromkeys(batch.schema.names)
                case DumpFormat.PARQUET:
                    names |= dict.fromkeys(_parquet_columns(file, self.open))
        return list(names)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Raises `InvalidArgument` with the place in an unreadable file."""
        read = {DumpFormat.CSV: self._csv, DumpFormat.JSONL: _json_lines, DumpFormat.PARQUET: _parquet}[self.format]
        for file in self.files:
            yield from read(file, self.open, columns)

    def _csv(self, file: str, open_file: Opener, _: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        with open_file(file) as opened:
            names = _header(opened, file)
        with open_file(file) as opened:
            yield from csv_batches(opened, file, names, null=self.null)


def csv_batches(opened: BinaryIO, name: str, columns: Sequence[str], *, null: str = "") -> Iterator[pa.RecordBatch]:
    """CSV with a header, as text. An unquoted ``null`` field is NULL, so that "" is an empty text."""
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    try:
        # Arrow reads ahead in one thread, and ends that before its reader goes. Its others would hold blocks of Python's longer.
        yield from arrow_csv.open_csv(
            opened,
            read_options=arrow_csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.string()),
                null_values=[null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        raise _unreadable(name, DumpFormat.CSV, error) from error


def _header(opened: BinaryIO, file: str) -> list[str]:
    text = io.TextIOWrapper(opened, "utf-8-sig", newline="")
    try:
        names = next(csv.reader(text, strict=True), [])
    except (csv.Error, UnicodeError) as error:
        raise _unreadable(file, DumpFormat.CSV, error) from error
    finally:
        text.detach()
    if not names:
        raise _unreadable(file, DumpFormat.CSV, "it has no header")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise _unreadable(file, DumpFormat.CSV, f"its header names {', '.join(twice)} twice")
    return names


def _json_lines(file: str, open_file: Opener, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
    with open_file(file) as opened:
        rows: list[dict[str, Any]] = []
        for number, line in enumerate(opened, 1):
            if stripped := line.removeprefix(codecs.BOM_UTF8 if number == 1 else b"").strip():
                rows.append(_object(stripped, file, number))
            if len(rows) == _BATCH_ROWS:
                yield _of_objects(rows, columns)
                rows = []
        if rows:
            yield _of_objects(rows, columns)


def _object(line: bytes, file: str, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise _unreadable(file, DumpFormat.JSONL, f"line {number}: {error}") from error
    if not isinstance(row, dict):
        raise _unreadable(file, DumpFormat.JSONL, f"line {number} is no object")
    return row


def _of_objects(rows: Sequence[dict[str, Any]], columns: Sequence[str] | None) -> pa.RecordBatch:
    import pyarrow as pa

    names = dict.fromkeys(name for row in rows for name in row) if columns is None else columns
    return pa.record_batch({name: _column([row.get(name) for row in rows]) for name in names})


def _column(values: list[Any]) -> pa.Array:
    """Whole numbers or text; others become JSON, for the target's type to read."""
    import pyarrow as pa

    if all(value is None or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63) for value in values):
        return pa.array(values, pa.int64())
    return pa.array([value if value is None or isinstance(value, str) else _json(value) for value in values], pa.string())


def _json(value: object) -> str:
    """JSON in which numbers keep all their digits."""
    match value:
        case Decimal():
            return str(value)
        case list():
            return "[" + ",".join(map(_json, value)) + "]"
        case dict():
            return "{" + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{_json(one)}" for name, one in value.items()) + "}"
        case _:
            return json.dumps(value, ensure_ascii=False)


def _parquet_columns(file: str, open_file: Opener) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with open_file(file) as opened:
        try:
            return list(pq.read_schema(opened).names)
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            raise _unreadable(file, DumpFormat.PARQUET, error) from error


def _parquet(file: str, open_file: Opener, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with open_file(file) as opened:
        try:
            read = pq.ParquetFile(opened, pre_buffer=False)
            there = None if columns is None else [name for name in columns if name in read.schema_arrow.names]
            yield from read.iter_batches(_BATCH_ROWS, columns=there, use_threads=False)
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            raise _unreadable(file, DumpFormat.PARQUET, error) from error


def _unreadable(file: str, kind: DumpFormat, why: object) -> InvalidArgument:
    return InvalidArgument(
        "the dump cannot be read",
        operation="compare",
        object=file,
        expected={DumpFormat.CSV: "CSV with a header", DumpFormat.JSONL: "JSON lines", DumpFormat.PARQUET: "Parquet"}[kind],
        observed=str(why).partition("\n")[0][:300],
        hint=_HINT,
    )
