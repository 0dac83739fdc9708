"""Arrow columns as record batches, with dense offsets."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ....log.errors import LimitExceeded
from ....log.limits import MIB
from ....log.schema.stored_columns import FlattenedParts
from .batches import LOG_APPEND_TIME, MAGIC, NO_PRODUCER_ID, BatchHeader, KafkaBatch, batch_of
from .compression import Compression, compressed
from .varints import INT_BYTES_MAX, LONG_BYTES_MAX, Numbers, Varints, written

BATCH_BYTES_MAX: Final = MIB
"""What a batch has at most before it is compressed, unless it is one record."""

_ROWS_BYTES_MAX: Final = 2**31 - 1
"""Offsets of Arrow's columns have 32 bits."""
_NUMBERS_BYTES_MAX: Final = INT_BYTES_MAX + 1 + LONG_BYTES_MAX + INT_BYTES_MAX
"""The most that a record's length, attributes, time and offset take."""
_NOTHING: Final = pa.scalar(b"", pa.binary())
_NO_HEADERS: Final = pa.scalar(Varints(np.zeros(1, np.int64)).parts[0].tobytes(), pa.binary())
_ATTRIBUTES: Final = 0
"""The attributes of a record, as a varint the same byte."""


def encode(
    rows: pa.RecordBatch,
    *,
    base_offset: int,
    leader_epoch: int,
    compression: Compression = Compression.NONE,
    log_append_time: bool = False,
    batch_bytes_max: int = BATCH_BYTES_MAX,
) -> list[KafkaBatch]:
    """Batches of the columns ``key``, ``value``, ``headers`` and ``timestamp`` of `RECORDS_SCHEMA`, without a producer.

    The records have the offsets from ``base_offset`` on. With ``log_append_time`` a batch has one timestamp, so that another one begins
    another batch. Raises `LimitExceeded` for rows of 2 GiB and more.
    """
    if not rows.num_rows:
        return []
    keys, values = _Values.of(rows["key"]), _Values.of(rows["value"])
    tails = _tails(rows["headers"])
    tail_sizes = _sizes(tails) if isinstance(tails, pa.Array) else 1
    times = rows["timestamp"].view(pa.int64()).to_numpy()
    known_sizes = keys.sizes + values.sizes + tail_sizes
    starts = _starts(known_sizes + _NUMBERS_BYTES_MAX, times if log_append_time else None, batch_bytes_max)
    edges = np.append(starts, rows.num_rows)
    counts = edges[1:] - starts
    base_times = times[starts]
    time_deltas = Varints(times - base_times.repeat(counts))
    offset_deltas = Varints(np.arange(rows.num_rows) - starts.repeat(counts))
    lengths = Varints(1 + time_deltas.sizes + offset_deltas.sizes + known_sizes)
    attributes = Varints(np.full(rows.num_rows, _ATTRIBUTES))
    head = written([lengths, attributes, time_deltas, offset_deltas, keys.lengths])
    whole = pc.binary_join_element_wise(head, keys.column, written([values.lengths]), values.column, tails, _NOTHING)
    places = _offsets(whole)[edges].tolist()
    data = memoryview(whole.buffers()[2])
    last_times = np.maximum.reduceat(times, starts).tolist()
    return [
        batch_of(
            BatchHeader(
                base_offset=base_offset + start,
                length=0,
                leader_epoch=leader_epoch,
                magic=MAGIC,
                crc=0,
                attributes=compression | (LOG_APPEND_TIME if log_append_time else 0),
                last_offset_delta=count - 1,
                base_timestamp=base_time,
                max_timestamp=last_time,
                producer_id=NO_PRODUCER_ID,
                producer_epoch=-1,
                base_sequence=-1,
                record_count=count,
            ),
            compressed(bytes(data[begin:end]), compression),
        )
        for start, count, base_time, last_time, begin, end in zip(
            starts.tolist(), counts.tolist(), base_times.tolist(), last_times, places, places[1:], strict=False
        )
    ]


def _starts(sizes_max: Numbers, times: Numbers | None, batch_bytes_max: int) -> Numbers:
    """The rows with which batches begin."""
    ends = np.cumsum(sizes_max)
    if ends[-1] > _ROWS_BYTES_MAX:
        raise LimitExceeded(
            "these rows are too many at once", operation="encode", expected=f"{_ROWS_BYTES_MAX} bytes", observed=int(ends[-1])
        )
    count = len(ends)
    changes = [0] if times is None else [0, *(np.flatnonzero(np.diff(times)) + 1).tolist()]
    starts = []
    for first, end in zip(changes, [*changes[1:], count], strict=True):
        start = first
        while start < end:
            starts.append(start)
            before = int(ends[start - 1]) if start else 0
            start = max(start + 1, min(end, int(np.searchsorted(ends, before + batch_bytes_max, side="right"))))
    return np.array(starts, np.int64)


class _Values:
    """A nullable binary column, as it is written."""

    __slots__ = ("column", "lengths", "sizes")

    def __init__(self, column: pa.BinaryArray, lengths: Numbers) -> None:
        self.column = column
        """Without NULL."""
        self.lengths: Final = Varints(lengths)
        self.sizes: Final = self.lengths.sizes + np.maximum(lengths, 0)
        """The bytes of each with its length."""

    @classmethod
    def of(cls, column: pa.BinaryArray) -> _Values:
        lengths = _sizes(column)
        if not column.null_count:
            return cls(column, lengths)
        return cls(pc.fill_null(column, _NOTHING), np.where(np.asarray(column.is_null()), -1, lengths))


def _tails(headers: pa.ListArray) -> pa.BinaryArray | pa.Scalar:
    """The number of headers of each row, and the headers."""
    if headers.null_count == len(headers):
        return _NO_HEADERS
    flat = FlattenedParts(headers)
    if not len(flat.owners):
        return _NO_HEADERS
    pairs = flat.of(headers.values)
    names, values = _Values.of(pairs.field(0).cast(pa.binary())), _Values.of(pairs.field(1))
    joined = pc.binary_join_element_wise(written([names.lengths]), names.column, written([values.lengths]), values.column, _NOTHING)
    rows = np.asarray(flat.offsets)
    # The headers of a row are beside one another, so that only the ends of rows are left of the ends of headers.
    ends = np.ascontiguousarray(_offsets(joined)[rows])
    of_rows = pa.BinaryArray.from_buffers(pa.binary(), len(headers), [None, pa.py_buffer(ends), joined.buffers()[2]])
    return pc.binary_join_element_wise(written([Varints(np.diff(rows).astype(np.int64))]), of_rows, _NOTHING)


def _offsets(column: pa.BinaryArray) -> npt.NDArray[np.int32]:
    return np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]


def _sizes(column: pa.BinaryArray) -> Numbers:
    """The sizes of values, and any for NULL."""
    return np.diff(_offsets(column)).astype(np.int64)
