"""What idempotent producers sent, as batches of the log: one for each run of rows, and one for rows that have no such producer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InvalidArgument, LimitExceeded, PenstockError
from ..format.idempotence import SEQUENCES
from ..limits import HANDED_BYTES_MAX, PRODUCER_NAME_BYTES_MAX
from ..message.batch_rows import BatchQueues, BatchRows

EPOCH_MAX = 2**15 - 1


@dataclass(frozen=True, slots=True)
class IdempotentBatch:
    """A run of rows that an idempotent producer sent to one queue, as one batch: written as a whole, or not at all."""

    producer: str
    """The producer's id."""
    epoch: int
    """Kafka's producer epoch: 0 to 32,767."""
    sequence: int
    """Kafka's sequence of the first row: 0 to 2^31 - 1. Of one producer, queue and epoch the next batch goes on behind the last row."""
    start: int
    """The first of its rows in the table."""
    count: int


class BatchStatus(StrEnum):
    """What became of a batch."""

    WRITTEN = "written"
    DUPLICATE = "duplicate"
    """All its rows were in the log before."""
    OUT_OF_ORDER = "out of order"
    """It does not follow what the log has of its producer. Not written."""
    FENCED = "fenced"
    """Its producer has begun a later epoch. Not written."""
    NOT_WRITTEN = "not written"
    UNKNOWN = "unknown"
    """It may be in the log. Sent again, to any process, it counts once."""


@dataclass(frozen=True, slots=True)
class BatchAnswer:
    """What became of one idempotent producer's batch."""

    status: BatchStatus
    base_offset: int | None = None
    """The offset of its first row, where it is in the log and that is known."""
    store_time_ms: int | None = None
    error: PenstockError | None = None
    """What says why it was not written, or may not be."""


@dataclass(frozen=True, eq=False, slots=True)
class PlainAnswer:
    """What became of the rows without an idempotent producer: written, not written, or unknown, all of them."""

    status: BatchStatus
    queues: npt.NDArray[np.int32]
    """The queue of each row, in the table's order."""
    offsets: npt.NDArray[np.int64] | None = None
    """The offset of each row. None where they are not written, or it is not known where."""
    store_time_ms: int | None = None
    error: PenstockError | None = None


@dataclass(frozen=True, eq=False, slots=True)
class AppendedBatches:
    """What became of all that was appended at once."""

    batches: tuple[BatchAnswer, ...]
    """One answer for each batch, in their order."""
    plain: PlainAnswer | None
    """None where every row was of some batch."""


@dataclass(frozen=True, eq=False, slots=True)
class BatchTable:
    """One batch's rows as they are stored, by queue."""

    rows: pa.Table
    queues: BatchQueues
    size_bytes: int


@dataclass(frozen=True, eq=False, slots=True)
class EncodedBatches:
    """Rows as they are stored, cut into batches."""

    batches: tuple[BatchTable, ...]
    plain: BatchTable | None
    is_extended: bool
    generation: int
    """The routing generation by which the rows have their queues."""


def check_batches(batches: Sequence[IdempotentBatch], rows: int) -> None:
    """Raise `InvalidArgument` unless the runs lie in the table, one behind the other, with numbers that Kafka has."""
    behind = 0
    for one in batches:
        numbers = 0 <= one.epoch <= EPOCH_MAX and 0 <= one.sequence < SEQUENCES
        if not numbers or not 0 < len(one.producer.encode()) <= PRODUCER_NAME_BYTES_MAX:
            raise InvalidArgument(
                "no idempotent producer's batch",
                operation="append",
                expected=f"a producer of at most {PRODUCER_NAME_BYTES_MAX} bytes, epoch 0 to {EPOCH_MAX}, sequence 0 to {SEQUENCES - 1}",
                observed=one,
            )
        if one.start < behind or one.count < 1 or one.start + one.count > rows:
            raise InvalidArgument(
                "the batches' rows do not lie one behind the other",
                operation="append",
                expected=f"rows {behind} to {rows - 1}",
                observed=one,
            )
        behind = one.start + one.count


def cut(rows: BatchRows, batches: Sequence[IdempotentBatch], *, generation: int) -> EncodedBatches:
    """Cut rows that were routed by ``generation`` into batches.

    Raises `InvalidArgument` for a batch of several queues, `LimitExceeded` for one that is too large.
    """
    queues = rows.places.queues
    sizes = _ends(rows)
    plain = np.ones(rows.count, bool)
    for one in batches:
        run = slice(one.start, one.start + one.count)
        if (queues[run] != queues[one.start]).any():
            raise InvalidArgument("the batch of an idempotent producer is of several queues", operation="append", observed=one)
        _check_size(sizes[run.stop] - sizes[run.start], one)
        plain[run] = False
    whole = _with_producers(rows.taken(np.arange(rows.count)), batches, rows.producer)
    cuts = tuple(
        BatchTable(
            whole.slice(one.start, one.count),
            BatchQueues(queues[one.start : one.start + one.count]),
            int(sizes[one.start + one.count] - sizes[one.start]),
        )
        for one in batches
    )
    return EncodedBatches(cuts, _plain(whole, queues, np.flatnonzero(plain), sizes), rows.is_extended, generation)


def _plain(
    whole: pa.Table, queues: npt.NDArray[np.int32], indices: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> BatchTable | None:
    if not len(indices):
        return None
    places = BatchQueues(queues[indices])
    size_bytes = int((ends[indices + 1] - ends[indices]).sum())
    _check_size(size_bytes, "rows without an idempotent producer")
    return BatchTable(whole.take(pa.array(indices[places.order])), places, size_bytes)


def _ends(rows: BatchRows) -> npt.NDArray[np.int64]:
    """The bytes before each row, and of all: exact as to bodies, the rest by the mean."""
    bodies = np.zeros(rows.count, np.int64)
    if (column := rows.columns.get("body")) is not None:
        bodies = pc.fill_null(pc.binary_length(column), 0).to_numpy().astype(np.int64)
    rest = max(0, rows.size_bytes - int(bodies.sum())) // max(1, rows.count)
    return np.concatenate([[0], np.cumsum(bodies + rest)])


def _check_size(size_bytes: int, observed: object) -> None:
    if size_bytes > HANDED_BYTES_MAX:
        raise LimitExceeded(
            "the batch is too large",
            operation="append",
            expected=f"at most {HANDED_BYTES_MAX} bytes",
            observed=f"{size_bytes} bytes: {observed}",
            hint="send fewer rows at once",
        )


def _with_producers(whole: pa.Table, batches: Sequence[IdempotentBatch], plain_producer: str) -> pa.Table:
    names = np.zeros(whole.num_rows, np.int32)
    for number, one in enumerate(batches):
        names[one.start : one.start + one.count] = number + 1
    column = pa.array([plain_producer, *(one.producer for one in batches)], pa.string()).take(pa.array(names))
    return whole.set_column(whole.schema.get_field_index("producer"), whole.schema.field("producer"), column)
