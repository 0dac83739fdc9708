"""The amount that a trigger takes, and the tasks that read it."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...log.format.growth import Growth, former_queues

ROW_BYTES_GUESSED = 512
"""The row size of a topic without a table."""

Ranges = Mapping[int, tuple[int, int]]
"""The first offset and the one to stop before, by queue."""


@dataclass(frozen=True, slots=True)
class OffsetRun:
    """Consecutive offsets of a queue with known bytes."""

    first: int
    limit: int
    bytes: int


@dataclass(frozen=True, slots=True)
class RowSizes:
    """The sizes of stored rows, by the table's files; beyond, by the files of its last rows."""

    pieces: Mapping[int, Sequence[OffsetRun]]
    row_bytes: float = ROW_BYTES_GUESSED

    def bytes_of(self, queue: int, start: int, limit: int) -> int:
        known = covered = 0.0
        for piece in self.pieces.get(queue, ()):
            shared = min(limit, piece.limit) - max(start, piece.first)
            if shared > 0:
                known += piece.bytes * shared / (piece.limit - piece.first)
                covered += shared
        return round(known + max(0.0, limit - start - covered) * self.row_bytes)

    def offset_after(self, queue: int, start: int, limit: int, size_bytes: int) -> int:
        low, high = start, limit
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.bytes_of(queue, start, middle) <= size_bytes else (low, middle - 1)
        return low


def held_back(available: Ranges, growths: Sequence[Growth]) -> dict[int, tuple[int, int]]:
    """The ranges without the rows of a queue whose former queues were not read up to their marks in earlier batches: no message group's newer
    messages come in a batch with its older ones.
    """

    def may_begin(queue: int) -> bool:
        return all(former not in available or available[former][0] >= mark for former, mark in former_queues(growths, queue))

    return {queue: (start, limit if may_begin(queue) else start) for queue, (start, limit) in available.items()}


def admitted(available: Ranges, *, rows_max: int | None, bytes_max: int | None, sizes: RowSizes) -> dict[int, int]:
    """The offset to stop before, by queue: as much as both limits allow, at least one row.

    Every queue gets the same share; its unused part goes to the others.
    """
    ends = {queue: limit for queue, (_, limit) in available.items()}
    if rows_max is not None:
        rows = _shares({queue: limit - start for queue, (start, limit) in available.items()}, rows_max)
        ends = {queue: available[queue][0] + count for queue, count in rows.items()}
    if bytes_max is not None:
        wanted = {queue: sizes.bytes_of(queue, start, ends[queue]) for queue, (start, _) in available.items()}
        shares = _shares(wanted, bytes_max)
        ends = {
            queue: ends[queue] if shares[queue] == wanted[queue] else sizes.offset_after(queue, start, ends[queue], shares[queue])
            for queue, (start, _) in available.items()
        }
    if all(end == available[queue][0] for queue, end in ends.items()):
        # The next row is larger than the limit; without it the stream would stand still for ever.
        waiting = max(available, key=lambda queue: available[queue][1] - available[queue][0], default=None)
        if waiting is not None and available[waiting][0] < available[waiting][1]:
            ends[waiting] += 1
    return ends


def in_whole_groups(
    available: Ranges,
    ends: Mapping[int, int],
    groups: Mapping[int, tuple[int, int]],
    *,
    rows_max: int | None,
    bytes_max: int | None,
    sizes: RowSizes,
) -> dict[int, int]:
    """The ends moved within the limits, so that at most one of ``groups`` is divided: the two triggers that share one decode it twice.

    ``groups``: the first offset and the one behind the last of the row group in which a queue's end lies. The queues with the most behind their ends
    get theirs whole; every queue keeps the row groups before it.
    """
    divided = {queue: group for queue, group in groups.items() if available[queue][0] < group[0] < ends[queue] < group[1]}
    moved = {**ends, **{queue: first for queue, (first, _) in divided.items()}}
    taken = {queue: (start, moved[queue]) for queue, (start, _) in available.items()}
    rows_left = None if rows_max is None else rows_max - sum(end - start for start, end in taken.values())
    bytes_left = None if bytes_max is None else bytes_max - sum(sizes.bytes_of(queue, *range_) for queue, range_ in taken.items())
    for queue in sorted(divided, key=lambda queue: (ends[queue] - available[queue][1], queue)):
        first, limit = divided[queue][0], min(divided[queue][1], available[queue][1])
        end = limit if rows_left is None else min(limit, first + rows_left)
        if bytes_left is not None:
            end = sizes.offset_after(queue, first, end, bytes_left)
            bytes_left -= sizes.bytes_of(queue, first, end)
        if rows_left is not None:
            rows_left -= end - first
        moved[queue] = end
    return moved


def _shares(wanted: Mapping[int, int], total: int) -> dict[int, int]:
    """``total`` divided evenly, no share above the wanted; the remainder goes to the largest."""
    shares: dict[int, int] = {}
    left = total
    by_size = sorted(wanted, key=lambda queue: (wanted[queue], -queue))
    for place, queue in enumerate(by_size):
        shares[queue] = min(wanted[queue], left // (len(by_size) - place))
        left -= shares[queue]
    return shares


def packed(ranges: Ranges, *, tasks_max: int, sizes: RowSizes) -> list[dict[int, tuple[int, int]]]:
    """Whole queues in at most ``tasks_max`` tasks of about equal bytes."""
    weights = {queue: sizes.bytes_of(queue, start, limit) for queue, (start, limit) in ranges.items() if limit > start}
    tasks: list[tuple[int, int, list[int]]] = [(0, number, []) for number in range(min(tasks_max, len(weights)))]
    for queue in sorted(weights, key=lambda queue: (-weights[queue], queue)):
        weight, number, queues = heapq.heappop(tasks)
        heapq.heappush(tasks, (weight + weights[queue], number, [*queues, queue]))
    return [{queue: ranges[queue] for queue in sorted(queues)} for _, _, queues in sorted(tasks, key=lambda task: task[1])]
