"""The common part of positions in binlogs and MongoDB's log. Pure.

The lowest 14 bits of a position number the changes at one place of the log. The highest of these numbers are no change's: they
lie between transactions, and name the snapshot of tables' rows that the changes before have caught up with.
"""

from __future__ import annotations

CHANGE_BITS, PLACE_BITS = 14, 7
"""The bits of a change's number at one place; those of them that are free in a place's number."""
CHANGES = (1 << CHANGE_BITS) - (1 << PLACE_BITS)
_SNAPSHOT_BITS = 40
"""The bits of a row's number within one snapshot."""


def place_number(place: int, snapshot: int) -> int:
    """The number after all changes at a place. ``snapshot``: the number of the last snapshot of rows (`snapshot_of`), as of this place or an
    earlier one.
    """
    return place << CHANGE_BITS | CHANGES | snapshot % (1 << PLACE_BITS)


def is_between(position: int) -> bool:
    """Whether the number lies between transactions: all that end before its place come earlier, and no other."""
    return position > 0 and position % (1 << CHANGE_BITS) >= CHANGES


def snapshot_of(rows: int) -> int:
    """The number of the snapshot, from 0, of a row sent under this number."""
    return max(rows, 0) >> _SNAPSHOT_BITS


def is_of_same_snapshot(position: int, other: int) -> bool:
    """Whether the changes at two places have caught up with the same snapshot."""
    return (position ^ other) % (1 << PLACE_BITS) == 0


def has_caught_up(position: int, rows: int) -> bool:
    """Whether the changes at a place have caught up with the last row's snapshot."""
    return is_of_same_snapshot(position, snapshot_of(rows))


def rows_go_on_at(rows: int, position: int) -> int:
    """The number after ``rows``, the last row's. It begins another snapshot if the changes sent so far have caught up with this
    one: from that row on they have not.
    """
    return snapshot_of(rows) + 1 << _SNAPSHOT_BITS if is_between(position) and has_caught_up(position, rows) else rows + 1
