"""What positions of binlogs and of MongoDB's log have in common: how a number names a place between transactions, and readings of rows. Pure.

The lowest 14 bits of a position tell changes at one place of the log apart. No change has one of the last numbers that would fit: such a number
lies between transactions. It says which reading of tables' rows the changes before that place have caught up with.
"""

from __future__ import annotations

CHANGE_BITS, PLACE_BITS = 14, 7
"""The bits of a change's number at one place of the log; those of them that are free in a place's number."""
CHANGES = (1 << CHANGE_BITS) - (1 << PLACE_BITS)
"""The numbers of changes at one place."""
_READING_BITS = 40
"""The bits of a row's number within one reading of rows."""


def place_number(place: int, reading: int) -> int:
    """The number that lies behind all changes at a place. ``reading``: the number of the last reading of rows (`reading_of`), as of a place that
    is not behind this one.
    """
    return place << CHANGE_BITS | CHANGES | reading % (1 << PLACE_BITS)


def is_between(position: int) -> bool:
    """Whether this is no change's number, but lies between transactions: all that end before its place are told by then, and no other."""
    return position > 0 and position % (1 << CHANGE_BITS) >= CHANGES


def reading_of(rows: int) -> int:
    """The number of the reading to which a row belongs that was sent under this number. Readings count from 0."""
    return max(rows, 0) >> _READING_BITS


def is_of_same_reading(position: int, other: int) -> bool:
    """Whether two places are told by changes that have caught up with the same reading."""
    return (position ^ other) % (1 << PLACE_BITS) == 0


def has_caught_up(position: int, rows: int) -> bool:
    """Whether a place is told by changes that have caught up with the last row's reading."""
    return is_of_same_reading(position, reading_of(rows))


def rows_go_on_at(rows: int, position: int) -> int:
    """The number of the next row, where ``rows`` was the last one's. It begins another reading where the changes sent so far name a place that
    has caught up with this one: from that row on they do so no more.
    """
    return reading_of(rows) + 1 << _READING_BITS if is_between(position) and has_caught_up(position, rows) else rows + 1
