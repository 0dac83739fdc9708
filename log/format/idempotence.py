"""What a state knows of idempotent producers, and how their batches stand to it.

Such a producer numbers its records, for each queue by itself: ``epoch << 40 | records of the epoch before it``. The low 31 bits are Kafka's sequence,
which begins again at 2^31. Its batches are of one queue each. A batch's ``previous`` is the number of its first record, its ``last`` that of the
record behind its last one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from ..limits import IDEMPOTENT_ROW_ENTRIES, IDEMPOTENT_ROW_MS, IDEMPOTENT_ROWS_MAX, IDEMPOTENT_STEP_MAX_MS
from .header import Batch

COUNTER_BITS = 40
COUNTER_MAX = 2**COUNTER_BITS - 1
SEQUENCES = 2**31
"""Kafka's sequences before they begin again."""


@dataclass(frozen=True, slots=True)
class IdempotentRow:
    """A state's knowledge of one idempotent producer in one queue."""

    first: int
    """The number from which on every record up to ``last`` is in the log."""
    last: int
    """The number of its next record."""
    entry: int
    """The entry of its last accepted batch."""
    time_ms: int
    """The time of that entry by the rows' own clock (`TopicState.idempotent_ms`)."""


class Standing(Enum):
    """How a batch stands to its producer's row."""

    FOLLOWS = "it is the next"
    DUPLICATE = "all its records are in the log"
    PASSED = "its number has passed, and nothing proves that its records are in the log"
    GAP = "something before it is missing"
    FENCED = "its producer has begun a later epoch"


def epoch_of(number: int) -> int:
    return number >> COUNTER_BITS


def key_of(batch: Batch) -> tuple[str, int]:
    """The producer and the queue of an idempotent producer's batch."""
    (queue,) = batch.rows
    return batch.producer, queue


def standing(row: IdempotentRow | None, batch: Batch) -> Standing:
    if row is None:
        return Standing.FOLLOWS if may_begin_row(batch) else Standing.GAP
    if is_of_earlier_epoch(row, batch):
        return Standing.FENCED
    if epoch_of(batch.previous) > epoch_of(row.last):
        return Standing.FOLLOWS if begins_epoch(batch) else Standing.GAP
    if batch.previous == row.last:
        return Standing.FOLLOWS
    if batch.previous > row.last:
        return Standing.GAP
    return Standing.DUPLICATE if has_all(row, batch) else Standing.PASSED


def after(row: IdempotentRow | None, batch: Batch, entry: int, time_ms: int) -> IdempotentRow:
    """The row once a batch was accepted."""
    first = row.first if row is not None and row.last == batch.previous else batch.previous
    return IdempotentRow(first, batch.last, entry, time_ms)


def later(clock_ms: int, step_ms: int) -> int:
    """The rows' clock after an entry that moved the store time by ``step_ms``."""
    return clock_ms + min(step_ms, IDEMPOTENT_STEP_MAX_MS)


def number_of(epoch: int, sequence: int, near: int | None) -> int:
    """The number of Kafka's ``sequence``, in the round of sequences nearest to ``near``, a number that is known of the producer."""
    counter = sequence
    if near is not None and epoch_of(near) == epoch:
        known = near & COUNTER_MAX
        counter = known + (sequence - known + SEQUENCES // 2) % SEQUENCES - SEQUENCES // 2
    return (epoch << COUNTER_BITS) + (counter if counter >= 0 else sequence)


def in_round_of(row: IdempotentRow, batch: Batch) -> Batch:
    """The batch with the numbers that its sequences have now. A state that did not know the row cannot have known the round."""
    previous = number_of(epoch_of(batch.previous), batch.previous % SEQUENCES, row.last)
    return batch if previous == batch.previous else replace(batch, previous=previous, last=previous + batch.row_count)


def is_numbered(batch: Batch) -> bool:
    """Whether the numbers of an idempotent producer's batch fit its rows: one queue, no gaps, one epoch."""
    dense = batch.last == batch.previous + batch.row_count
    return not batch.named and len(batch.rows) == 1 and batch.previous >= 0 and dense and within_epoch(batch)


# --- The guards, one by one, as in the fold ----------------------------------------------------------------------------------------


def may_begin_row(batch: Batch) -> bool:
    """Whether a batch may be the first that a state knows of its producer. One that was formed behind another that is on its way may not."""
    return batch.begins is True


def is_of_earlier_epoch(row: IdempotentRow, batch: Batch) -> bool:
    return epoch_of(batch.previous) < epoch_of(row.last)


def begins_epoch(batch: Batch) -> bool:
    return batch.previous & COUNTER_MAX == 0


def within_epoch(batch: Batch) -> bool:
    """A number that has run full is none of the next epoch: its producer must begin one."""
    return epoch_of(batch.last) == epoch_of(batch.previous)


def has_all(row: IdempotentRow, batch: Batch) -> bool:
    """Whether every record of a batch is in the log; ``last`` alone says nothing of records before ``first``.

    A batch that is far behind was numbered by a state that did not know the round of Kafka's sequence: its records are others.
    """
    return row.first <= batch.previous and batch.last <= row.last and row.last - batch.previous <= SEQUENCES // 2


def may_leave(row: IdempotentRow, entry: int, time_ms: int, rows: int) -> bool:
    """Whether the longest unused of so many rows leaves the state with an entry: never while a batch that the row refuses may be valid."""
    if row.entry >= entry - IDEMPOTENT_ROW_ENTRIES:
        return False
    return row.time_ms < time_ms - IDEMPOTENT_ROW_MS or rows > IDEMPOTENT_ROWS_MAX
