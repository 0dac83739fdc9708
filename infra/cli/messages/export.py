"""Messages in files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from ....log import MESSAGE_SCHEMA, InvalidArgument, views
from ...console import output
from ...files import is_packed, open_file, plain_name
from .rendering import JsonLines, Sink, document

_ROW_GROUP_BYTES = 64 * 2**20


@contextmanager
def export(url: str, topic: str) -> Iterator[Sink]:
    """A file of Parquet or JSON lines, by its name (``-``: JSON lines on standard output). It is complete when the block has ended."""
    name = plain_name(url)
    if url == "-":
        yield JsonLines(topic)
    elif name.endswith((".parquet", ".pq")) and not is_packed(url):
        with open_file(url, "wb") as file, pq.ParquetWriter(file, MESSAGE_SCHEMA, compression="zstd") as writer:
            groups = _RowGroups(writer)
            yield groups
            groups.flush()
    elif name.endswith((".jsonl", ".ndjson", ".json")):
        with open_file(url, "wb") as file:
            yield _JsonFile(topic, file)
    else:
        raise InvalidArgument(
            "the name does not tell the format", operation="export", object=url, expected=".parquet, .jsonl or .jsonl.gz"
        )


class _RowGroups:
    """Gathers small batches, as one row group for each would make a slow file."""

    def __init__(self, writer: pq.ParquetWriter) -> None:
        self._writer = writer
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= _ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._batches:
            self._writer.write_table(pa.Table.from_batches(self._batches))
            self._batches, self._bytes = [], 0


class _JsonFile:
    def __init__(self, topic: str, file: BinaryIO) -> None:
        self._topic = topic
        self._file = file

    def write(self, batch: pa.RecordBatch) -> None:
        lines = (output.json_line(document(message)) for message in views(self._topic, batch))
        self._file.write("".join(lines).encode())


def written(batches: Iterable[pa.RecordBatch], sink: Sink) -> int:
    """Write all batches. Returns the number of messages."""
    count = 0
    for batch in batches:
        sink.write(batch)
        count += batch.num_rows
    return count
