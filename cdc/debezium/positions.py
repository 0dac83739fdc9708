"""Places in a binlog, and the sequences of its events.

A row's change stands at (binlog file, position of its event in the file, row in that event), packed into 63 bits with its
operation: an update of a key comes as a delete and a create at one place.

The last 64 rows are no change's. They number places between transactions (`penstock.cdc.capture.positions`), one byte after
their position.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ...log.errors import DataDamaged, LimitExceeded
from ..capture.positions import CHANGE_BITS, CHANGES, place_number

FILE_BITS, POS_BITS, ROW_BITS = 17, 32, CHANGE_BITS - 1
_ROWS = CHANGES >> 1
"""The rows of changes; a place's number is free in the others and the bit of creates."""
_NUMBER = re.compile(r"\.([0-9]{1,18})$")


@lru_cache(maxsize=16)
def file_number(file: str) -> int:
    """The number of a binlog file, such as 7 of ``binlog.000007``. Raises `DataDamaged`."""
    if (found := _NUMBER.search(file)) is None:
        raise DataDamaged("this is no name of a binlog file", operation="capture", expected="such as binlog.000007", observed=file)
    return int(found[1])


def sequence_of(file: str, pos: int, row: int, op: str) -> int:
    """The number of a change, above all earlier ones in the binlog. Raises `DataDamaged`, `LimitExceeded`.

    Rows are counted within their event. An uncompressed row takes two bytes at least, and an event takes 8 KiB, or one row. So
    no more than 4,096 have one position unless the server is configured otherwise.
    """
    number = file_number(file)
    for what, value, limit in (
        ("number of the binlog file", number, 1 << FILE_BITS),
        ("position", pos, 1 << POS_BITS),
        ("row", row, _ROWS),
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


def between(file: str, pos: int, snapshot: int) -> int:
    """The number of the place ``pos``, between the changes before and after it. Raises `DataDamaged`, `LimitExceeded`.

    ``snapshot``: as for `place_number`.
    """
    return place_number(sequence_of(file, pos - 1, 0, "d") >> CHANGE_BITS, snapshot)


def place_text(position: int) -> str:
    """The place of a number between transactions: the file's number, and the position."""
    number, before = divmod(position >> CHANGE_BITS, 1 << POS_BITS)
    return f"{number:06}:{before + 1}"
