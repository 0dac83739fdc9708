"""Messages in files."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

import click
import pyarrow as pa
import pyarrow.parquet as pq

from ....log import MESSAGE_SCHEMA, InvalidArgument, MessageView, views
from ....log.message.message import OF_A_DELIVERY, VALUE
from ...files import is_packed, open_file, plain_name
from ...operating.messages import message_document
from ...terminal import output
from ...terminal.session import CommandSession
from .fields import FieldCells, csv_cell, documents_of_columns
from .rendering import MessageSink

_ROW_GROUP_BYTES = 64 * 2**20
CSV_COLUMNS = (*(name for name in MessageView._fields if name not in {*OF_A_DELIVERY, "key", "headers", VALUE}), "body_base64")
_NOT_IN_CSV = {"body", "key", "headers"}
"""The columns that CSV of a typed topic leaves out by default."""


@contextmanager
def export(
    url: str, topic: str, *, shown: pa.Schema = MESSAGE_SCHEMA, columns_chosen: bool = False, as_csv: bool = False
) -> Iterator[MessageSink]:
    """A file of Parquet, JSON lines or CSV, by its name (``-``: JSON lines or CSV on standard output), complete at the end of the block. ``shown``
    are the columns of the batches; ``columns_chosen``: a user chose them.
    """
    name = plain_name(url)
    if url == "-":
        yield lines(topic, shown, columns_chosen=columns_chosen, as_csv=as_csv)
    elif name.endswith((".parquet", ".pq")) and not is_packed(url):
        with open_file(url, "wb") as file:
            groups = _RowGroups(file, shown)
            yield groups
            groups.close()
    elif name.endswith((".jsonl", ".ndjson", ".json")):
        with open_file(url, "wb") as file:
            yield _Lines(_json(topic, columns_chosen), lambda text: file.write(text.encode()))
    elif name.endswith(".csv"):
        with open_file(url, "wb") as file:
            yield _csv_lines(topic, shown, columns_chosen, lambda text: file.write(text.encode()))
    else:
        raise InvalidArgument(
            "the name does not tell the format",
            operation="export",
            object=url,
            expected=".parquet, .jsonl, .csv, .jsonl.gz or .csv.gz",
        )


def lines(topic: str, shown: pa.Schema, *, columns_chosen: bool, as_csv: bool) -> MessageSink:
    return (
        _csv_lines(topic, shown, columns_chosen, output.write_text)
        if as_csv
        else _Lines(_json(topic, columns_chosen), output.write_text)
    )


class _RowGroups:
    """Small batches, joined to larger row groups with the first one's columns."""

    def __init__(self, file: BinaryIO, of_none: pa.Schema) -> None:
        self._file, self._of_none = file, of_none
        self._writer: pq.ParquetWriter | None = None
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= _ROW_GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        if self._batches or self._writer is None:
            self._flush()
        assert self._writer is not None, "it was just made, or before"
        self._writer.close()

    def _flush(self) -> None:
        rows = pa.Table.from_batches(self._batches, None if self._batches else self._of_none)
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._file, rows.schema, compression="zstd")
        if rows.num_rows:
            self._writer.write_table(rows)
        self._batches, self._bytes = [], 0


def check_csv(session: CommandSession, file: str | None, *, as_csv: bool) -> None:
    if as_csv and session.as_json:
        raise click.UsageError("Either --csv or --json.")
    if as_csv and file not in (None, "-"):
        raise click.UsageError("--csv is for standard output; a file's name says what it holds: give -o FILE.csv.")


class _Lines:
    def __init__(self, spell: Callable[[pa.RecordBatch], str], write: Callable[[str], object]) -> None:
        self._spell, self._write = spell, write

    def write(self, batch: pa.RecordBatch) -> None:
        self._write(self._spell(batch))


def _json(topic: str, columns_chosen: bool) -> Callable[[pa.RecordBatch], str]:
    documents = documents_of_columns if columns_chosen else lambda batch: map(message_document, views(topic, batch))
    return lambda batch: "".join(map(output.json_line, documents(batch)))


def _csv_lines(topic: str, shown: pa.Schema, columns_chosen: bool, write: Callable[[str], object]) -> MessageSink:
    if not columns_chosen and VALUE not in shown.names:
        write(csv_text([CSV_COLUMNS]))
        return _Lines(lambda batch: csv_text(map(_csv_row, views(topic, batch))), write)
    cells = FieldCells(shown if columns_chosen else pa.schema([one for one in shown if one.name not in _NOT_IN_CSV]))
    write(csv_text([cells.heading]))
    return _Lines(lambda batch: csv_text(cells.rows(batch)), write)


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV, each with the end of its line."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _csv_row(message: MessageView) -> list[object]:
    """Lists and properties are JSON, and None is an empty cell."""
    found = message_document(message)
    return [csv_cell(found[name]) for name in CSV_COLUMNS]


def write_batches(batches: Iterable[pa.RecordBatch], sink: MessageSink) -> int:
    """Write all batches. Returns the number of messages."""
    count = 0
    for batch in batches:
        sink.write(batch)
        count += batch.num_rows
    return count
