"""Looks messages up by id, key or message group.

Per row group one block of a Bloom filter is read (32 bytes), then the searched column, and the rest only if the column holds the value.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from ...errors import InvalidArgument
from ...message.message import MESSAGE_SCHEMA
from ...paths import TopicPaths
from ...runtime.runtime import Runtime
from ...stores.protocol import ObjectStore
from .segment_reader import SegmentReader
from .segments import LOOKUP_COLUMNS, TableFile
from .snapshot import Snapshot

_BLOCK_BYTES = 32
_SALT = np.array([0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], dtype=np.uint32)
_REQUESTS_AT_ONCE = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Lookup:
    """The values to look for, at least one; a message must match all."""

    message_id: str | None = None
    key: str | None = None
    message_group: str | None = None

    def __post_init__(self) -> None:
        if not self.terms:
            raise InvalidArgument("nothing to look up", operation="lookup", expected="a message_id, key or message_group")

    @property
    def terms(self) -> dict[str, str]:
        given = {"message_id": self.message_id, "keys": self.key, "message_group": self.message_group}
        return {column: value for column, value in given.items() if value is not None}

    def matching(self, rows: pa.RecordBatch | pa.Table) -> list[int]:
        """The positions of matching rows, by the searched columns."""
        found: set[int] | None = None
        for column, value in self.terms.items():
            matches = _positions(rows.column(column), value)
            found = matches if found is None else found & matches
        return sorted(found or ())


async def lookup(
    store: ObjectStore, paths: TopicPaths, snapshot: Snapshot, wanted: Lookup, *, runtime: Runtime
) -> AsyncIterator[pa.RecordBatch]:
    """The matching rows, by queue and offset. Raises `DataDamaged`."""
    files = [file for _, files in sorted(snapshot.files.items()) for file in files]
    for start in range(0, len(files), _REQUESTS_AT_ONCE):
        some = files[start : start + _REQUESTS_AT_ONCE]
        root = paths.table(snapshot.folder)
        found = await asyncio.gather(*(candidates(store, root, file, wanted) for file in some))
        for reader, groups in found:
            for group in groups:
                rows = await matches(reader, group, wanted, runtime)
                for batch in rows.to_batches():
                    yield batch


async def candidates(store: ObjectStore, root: str, file: TableFile, wanted: Lookup) -> tuple[SegmentReader, list[int]]:
    reader = await SegmentReader(store, root, file).open()
    gate = asyncio.Semaphore(_REQUESTS_AT_ONCE)

    async def may_hold(group: int) -> bool:
        async with gate:
            for column, value in wanted.terms.items():
                if not await _in_filter(reader, group, column, value):
                    return False
            return True

    answers = await asyncio.gather(*(may_hold(group) for group in range(reader.row_groups)))
    return reader, [group for group, maybe in enumerate(answers) if maybe]


async def _in_filter(reader: SegmentReader, group: int, column: str, value: str) -> bool:
    """Whether a Bloom filter admits ``value``, or is missing."""
    chunks = (reader.metadata.row_group(group).column(place) for place in range(reader.metadata.num_columns))
    chunk = next(chunk for chunk in chunks if chunk.path_in_schema == LOOKUP_COLUMNS[column])
    if chunk.bloom_filter_offset is None or not chunk.bloom_filter_length:
        return True
    # A small header stands before the bits, whose size is a power of two.
    bits_bytes = 1 << (chunk.bloom_filter_length.bit_length() - 1)
    bits_start = chunk.bloom_filter_offset + chunk.bloom_filter_length - bits_bytes
    hashed = xxhash.xxh64_intdigest(value.encode())
    block = bits_start + ((hashed >> 32) * (bits_bytes // _BLOCK_BYTES) >> 32) * _BLOCK_BYTES
    return block_admits(await reader.read_bytes(block, block + _BLOCK_BYTES), hashed)


def block_admits(block: bytes, hashed: int) -> bool:
    words = np.frombuffer(block, dtype="<u4")
    masks = np.uint32(1) << ((np.uint32(hashed & 0xFFFFFFFF) * _SALT) >> np.uint32(27))
    return bool(np.all(words & masks == masks))


async def matches(reader: SegmentReader, group: int, wanted: Lookup, runtime: Runtime) -> pa.Table:
    asked = list(wanted.terms)
    await reader.fetch_group(group, asked)
    at = await runtime.offload(lambda: wanted.matching(reader.decode_group(group, asked)))
    if not at:
        reader.drop_group(group)
        return MESSAGE_SCHEMA.empty_table()
    await reader.fetch_group(group, reader.columns_but(asked))
    rows = await runtime.offload(lambda: reader.decode_group(group).take(at))
    reader.drop_group(group)
    return rows


def _positions(column: pa.Array | pa.ChunkedArray, value: str) -> set[int]:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if not pa.types.is_list(array.type):
        return set(pc.indices_nonzero(pc.equal(array, value).fill_null(False)).to_pylist())
    hits = pc.equal(array.flatten(), value).fill_null(False)
    return set(array.value_parent_indices().filter(hits).to_pylist())
