"""Places in a binlog, and the one number under which an event of it is sent.

A change of a row stands at (binlog file, position of its event in the file, row in that event). An update that gives a row another key comes
as a delete and a create at one place, so the operation counts too. All are packed into 63 bits, below 2**63.
"""

from __future__ import annotations

import re

from ...log.errors import DataDamaged, LimitExceeded

FILE_BITS, POS_BITS, ROW_BITS = 17, 32, 13
_NUMBER = re.compile(r"\.([0-9]{1,18})$")


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
    for what, value, bits in (
        ("number of the binlog file", number, FILE_BITS),
        ("position", pos, POS_BITS),
        ("row", row, ROW_BITS),
    ):
        if not 0 <= value < 1 << bits:
            raise LimitExceeded(
                f"the {what} of a change is too large to be part of its sequence",
                operation="capture",
                object=f"{file}, position {pos}, row {row}",
                expected=f"below {1 << bits:,}",
                observed=value,
                hint="leave binlog_row_event_max_size at 8192" if what == "row" else None,
            )
    return ((number << POS_BITS | pos) << ROW_BITS | row) << 1 | (op == "c")
