"""Reads one table file by ranges: the footer first, then only the row groups and columns that are needed."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import DataDamaged, ForeignObject
from ...format.sealed import PARQUET_ERRORS, check_footer
from ...limits import KIB
from ...message.message import MESSAGE_SCHEMA
from ...stores.protocol import ObjectStore
from .segments import TableFile

_FOOTER_GUESS_BYTES = 32 * KIB


class SegmentReader:
    """An open table file. Pages are checked against their checksums, the footer against its seal."""

    def __init__(self, store: ObjectStore, root: str, file: TableFile) -> None:
        self.file = file
        self.key = root + file.path
        self._store = store
        self._spans = _Spans()
        self._metadata: pq.FileMetaData | None = None

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
        if not schema.equals(MESSAGE_SCHEMA):
            raise ForeignObject(
                "a sealed file that is none of a table's",
                object=self.key,
                expected="the columns of messages",
                observed=columns[:500],
            )
        self._metadata = metadata
        return self

    @property
    def metadata(self) -> pq.FileMetaData:
        assert self._metadata is not None, "open() first"
        return self._metadata

    @property
    def row_groups(self) -> int:
        return self.metadata.num_row_groups

    def bounds(self, group: int, column: str) -> tuple[int, int]:
        """The smallest and largest value, as integers, of ``offset`` or ``store_timestamp`` (microseconds) in a row group. Raises
        `DataDamaged`.
        """
        place = self._columns([column])[0]
        statistics = self.metadata.row_group(group).column(place).statistics
        if statistics is None or not statistics.has_min_max:
            raise DataDamaged("a row group of a table file has no bounds", object=self.key, expected=f"statistics of {column}")
        return statistics.min_raw, statistics.max_raw

    async def fetch_group(self, group: int, columns: Sequence[str] | None = None) -> None:
        """Fetch the pages of a row group, in as few requests as the places of its columns allow."""
        chunks = sorted(self._chunk(group, place) for place in self._columns(columns))
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
        """The rows of a fetched row group. It may run in any thread. Raises `DataDamaged`."""
        source = pa.PythonFile(_Cursor(self._spans, self.file.size_bytes), mode="r")
        try:
            parquet = pq.ParquetFile(source, metadata=self.metadata, pre_buffer=False, page_checksum_verification=True)
            return parquet.read_row_group(group, columns=None if columns is None else list(columns), use_threads=False)
        except PARQUET_ERRORS as error:
            raise DataDamaged("rows of the table cannot be read", object=self.key, observed=str(error)) from error

    def drop_group(self, group: int) -> None:
        """Release a row group's pages."""
        places = range(self.metadata.num_columns)
        self._spans.drop(min(self._chunk(group, p)[0] for p in places), max(self._chunk(group, p)[1] for p in places))

    async def read_bytes(self, start: int, limit: int) -> bytes:
        """Bytes of the file, from memory or else from the store; not kept."""
        if self._spans.has(start, limit):
            return self._spans.read(start, limit)
        return await self._store.get_range(self.key, start, limit)

    def _columns(self, names: Sequence[str] | None) -> list[int]:
        """The positions of the Parquet columns that hold these Arrow columns."""
        schema = self.metadata.schema
        return [p for p in range(len(schema)) if names is None or schema.column(p).path.partition(".")[0] in names]

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


class _Spans:
    """The ranges of a file that are in memory."""

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
    """The file in the form that pyarrow reads."""

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
