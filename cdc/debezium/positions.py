"""Places in a binlog, and the one number under which an event of it is sent.

A change of a row stands at (binlog file, position of its event in the file, row in that event). An update that gives a row another key comes
as a delete and a create at one place, so the operation counts too. All are packed into 63 bits, below 2**63.

No change has one of the last 64 rows that would fit. A number with such a row lies between transactions: it names the place in the log that is
one byte behind its position, and says which reading of tables' rows the changes before that place have caught up with.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ...log.errors import DataDamaged, LimitExceeded

FILE_BITS, POS_BITS, ROW_BITS = 17, 32, 13
_PLACE_ROWS, _PLACE_BITS = 64, 7
"""The rows that are no change's; they and the bit of creates are free in a place's number."""
_READING_BITS = 40
"""The bits of a row's number within one reading of rows."""
_NUMBER = re.compile(r"\.([0-9]{1,18})$")


@lru_cache(maxsize=16)
def file_number(file: str) -> int:
    """The number of a binlog file, such as 7 of ``binlog.000007``. Raises `DataDamaged`."""
    if (found := _NUMBER.search(file)) is None:
        raise DataDamaged("this is no name of a binlog file", operation="capture", expected="such as binlog.000007", observed=file)
    return int(found[1])


def sequence_of(file: str, pos: int, row: int, op: str) -> int:
    """The number of a change, above that of every change before it in the binlog. Raises `DataDamaged`, `LimitExceeded`.

    Rows are counted within their event. A row of an event that is not compressed takes two bytes at least, and an event takes 8 KiB, or one
    row. So no more than 4,096 have one position unless the server is told otherwise.
    """
    number = file_number(file)
    for what, value, limit in (
        ("number of the binlog file", number, 1 << FILE_BITS),
        ("position", pos, 1 << POS_BITS),
        ("row", row, (1 << ROW_BITS) - _PLACE_ROWS),
    ):
        if not 0 <= value < limit:
            raise LimitExceeded(
                f"the {what} of a change is too large to be part of its sequence",
                operation="capture",
                object=f"{file}, position {pos}, row {row}",
                expected=f"below {limit:,}",
                observed=value,
                hint="leave binlog_row_event_max_size at 8192" if what == "row" else None,
            )
    return ((number << POS_BITS | pos) << ROW_BITS | row) << 1 | (op == "c")


# --- Places between transactions ------------------------------------------------------------------------------------------------------


def between(file: str, pos: int, reading: int) -> int:
    """The number of the place ``pos``: above that of every change before it, and below that of every other. Raises `DataDamaged`,
    `LimitExceeded`.

    ``reading`` is the number of the last reading of tables' rows (`reading_of`), as of a place that is not behind this one.
    """
    return sequence_of(file, pos - 1, 0, "d") | (1 << 1 + ROW_BITS) - (1 << _PLACE_BITS) | reading % (1 << _PLACE_BITS)


def is_between(position: int) -> bool:
    """Whether this is no change's number, but lies between transactions: all that end before its place are told by then, and no other."""
    return position > 0 and (position >> 1) % (1 << ROW_BITS) >= (1 << ROW_BITS) - _PLACE_ROWS


def place_text(position: int) -> str:
    """The place of a number that lies between transactions: the number of the file as its name has it, and the position in the file."""
    number, before = divmod(position >> 1 + ROW_BITS, 1 << POS_BITS)
    return f"{number:06}:{before + 1}"


def reading_of(rows: int) -> int:
    """The number of the reading to which a row belongs that was sent under this number. Readings count from 0."""
    return max(rows, 0) >> _READING_BITS


def is_of_same_reading(position: int, other: int) -> bool:
    """Whether two places are told by changes that have caught up with the same reading."""
    return (position ^ other) % (1 << _PLACE_BITS) == 0


def has_caught_up(position: int, rows: int) -> bool:
    """Whether a place is told by changes that have caught up with the last row's reading."""
    return is_of_same_reading(position, reading_of(rows))


def rows_go_on_at(rows: int, position: int) -> int:
    """The number of the next row, where ``rows`` was the last one's. It begins another reading where the changes sent so far name a place that
    has caught up with this one: from that row on they do so no more.
    """
    return reading_of(rows) + 1 << _READING_BITS if is_between(position) and has_caught_up(position, rows) else rows + 1
