"""The columns and SQL conditions of merges, for every engine."""

from __future__ import annotations

from ..changes import ALWAYS
from ..fold.fold_result import LastTruncate
from ..target import POSITION

PUT, APPLIES_UP_TO, COLUMN_POSITIONS = "__put", "__applies_up_to", "__column_positions"
"""Columns of the rows to merge. ``__put``: whether the key has a row after the merge. ``__applies_up_to``: the target's row is replaced or deleted
if its position is at most this. ``__column_positions``: a column's value is taken if the position of the target's row is at most this column's
number; NULL takes all. A row at position 7, under ``__applies_up_to`` 9 and ``__column_positions`` [9, 5], gets the first column's value alone.
"""


def apply_condition(*, by_position: bool) -> str:
    """The SQL condition that a net change (s) changes the row that it meets (t)."""
    return f"(t.{POSITION} IS NULL OR s.{APPLIES_UP_TO} >= t.{POSITION})" if by_position else "true"


def truncate_condition(truncate: LastTruncate, *, by_position: bool) -> str | None:
    """The SQL condition for the rows (t) that a truncate removes; None: all."""
    return f"t.{POSITION} IS NULL OR t.{POSITION} < {truncate.position}" if by_position and truncate.position != ALWAYS else None
