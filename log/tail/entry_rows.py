"""Finds the rows of a folded entry: where they lie, and their offsets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import DataDamaged
from ..format.digest import digest
from ..format.fold import FoldedEntry, VoidReason
from ..format.header import Batch, Header
from ..format.sealed import PARQUET_ERRORS, check_seal, checked_rows, read_rows, read_stored
from ..format.stored_json import shown
from ..limits import TIME_MAX_MS, TIME_MIN_US
from ..message.columns import fits_file, joined, value_type, with_value
from ..message.message import LOG_SCHEMA, MESSAGE_SCHEMA, VALUE
from ..paths import TopicPaths
from ..runtime.runtime import Runtime
from ..schema.stored_columns import is_stored_by
from ..schema.topic_schema import TopicSchema
from ..stores.protocol import ObjectMissing, ObjectStore

_FETCHED_AT_ONCE = 16
_STORED_TYPE = MESSAGE_SCHEMA.field("store_timestamp").type
_NEVER_NULL = ("queue", "message_id", "born_timestamp")


@dataclass(frozen=True, slots=True)
class RowRange:
    """Consecutive rows of one queue inside one file."""

    queue: int
    first_offset: int
    count: int
    first_row: int
    key: str | None
    """The staged object, from the topic's root; None: the entry itself."""


@dataclass(frozen=True, slots=True)
class LostRange:
    """Offsets whose rows cannot be read any more."""

    queue: int
    first_offset: int
    limit_offset: int
    """Exclusive."""
    object: str
    reason: str


@dataclass(frozen=True, slots=True)
class EntryRows:
    """The rows that an entry brought."""

    table: pa.Table
    """The rows with `MESSAGE_SCHEMA`, by queue and offset, with ``value`` as stored."""
    lost: tuple[LostRange, ...]


def runs_of(folded: FoldedEntry, *, queues: Collection[int] | None = None) -> list[RowRange]:
    """Accepted runs by queue and offset."""
    return sorted(_runs_in_order(folded, queues), key=lambda run: (run.queue, run.first_offset))


def _runs_in_order(folded: FoldedEntry, queues: Collection[int] | None) -> list[RowRange]:
    """Accepted runs by batch, in offset order within each queue."""
    return [
        RowRange(queue, first_offset + done, count, row, key)
        for batch, verdict, places in _places(folded)
        for queue, first_offset, done, count, row, key in _batch_runs(batch, verdict, places)
        if queues is None or queue in queues
    ]


async def entry_pieces(
    store: ObjectStore,
    paths: TopicPaths,
    runtime: Runtime,
    folded: FoldedEntry,
    data: bytes,
    *,
    queues: Collection[int] | None = None,
) -> AsyncIterator[EntryRows]:
    """The rows of an entry, file by file, without the whole entry in memory. Offsets rise within each queue.

    A missing or damaged staged object costs its own rows only, named in ``lost``. Raises `DataDamaged` when the entry itself cannot be read.
    """
    staged = {part.key: (part.size_bytes, part.digest) for batch in folded.header.batches for part in batch.parts}
    inline: pa.Table | None = None
    for key, grouped in groupby(_runs_in_order(folded, queues), key=lambda run: run.key):
        if key is None:
            inline = inline or read_messages(data, where=paths.entry(folded.number), schema=folded.state.schema)
            rows: pa.Table | str = inline
        else:
            rows = await _staged(store, runtime, paths.root + key, *staged[key], schema=folded.state.schema)
        runs = sorted(grouped, key=lambda run: (run.queue, run.first_offset))
        yield _assemble(paths, folded, runs, {key: rows})


async def staged_parts(
    store: ObjectStore, paths: TopicPaths, folded: FoldedEntry, *, queues: Collection[int] | None = None
) -> dict[str, bytes | None]:
    """The staged objects with rows of an entry; None for a missing one."""
    keys = sorted({run.key for run in _runs_in_order(folded, queues) if run.key is not None})
    at_once = asyncio.Semaphore(_FETCHED_AT_ONCE)

    async def fetch(key: str) -> bytes | None:
        async with at_once:
            return await _object(store, paths.root + key)

    answers = await asyncio.gather(*map(fetch, keys), return_exceptions=True)
    parts: dict[str, bytes | None] = {}
    for key, answer in zip(keys, answers, strict=True):
        if isinstance(answer, BaseException):
            raise answer
        parts[key] = answer
    return parts


def decode_entry(
    paths: TopicPaths,
    folded: FoldedEntry,
    data: bytes,
    parts: Mapping[str, bytes | None],
    *,
    queues: Collection[int] | None = None,
) -> EntryRows:
    """All rows of an entry; ``parts`` are of `staged_parts` for the same queues. Heavy: run it off the event loop. Raises `DataDamaged` when the
    entry itself cannot be read.
    """
    runs = runs_of(folded, queues=queues)
    files: dict[str | None, pa.Table | str] = {
        part.key: _staged_rows(parts[part.key], paths.root + part.key, part.size_bytes, part.digest, schema=folded.state.schema)
        for batch in folded.header.batches
        for part in batch.parts
        if part.key in parts
    }
    if any(run.key is None for run in runs):
        files[None] = read_messages(data, where=paths.entry(folded.number), schema=folded.state.schema)
    return _assemble(paths, folded, runs, files)


def decode_together(paths: TopicPaths, entries: Sequence[tuple[FoldedEntry, bytes, Collection[int]]]) -> pa.Table | None:
    """The rows of `decode_entry` of each of these entries, with the queues that are wanted of it, one entry after the other. For an entry of few
    rows that saves most of its time.

    None where `decode_entry` may have more to say of one: it is damaged, has staged objects or typed rows, or other columns than the others. That
    rows are of the right queues remains to be checked.
    """
    slices: list[pa.Table] = []
    offsets: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
    counts: list[int] = []
    try:
        for folded, data, wanted in entries:
            runs = runs_of(folded, queues=wanted)
            if folded.state.schema is not None or any(run.key is not None for run in runs):
                return None
            rows = read_stored(data, where=paths.log)
            slices += [rows.slice(run.first_row, run.count) for run in runs]
            offsets += [np.arange(run.first_offset, run.first_offset + run.count) for run in runs]
            counts.append(sum(run.count for run in runs))
        rows = pa.concat_tables(slices).combine_chunks()
        if not fits_file(rows.schema, LOG_SCHEMA):
            return None
        table = checked_rows(rows, where=paths.log, schema=LOG_SCHEMA)
        _check_messages(table, paths.log)
    except (DataDamaged, *PARQUET_ERRORS):
        return None  # of which entry, its own decoding tells
    if table.num_rows != sum(counts):
        return None
    stored_us = np.repeat([1000 * folded.store_time_ms for folded, _, _ in entries], counts)
    return _with_places(table, pa.array(np.concatenate(offsets)), pa.array(stored_us).view(_STORED_TYPE))


def _with_places(table: pa.Table, offsets: pa.Array, stored: pa.Array) -> pa.Table:
    schema = with_value(MESSAGE_SCHEMA, value_type(table.schema))
    added = {"offset": offsets, "store_timestamp": stored}
    return pa.Table.from_arrays([added[name] if name in added else table.column(name) for name in schema.names], schema=schema)


def _assemble(
    paths: TopicPaths, folded: FoldedEntry, runs: list[RowRange], files: Mapping[str | None, pa.Table | str]
) -> EntryRows:
    places: list[tuple[str | None, int, int]] = []
    offsets: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
    lost: list[LostRange] = []
    queues = {key: rows.column("queue").to_numpy() for key, rows in files.items() if not isinstance(rows, str)}
    for run in runs:
        rows = files[run.key]
        limit, behind = run.first_offset + run.count, run.first_row + run.count
        reason = rows if isinstance(rows, str) else _why_lost(queues[run.key], run)
        if reason is None:
            offsets.append(np.arange(run.first_offset, limit))
            if places and places[-1][0] == run.key and places[-1][2] == run.first_row:
                places[-1] = (run.key, places[-1][1], behind)
            else:
                places.append((run.key, run.first_row, behind))
        else:
            lost.append(LostRange(run.queue, run.first_offset, limit, paths.root + (run.key or ""), reason))
    slices = [files[key].slice(first, behind - first) for key, first, behind in places]  # type: ignore[union-attr]
    if not slices:
        schema = folded.state.schema
        return EntryRows(with_value(MESSAGE_SCHEMA, None if schema is None else schema.stored_arrow).empty_table(), tuple(lost))
    table = joined(slices)
    stored = pa.repeat(pa.scalar(folded.store_time_ms * 1000, _STORED_TYPE), table.num_rows)
    return EntryRows(_with_places(table, pa.array(np.concatenate(offsets)), stored), tuple(lost))


def _why_lost(queues: np.ndarray[tuple[int], np.dtype[np.int32]], run: RowRange) -> str | None:
    if run.first_row + run.count > len(queues):
        return "it has fewer rows than its footer says"
    ours = queues[run.first_row : run.first_row + run.count] == run.queue
    return None if bool(ours.all()) else "its rows are of other queues than its footer says"


async def _staged(
    store: ObjectStore, runtime: Runtime, key: str, size_bytes: int, expected: str, *, schema: TopicSchema | None
) -> pa.Table | str:
    data = await _object(store, key)
    return await runtime.offload(lambda: _staged_rows(data, key, size_bytes, expected, schema=schema))


async def _object(store: ObjectStore, key: str) -> bytes | None:
    try:
        return (await store.get(key)).data
    except ObjectMissing:
        return None


def _staged_rows(data: bytes | None, key: str, size_bytes: int, expected: str, *, schema: TopicSchema | None) -> pa.Table | str:
    if data is None:
        return "it is missing"
    if len(data) != size_bytes or digest(data) != expected:
        return "it is not what was written"
    try:
        check_seal(data, where=key)
        return read_messages(data, where=key, schema=schema)
    except DataDamaged as error:
        return str(error)


def read_messages(data: bytes, *, where: str, schema: TopicSchema | None = None) -> pa.Table:
    """The rows (`LOG_SCHEMA`) of an entry or staged object whose seal was checked. With ``schema``, the topic's after the rows, they have ``value``
    as stored.

    Raises `DataDamaged` for other columns or types, invalid text, and impossible times.
    """
    stored = None if schema is None else schema.stored_arrow
    rows = read_rows(data, where=where, schema=with_value(LOG_SCHEMA, stored))
    if stored is not None and not is_stored_by(found := rows.schema.field(VALUE).type, stored):
        raise DataDamaged("the file's rows are not of the topic's schema", object=where, expected=stored, observed=shown(found))
    _check_messages(rows, where)
    return rows


def _check_messages(rows: pa.Table, where: str) -> None:
    nulls = [name for name in _NEVER_NULL if rows.column(name).null_count]
    if nulls:
        raise DataDamaged(
            "the file's rows are not messages", object=where, expected="values", observed=f"nulls in {', '.join(nulls)}"
        )
    for name in ("born_timestamp", "delivery_timestamp"):
        times = rows.column(name)
        if times.null_count == len(times):
            continue
        ends = pc.min_max(times.cast(pa.int64())).as_py()
        if not TIME_MIN_US <= ends["min"] <= ends["max"] <= TIME_MAX_MS * 1000:
            raise DataDamaged(
                "the file's rows are not messages",
                object=where,
                expected=f"a {name} in the years 1 to 9999",
                observed=f"{ends['min']} to {ends['max']} microseconds since 1970",
            )


def _places(folded: FoldedEntry) -> Iterator[tuple[Batch, Mapping[int, int], Mapping[int, int]]]:
    """The accepted batches with their offsets and, if inline, each queue's first row in the entry."""
    inline = inline_places(folded.header)
    for position, (batch, verdict) in enumerate(zip(folded.header.batches, folded.verdicts, strict=True)):
        if not isinstance(verdict, VoidReason):
            yield batch, verdict, inline.get(position, {})


def inline_places(header: Header) -> dict[int, dict[int, int]]:
    """Each queue's first row, in the entry, of each inline batch; rows are sorted by queue, then batch."""
    places: dict[int, dict[int, int]] = {position: {} for position in header.inline}
    row = 0
    for queue in sorted({queue for position in places for queue in header.batches[position].rows}):
        for position, of_batch in places.items():
            count = header.batches[position].rows.get(queue, 0)
            if count:
                of_batch[queue] = row
                row += count
    return places


def _batch_runs(
    batch: Batch, offsets: Mapping[int, int], places: Mapping[int, int]
) -> Iterator[tuple[int, int, int, int, int, str | None]]:
    """(queue, the batch's first offset in it, its rows before the run, rows, first row in the file, file) of each run."""
    if not batch.parts:
        for queue, count in batch.rows.items():
            yield queue, offsets[queue], 0, count, places[queue], None
        return
    done = dict.fromkeys(batch.rows, 0)
    for part in batch.parts:
        row = part.first_row
        for queue, count in sorted(part.rows.items()):
            yield queue, offsets[queue], done[queue], count, row, part.key
            done[queue] += count
            row += count
