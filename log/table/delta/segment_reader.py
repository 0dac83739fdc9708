"""Reads one table file by ranges: the footer, then the needed row groups and columns."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import DataDamaged, ForeignObject
from ...format.sealed import PARQUET_ERRORS, check_footer
from ...limits import KIB
from ...message.columns import fits_file, value_type, whole, with_value
from ...message.message import MESSAGE_SCHEMA
from ...stores.protocol import ObjectStore
from .segments import TableFile

_FOOTER_GUESS_BYTES = 32 * KIB


class SegmentReader:
    """An open table file. Checksums guard its pages, the seal its footer."""

    def __init__(self, store: ObjectStore, root: str, file: TableFile) -> None:
        self.file = file
        self.key = root + file.path
        self._store = store
        self._spans = _Spans()
        self._metadata: pq.FileMetaData | None = None
        self._names: frozenset[str] = frozenset()
        self.value_type: pa.DataType | None = None

    async def open(self, *, whole_bytes_max: int = 0) -> SegmentReader:
        """Fetch the footer, or a file up to this size whole. Raises `ObjectMissing`, `DataDamaged`."""
        size = self.file.size_bytes
        start = 0 if size <= whole_bytes_max else max(0, size - _FOOTER_GUESS_BYTES)
        tail = await self._fetch(start, size)
        footer_bytes = int.from_bytes(tail[-8:-4], "little") + 8
        if tail[-4:] != b"PAR1" or footer_bytes > size - 4:
            raise ForeignObject("not a Parquet file, or cut off", object=self.key, observed=f"{len(tail)} bytes at its end")
        if footer_bytes > len(tail):
            tail = await self._fetch(size - footer_bytes, size)
        footer = tail[-footer_bytes:]
        check_footer(footer, where=self.key)
        try:
            metadata = pq.read_metadata(pa.BufferReader(b"PAR1" + footer))
            schema = metadata.schema.to_arrow_schema()
            columns = ", ".join(f"{field.name}: {field.type}" for field in schema)
        except PARQUET_ERRORS as error:
            raise DataDamaged("the footer of a table file cannot be read", object=self.key, observed=str(error)) from error
        if not is_table_file(schema):
            raise ForeignObject(
                "a sealed file that is none of a table's",
                object=self.key,
                expected="the columns of messages",
                observed=columns[:500],
            )
        self._metadata = metadata
        self._names = frozenset(schema.names)
        self.value_type = value_type(schema)
        return self

    @property
    def metadata(self) -> pq.FileMetaData:
        assert self._metadata is not None, "open() first"
        return self._metadata

    def columns_but(self, known: Collection[str]) -> list[str]:
        return [name for name in self._names if name not in known]

    @property
    def row_groups(self) -> int:
        return self.metadata.num_row_groups

    def bounds(self, group: int, column: str) -> tuple[int, int]:
        """Least and greatest ``offset`` or ``store_timestamp`` (microseconds) of a row group. Raises `DataDamaged`."""
        place = self._columns([column])[0]
        statistics = self.metadata.row_group(group).column(place).statistics
        if statistics is None or not statistics.has_min_max:
            raise DataDamaged("a row group of a table file has no bounds", object=self.key, expected=f"statistics of {column}")
        return statistics.min_raw, statistics.max_raw

    async def fetch_group(self, group: int, columns: Sequence[str] | None = None) -> None:
        """Fetch a row group's pages in as few requests as possible."""
        chunks = sorted(self._chunk(group, place) for place in self._columns(self._present(columns)))
        joined: list[tuple[int, int]] = []
        for start, limit in chunks:
            if joined and start <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(limit, joined[-1][1]))
            else:
                joined.append((start, limit))
        for start, limit in joined:
            if not self._spans.has(start, limit):
                await self._fetch(start, limit)

    def decode_group(self, group: int, columns: Sequence[str] | None = None) -> pa.Table:
        """A fetched row group, in any thread. Raises `DataDamaged`."""
        source = pa.PythonFile(_Cursor(self._spans, self.file.size_bytes), mode="r")
        try:
            parquet = pq.ParquetFile(source, metadata=self.metadata, pre_buffer=False, page_checksum_verification=True)
            rows = parquet.read_row_group(group, columns=self._present(columns), use_threads=False)
            return whole(rows, self._wanted(columns, rows.schema))
        except PARQUET_ERRORS as error:
            raise DataDamaged("rows of the table cannot be read", object=self.key, observed=str(error)) from error

    def _present(self, columns: Sequence[str] | None) -> list[str] | None:
        if columns is None:
            return None
        schema = self.metadata.schema
        paths = [schema.column(place).path for place in range(len(schema))]
        there = {prefix for path in paths for prefix in _prefixes(path)}
        found = [name for name in columns if name in there]
        struct = next((name.partition(".")[0] for name in columns if "." in name), None)
        if struct in there and not any(name.partition(".")[0] == struct for name in found):
            # Which structs are NULL must be known even where the file has none of the fields.
            found.append(next(path for path in paths if path.startswith(f"{struct}.")))
        return found

    def _wanted(self, columns: Sequence[str] | None, found: pa.Schema) -> pa.Schema:
        names = None if columns is None else {name.partition(".")[0] for name in columns}
        schema = with_value(MESSAGE_SCHEMA, value_type(found))
        return schema if names is None else pa.schema([field for field in schema if field.name in names])

    def drop_group(self, group: int) -> None:
        places = range(self.metadata.num_columns)
        self._spans.drop(min(self._chunk(group, p)[0] for p in places), max(self._chunk(group, p)[1] for p in places))

    def close(self) -> None:
        self._spans = _Spans()

    async def read_bytes(self, start: int, limit: int) -> bytes:
        if self._spans.has(start, limit):
            return self._spans.read(start, limit)
        return await self._store.get_range(self.key, start, limit)

    def _columns(self, names: Sequence[str] | None) -> list[int]:
        schema = self.metadata.schema
        if names is None:
            return list(range(len(schema)))
        wanted = frozenset(names)
        return [place for place in range(len(schema)) if not wanted.isdisjoint(_prefixes(schema.column(place).path))]

    def _chunk(self, group: int, place: int) -> tuple[int, int]:
        chunk = self.metadata.row_group(group).column(place)
        start = chunk.data_page_offset if chunk.dictionary_page_offset is None else chunk.dictionary_page_offset
        return start, start + chunk.total_compressed_size

    async def _fetch(self, start: int, limit: int) -> bytes:
        data = await self._store.get_range(self.key, start, limit)
        if len(data) != limit - start:
            raise DataDamaged(
                "a table file is shorter than its table says", object=self.key, expected=limit, observed=start + len(data)
            )
        self._spans.add(start, data)
        return data


def is_table_file(schema: pa.Schema) -> bool:
    """Whether the columns are those of a topic's table."""
    value = value_type(schema)
    return (value is None or pa.types.is_struct(value)) and fits_file(schema, with_value(MESSAGE_SCHEMA, value))


def _prefixes(path: str) -> Iterator[str]:
    parts = path.split(".")
    return (".".join(parts[: count + 1]) for count in range(len(parts)))


class _Spans:
    def __init__(self) -> None:
        self._spans: dict[int, bytes] = {}

    def add(self, start: int, data: bytes) -> None:
        self._spans[start] = data

    def drop(self, start: int, limit: int) -> None:
        for first in [first for first, data in self._spans.items() if first >= start and first + len(data) <= limit]:
            del self._spans[first]

    def has(self, start: int, limit: int) -> bool:
        return any(first <= start and limit <= first + len(data) for first, data in self._spans.items())

    def read(self, start: int, limit: int) -> bytes:
        for first, data in tuple(self._spans.items()):
            if first <= start and limit <= first + len(data):
                return data if (first, len(data)) == (start, limit - start) else data[start - first : limit - first]
        raise OSError(f"bytes {start} to {limit} were not fetched")


class _Cursor(io.RawIOBase):
    def __init__(self, spans: _Spans, size_bytes: int) -> None:
        super().__init__()
        self._spans = spans
        self._size_bytes = size_bytes
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        limit = self._size_bytes if size < 0 else min(self._size_bytes, self._at + size)
        piece = self._spans.read(self._at, limit)
        self._at = limit
        return piece

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (self._at if whence == io.SEEK_CUR else self._size_bytes if whence == io.SEEK_END else 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True
