"""The table's files: sealed Parquet with one queue's rows in offset order, and Bloom filters for lookups.

Row groups have statistics of offset and store time, by which Spark and DuckDB prune as Penstock does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...errors import InternalError
from ...format.sealed import ROW_GROUP_ROWS, UNSEALED, seal
from ...limits import MIB
from ...message.columns import rare_columns, value_type, with_value, with_value_as
from ...message.message import MESSAGE_SCHEMA, RARE, VALUE
from ...paths import zero_padded

SEGMENT_KEY = "penstock.segment"
ROW_GROUP_BYTES = 16 * MIB
"""Arrow data; readers hold a few row groups."""
LOOKUP_COLUMNS = {"message_id": "message_id", "message_group": "message_group", "keys": "keys.list.element"}
"""Columns with Bloom filters, and their Parquet paths."""
_BLOOM_FALSE_POSITIVES = 0.05
_STATISTICS = ["offset", "store_timestamp"]
_DICTIONARIES = ["queue", "message_group", "tag", "producer"]


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file of the table, as in its add action."""

    path: str
    """Relative to the table."""
    queue: int
    first_offset: int
    limit_offset: int
    """Exclusive."""
    rows: int
    """Fewer than its offsets only where rows were lost."""
    size_bytes: int
    store_first_ms: int
    store_last_ms: int
    modified_ms: int = 0
    """Rises with every commit, as native streams start in this order."""
    more_columns: tuple[str, ...] = ()


def new_path(queue: int, first_offset: int, last_offset: int, fresh_id: str) -> str:
    """A new path, relative to the table."""
    return f"queue={queue}/{zero_padded(first_offset)}-{zero_padded(last_offset)}-{fresh_id}.parquet"


class SegmentWriter:
    """Builds one file in memory from rows in offset order."""

    def __init__(
        self, *, rows_expected: int, value: pa.DataType | None = None, rare: Collection[str] = (), bloom: Collection[str] = ()
    ) -> None:
        """``value`` is the type of the column of typed rows, ``rare`` the columns of `RARE`, ``bloom`` the paths in ``value`` with Bloom filters."""
        self._bloom = {f"{VALUE}.{path}" for path in bloom}
        self._schema = with_value(
            pa.schema([field for field in MESSAGE_SCHEMA if field.name in rare or field.name not in RARE]), value
        )
        self._sink = pa.BufferOutputStream()
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self.rows = 0
        self._first: dict[str, Any] = {}
        self._last: dict[str, Any] = {}
        self._values_expected = max(1, min(rows_expected, ROW_GROUP_ROWS))
        self._keys_expected = 0
        self._writer: pq.ParquetWriter | None = None

    @property
    def size_bytes(self) -> int:
        """Without rows of an unfinished row group."""
        return int(self._sink.tell())

    def takes(self, rows: pa.Table) -> bool:
        return set(self._schema.names).issuperset(rare_columns(rows))

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        value = value_type(self._schema)
        if value is not None:
            whole_rows = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
            rows = with_value_as(whole_rows, value)
        rows = rows.select(self._schema.names)
        for batch in rows.to_batches() if isinstance(rows, pa.Table) else [rows]:
            if not batch.num_rows:
                continue
            self._note_ends(batch)
            while batch.num_rows:
                taken = batch.slice(0, ROW_GROUP_ROWS - self._waiting_rows)
                batch = batch.slice(taken.num_rows)
                self._waiting.append(taken)
                self._waiting_rows += taken.num_rows
                self._waiting_bytes += taken.nbytes
                if self._waiting_rows >= ROW_GROUP_ROWS or self._waiting_bytes >= ROW_GROUP_BYTES:
                    self._flush()

    def close(self, fresh_id: str) -> tuple[TableFile, bytes]:
        """The finished file. Raises `InternalError` for rows out of order."""
        self._flush()
        if self._writer is None:
            raise InternalError("a table file without rows")
        self._writer.add_key_value_metadata({SEGMENT_KEY: "1", **UNSEALED})
        self._writer.close()
        data = seal(self._sink.getvalue())
        queue, first, last = self._first["queue"], self._first["offset"], self._last["offset"]
        file = TableFile(
            path=new_path(queue, first, last, fresh_id),
            queue=queue,
            first_offset=first,
            limit_offset=last + 1,
            rows=self.rows,
            size_bytes=len(data),
            store_first_ms=self._first["store_timestamp"] // 1000,
            store_last_ms=self._last["store_timestamp"] // 1000,
            more_columns=tuple(name for name in (*RARE, VALUE) if name in self._schema.names),
        )
        return file, data

    def _note_ends(self, batch: pa.RecordBatch) -> None:
        first, last = _ends(batch)
        if self._last and (first["queue"] != self._last["queue"] or first["offset"] <= self._last["offset"]):
            raise InternalError("rows of a table file are out of order", expected=f"above {self._last}", observed=first)
        self._first = self._first or first
        self._last = last
        self.rows += batch.num_rows

    def _flush(self) -> None:
        if self._waiting:
            rows = pa.Table.from_batches(self._waiting, self._schema)
            keys = sum(pc.sum(pc.list_value_length(chunk)).as_py() or 0 for chunk in rows.column("keys").chunks)
            if self._writer is None:
                self._keys_expected = max(self._values_expected, keys)
                self._writer = self._open()
            # A row group with more keys than the filters are made for is cut, as an overfull filter admits everything.
            pieces = -(-keys // self._keys_expected) or 1
            self._writer.write_table(rows, row_group_size=-(-rows.num_rows // pieces))
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0

    def _open(self) -> pq.ParquetWriter:
        values = {column: self._keys_expected if column == "keys" else self._values_expected for column in LOOKUP_COLUMNS}
        filters = {path: values[column] for column, path in LOOKUP_COLUMNS.items()}
        filters |= {path: self._values_expected for path in _value_leaves(self._schema) if path in self._bloom}
        return pq.ParquetWriter(
            self._sink,
            self._schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=[*_DICTIONARIES, *_value_leaves(self._schema, texts=True)],
            write_statistics=[*_STATISTICS, *_value_leaves(self._schema)],
            write_page_checksum=True,
            store_schema=False,
            bloom_filter_options={path: {"ndv": ndv, "fpp": _BLOOM_FALSE_POSITIVES} for path, ndv in filters.items()},
        )


def _value_leaves(schema: pa.Schema, *, texts: bool = False) -> list[str]:
    kind = value_type(schema)
    return [] if kind is None else [path for path, leaf in _leaves(kind, VALUE) if not texts or pa.types.is_string(leaf)]


def _leaves(kind: pa.StructType, under: str) -> Iterator[tuple[str, pa.DataType]]:
    for field in kind:
        path = f"{under}.{field.name}"
        if pa.types.is_struct(field.type):
            yield from _leaves(field.type, path)
        elif not pa.types.is_nested(field.type):
            yield path, field.type


def queue_slices(rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    counts = pc.value_counts(rows.column("queue"))
    start = 0
    for queue, count in sorted((item["values"].as_py(), item["counts"].as_py()) for item in counts):
        yield queue, rows.slice(start, count)
        start += count


def _ends(batch: pa.RecordBatch) -> tuple[dict[str, Any], dict[str, Any]]:
    def row(at: int) -> dict[str, Any]:
        return {
            "queue": batch.column("queue")[at].as_py(),
            "offset": batch.column("offset")[at].as_py(),
            "store_timestamp": batch.column("store_timestamp")[at].value,
        }

    return row(0), row(batch.num_rows - 1)
