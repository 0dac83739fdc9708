"""Messages in files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import BinaryIO

import click
import pyarrow as pa
import pyarrow.parquet as pq

from ....log import MESSAGE_SCHEMA, InvalidArgument, MessageView, views
from ....log.message.message import OF_A_DELIVERY
from ...console import output
from ...console.session import Session
from ...files import is_packed, open_file, plain_name
from .rendering import JsonLines, Sink, document

_ROW_GROUP_BYTES = 64 * 2**20
CSV_COLUMNS = (*(name for name in MessageView._fields if name not in {*OF_A_DELIVERY, "key", "headers", "value"}), "body_base64")


@contextmanager
def export(url: str, topic: str, *, as_csv: bool = False) -> Iterator[Sink]:
    """A file of Parquet, JSON lines or CSV, by its name (``-``: JSON lines or CSV on standard output). It is complete when the block has
    ended.
    """
    name = plain_name(url)
    if url == "-":
        yield CsvLines(topic) if as_csv else JsonLines(topic)
    elif name.endswith((".parquet", ".pq")) and not is_packed(url):
        with open_file(url, "wb") as file:
            groups = _RowGroups(file)
            yield groups
            groups.close()
    elif name.endswith((".jsonl", ".ndjson", ".json")):
        with open_file(url, "wb") as file:
            yield _JsonFile(topic, file)
    elif name.endswith(".csv"):
        with open_file(url, "wb") as file:
            yield _CsvFile(topic, file)
    else:
        raise InvalidArgument(
            "the name does not tell the format",
            operation="export",
            object=url,
            expected=".parquet, .jsonl, .csv, .jsonl.gz or .csv.gz",
        )


class _RowGroups:
    """Gathers small batches, as one row group for each would make a slow file. The columns are those of the first batch: a topic with a
    schema has one more.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._writer: pq.ParquetWriter | None = None
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= _ROW_GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Write what is left, and the end of the file."""
        if self._batches or self._writer is None:
            self._flush()
        assert self._writer is not None, "it was just made, or before"
        self._writer.close()

    def _flush(self) -> None:
        rows = pa.Table.from_batches(self._batches, None if self._batches else MESSAGE_SCHEMA)
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._file, rows.schema, compression="zstd")
        if rows.num_rows:
            self._writer.write_table(rows)
        self._batches, self._bytes = [], 0


class _JsonFile:
    def __init__(self, topic: str, file: BinaryIO) -> None:
        self._topic = topic
        self._file = file

    def write(self, batch: pa.RecordBatch) -> None:
        lines = (output.json_line(document(message)) for message in views(self._topic, batch))
        self._file.write("".join(lines).encode())


def check_csv(session: Session, file: str | None, *, as_csv: bool) -> None:
    """Raise a usage error where ``--csv`` contradicts another option."""
    if as_csv and session.as_json:
        raise click.UsageError("Either --csv or --json.")
    if as_csv and file not in (None, "-"):
        raise click.UsageError("--csv is for standard output; a file's name says what it holds: give -o FILE.csv.")


class CsvLines:
    """CSV on standard output."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        output.write_text(csv_lines([CSV_COLUMNS]))

    def write(self, batch: pa.RecordBatch) -> None:
        output.write_text(csv_lines(map(_csv_row, views(self._topic, batch))))


class _CsvFile:
    def __init__(self, topic: str, file: BinaryIO) -> None:
        self._topic = topic
        self._file = file
        file.write(csv_lines([CSV_COLUMNS]).encode())

    def write(self, batch: pa.RecordBatch) -> None:
        self._file.write(csv_lines(map(_csv_row, views(self._topic, batch))).encode())


def csv_lines(rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV, each with the end of its line."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _csv_row(message: MessageView) -> list[object]:
    """The JSON document's values: lists and properties as JSON, and an empty cell for nothing."""
    found = {**document(message), **({} if message.value is None else {"body": message.content.decode()})}
    return [_cell(found[name]) for name in CSV_COLUMNS]


def _cell(value: object) -> object:
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


def written(batches: Iterable[pa.RecordBatch], sink: Sink) -> int:
    """Write all batches. Returns the number of messages."""
    count = 0
    for batch in batches:
        sink.write(batch)
        count += batch.num_rows
    return count
