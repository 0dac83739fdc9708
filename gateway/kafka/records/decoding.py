"""Record batches as Arrow columns: of many batches at once, as one costs as much as a hundred do.

Nothing that the bytes say is believed: a length or a count is held against the bytes that are left before memory is taken for it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ....log.limits import TIME_MAX_MS
from ....log.message.message import LOG_SCHEMA
from .batches import BatchHeader, KafkaBatch
from .compression import decompressed
from .errors import RecordsError
from .varints import LONG_BYTES_MAX, Bytes, Mask, Numbers, read_varint, read_varints

RECORDS_SCHEMA: Final = pa.schema(
    [
        pa.field("offset_delta", pa.int32()),
        pa.field("timestamp", pa.timestamp("ms", "UTC")),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        LOG_SCHEMA.field("headers"),
    ]
)
"""The columns of records. ``headers`` are NULL where there are none."""

_RECORD_BYTES_MIN: Final = 7
_ATTRIBUTES_BYTES: Final = 1
"""The attributes of a record, of which no bit has a meaning yet."""
_HEADER_BYTES_MIN: Final = 2
_DATA_BYTES_MAX: Final = 2**31 - 1024
"""Offsets of Arrow's columns have 32 bits."""
_ZEROS: Final = bytes(8 * LONG_BYTES_MAX)
"""What follows the data: more than can be read of a record between two looks at where it ends."""
_ROUND_ROWS_MIN: Final = 16
"""The rows from which on it is quicker to read a header of each row at a time than a row's headers."""

_Places: TypeAlias = npt.NDArray[np.int32] | npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """Batches decoded as far as they are sound."""

    rows: pa.RecordBatch
    """The records of the sound ones among the first ``taken`` batches, in their order."""
    refused: Mapping[int, RecordsError]
    """The errors, by the number of the batch."""
    taken: int
    """The first so many batches were looked at. The others are to be given again."""


def decode_gathered(batches: Sequence[KafkaBatch], *, limit_bytes: int) -> Gathered:
    """The records of many clients' batches, where a bad one must not harm the others.

    ``limit_bytes`` is of uncompressed records: of a batch, or it is refused, and of all together, or the last ones are not taken.
    At least one batch is taken, and none behind one that cannot be inflated.
    """
    payloads: dict[int, bytes | memoryview] = {}
    refused: dict[int, RecordsError] = {}
    room = limit_bytes = min(limit_bytes, _DATA_BYTES_MAX)
    taken = 0
    for number, batch in enumerate(batches):
        try:
            payload = decompressed(batch.payload, batch.header.compression, limit_bytes, number)
        except RecordsError as error:
            refused[number] = _without_frames(error)
            taken = number + 1
            break  # it may have been inflated up to the limit
        if len(payload) > room and payloads:
            break
        payloads[number] = payload
        room -= len(payload)
        taken = number + 1
    try:
        rows = _decoded(batches, payloads)
    except RecordsError:
        for number, payload in list(payloads.items()):
            try:
                _decoded(batches, {number: payload})
            except RecordsError as error:
                refused[number] = _without_frames(error)
                del payloads[number]
        rows = _decoded(batches, payloads)
    return Gathered(rows=rows, refused=refused, taken=taken)


def _without_frames(error: RecordsError) -> RecordsError:
    """The error without what its traceback keeps in memory, such as what was inflated."""
    return RecordsError(error.code_name, error.message, error.batch, error.record)


def decode(batches: Sequence[KafkaBatch], *, limit_bytes: int) -> pa.RecordBatch:
    """The records of the batches with `RECORDS_SCHEMA`, in order. ``limit_bytes`` is of all their records, uncompressed.

    Takes at most some 30 times as much memory, where records or headers are as small as can be. Raises `RecordsError`, which names the first
    bad batch that was found: INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE or UNSUPPORTED_COMPRESSION_TYPE.
    """
    payloads: dict[int, bytes | memoryview] = {}
    room = min(limit_bytes, _DATA_BYTES_MAX)
    for number, batch in enumerate(batches):
        payloads[number] = decompressed(batch.payload, batch.header.compression, room, number)
        room -= len(payloads[number])
    return _decoded(batches, payloads)


def _decoded(batches: Sequence[KafkaBatch], payloads: Mapping[int, bytes | memoryview]) -> pa.RecordBatch:
    if not payloads:
        return pa.RecordBatch.from_pylist([], RECORDS_SCHEMA)
    headers = [batches[number].header for number in payloads]
    source = _Source.of(headers, payloads)
    lengths, places = read_varints(source.data, source.begins)
    source.refuse(lengths != source.ends - places, "its length is not that of its parts")
    time_deltas, places = read_varints(source.data, places + _ATTRIBUTES_BYTES, LONG_BYTES_MAX)
    offset_deltas, places = read_varints(source.data, places)
    source.refuse(offset_deltas != source.dense(), "its offset is not the one behind the record before")
    keys = _Slices.read(source, places, -1, "key")
    values = _Slices.read(source, keys.ends, -1, "value")
    counts, places = read_varints(source.data, values.ends)
    wrong = (counts < 0) | (counts > (source.ends - places) // _HEADER_BYTES_MIN)
    source.refuse(wrong, "it says that it has more headers than fit into it, or fewer than none")
    headers_column, places = _headers(source, counts, places)
    source.refuse(places != source.ends, "its length is not that of its parts")
    columns = [
        _plain(pa.int32(), offset_deltas.astype(np.int32)),
        _plain(pa.timestamp("ms", "UTC"), _times(source, headers, time_deltas)),
        keys.column(source),
        values.column(source),
        headers_column,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RECORDS_SCHEMA)


@dataclass(frozen=True, eq=False, slots=True)
class _Source:
    """The records of all batches behind one another, and where each is."""

    raw: bytes
    data: Bytes
    """The same. Zeros follow the last record."""
    begins: Numbers
    ends: Numbers
    firsts: Numbers
    """The first row of each batch."""
    counts: Numbers
    numbers: Sequence[int]
    """What the batches are called in errors."""

    @classmethod
    def of(cls, headers: Sequence[BatchHeader], payloads: Mapping[int, bytes | memoryview]) -> _Source:
        raw = b"".join((*payloads.values(), _ZEROS))
        begins: list[int] = []
        end = 0
        for header, (number, payload) in zip(headers, payloads.items(), strict=True):
            if not 0 < header.record_count <= len(payload) // _RECORD_BYTES_MIN:
                raise RecordsError("INVALID_RECORD", f"{header.record_count} records are not in {len(payload)} bytes", number)
            begin, end = end, end + len(payload)
            if _walk(raw, begin, header.record_count, begins.append) != end:
                raise RecordsError("INVALID_RECORD", f"its {header.record_count} records do not end where it does", number)
        places = np.array([*begins, end], np.int64)
        counts = np.array([header.record_count for header in headers], np.int64)
        firsts = np.cumsum(counts) - counts
        return cls(raw, np.frombuffer(raw, np.uint8), places[:-1], places[1:], firsts, counts, list(payloads))

    def of_rows(self, of_batches: Sequence[int]) -> Numbers:
        """A value of each batch, for each of its rows."""
        return np.array(of_batches, np.int64).repeat(self.counts)

    def dense(self) -> Numbers:
        """The offset deltas that the records should have."""
        return np.arange(len(self.begins)) - self.firsts.repeat(self.counts)

    def refuse(self, bad: Mask, what: str, rows: Numbers | None = None, code_name: str = "INVALID_RECORD") -> None:
        """Raise `RecordsError` for the first bad one of ``rows``, by default of all."""
        if np.count_nonzero(bad):  # several times as quick as `any`, where there are few
            at = int(bad.argmax())
            raise self.refusal(at if rows is None else int(rows[at]), what, code_name)

    def refusal(self, row: int, what: str, code_name: str = "INVALID_RECORD") -> RecordsError:
        batch = int(np.searchsorted(self.firsts, row, side="right")) - 1
        return RecordsError(code_name, what, self.numbers[batch], row - int(self.firsts[batch]))


def _walk(raw: bytes, place: int, count: int, add: Callable[[int], None]) -> int:
    """``add`` where each record begins, by the lengths alone, and return where the last one ends. -1 if that is nowhere.

    This loop is a third of all work, so that it is written out. A length that has a sign is found later.
    """
    try:
        for _ in range(count):
            add(place)
            part = raw[place]
            if part < 128:
                place += 1 + (part >> 1)
                continue
            second = raw[place + 1]
            if second < 128:
                place += 2 + (part >> 1 & 63 | second << 6)
            else:
                length, place = read_varint(raw, place)
                place += max(length, 0)
    except IndexError:
        return -1
    return place


@dataclass(frozen=True, eq=False, slots=True)
class _Slices:
    """Lengths with what they are of."""

    starts: Numbers
    ends: Numbers
    lengths: Numbers
    """-1 for NULL."""

    @classmethod
    def read(cls, source: _Source, places: Numbers, least: int, what: str, rows: Numbers | None = None) -> _Slices:
        lengths, starts = read_varints(source.data, places)
        room = (source.ends if rows is None else source.ends[rows]) - starts
        source.refuse((lengths < least) | (lengths > room), f"the length of its {what} is not within the record", rows)
        return cls(starts, starts + np.maximum(lengths, 0), lengths)

    def column(self, source: _Source) -> pa.BinaryArray:
        return _column(source.raw, self.starts, self.ends, self.lengths < 0)


def _column(raw: bytes, starts: _Places, ends: _Places, nulls: Mask) -> pa.BinaryArray:
    """Slices of the data, in its order, as a column: every second value of one that has what lies between as well."""
    null_count = np.count_nonzero(nulls)
    if null_count == len(starts):
        return pa.nulls(len(starts), pa.binary())
    edges = np.empty(2 * len(starts), np.int32)
    edges[::2], edges[1::2] = starts, ends
    whole = pa.Array.from_buffers(pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges), pa.py_buffer(raw)])
    places = np.arange(0, len(edges), 2, dtype=np.int32)
    return whole.take(pa.array(places, mask=nulls) if null_count else _plain(pa.int32(), places))


def _plain(kind: pa.DataType, values: npt.NDArray[np.integer]) -> pa.Array:
    """Numbers as they are, without NULL."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _headers(source: _Source, counts: Numbers, places: Numbers) -> tuple[pa.ListArray, Numbers]:
    """The column, and where the headers end. ``counts`` are bounded by the records' bytes."""
    kind = RECORDS_SCHEMA.field("headers").type
    rows = np.flatnonzero(counts)
    if not len(rows):
        return pa.nulls(len(counts), kind), places
    firsts = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=firsts[1:])
    # Of each header where the name starts and ends, where the value starts, and its length:
    found = np.empty((int(firsts[-1]), 4), np.int32)
    places = places.copy()
    done = 0
    while len(rows) >= _ROUND_ROWS_MIN:
        names = _Slices.read(source, places[rows], 0, "header's name", rows)
        values = _Slices.read(source, names.ends, -1, "header's value", rows)
        found[firsts[rows] + done] = np.stack((names.starts, names.ends, values.starts, values.lengths), axis=1)
        places[rows] = values.ends
        done += 1
        rows = rows[counts[rows] > done]
    for row in rows.tolist():
        one, places[row] = _headers_of(source, row, int(places[row]), int(counts[row]) - done)
        found[firsts[row] + done : firsts[row + 1]] = np.frombuffer(one, np.int32).reshape(-1, 4)
    name_starts, name_ends, starts, lengths = found.T
    names_column = _column(source.raw, name_starts, name_ends, np.zeros(len(found), np.bool_))
    values_column = _column(source.raw, starts, starts + np.maximum(lengths, 0), lengths < 0)
    texts = _texts(source, names_column, firsts)
    pairs = pa.StructArray.from_arrays([texts, values_column], fields=list(kind.value_type))
    return pa.ListArray.from_arrays(pa.array(firsts), pairs, type=kind, mask=pa.array(counts == 0)), places


def _headers_of(source: _Source, row: int, place: int, count: int) -> tuple[array[int], int]:
    """The last ``count`` headers of one record, and where they end."""
    found = array("i")
    end = int(source.ends[row])
    for _ in range(count):
        length, name = read_varint(source.raw, place)
        if not 0 <= length <= end - name:
            raise source.refusal(row, "the length of its header's name is not within the record")
        length, value = read_varint(source.raw, name_end := name + length)
        if not -1 <= length <= end - value:
            raise source.refusal(row, "the length of its header's value is not within the record")
        found.extend((name, name_end, value, length))
        place = value + max(length, 0)
    return found, place


def _texts(source: _Source, names: pa.BinaryArray, firsts: npt.NDArray[np.int32]) -> pa.StringArray:
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        first, end = 0, len(names)
        while end - first > 1:
            middle = (first + end) // 2
            first, end = (first, middle) if not _is_text(names[first:middle]) else (middle, end)
        row = int(np.searchsorted(firsts, first, side="right")) - 1
        raise source.refusal(row, "the name of a header is no UTF-8") from None


def _is_text(names: pa.BinaryArray) -> bool:
    try:
        names.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _times(source: _Source, headers: Sequence[BatchHeader], deltas: Numbers) -> Numbers:
    appended = [one.is_log_append_time for one in headers]
    of_batches = [one.max_timestamp if is_append else one.base_timestamp for one, is_append in zip(headers, appended, strict=True)]
    if any(appended):
        deltas = np.where(source.of_rows(appended), 0, deltas)
    bases = source.of_rows(of_batches)
    times = bases + deltas
    is_beyond_64_bits = ((bases ^ times) & (deltas ^ times)) < 0
    bad = is_beyond_64_bits | (times < 0) | (times > TIME_MAX_MS)
    source.refuse(bad, "its timestamp is not within the years 1970 to 9999", code_name="INVALID_TIMESTAMP")
    return times
