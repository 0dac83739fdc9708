"""The keys of a batch, as a condition by which Spark skips files of a target."""

from __future__ import annotations

from datetime import date
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING

from ...cdc.delta.key_ranges import KeyRanges

if TYPE_CHECKING:
    from pyspark.sql import Column


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def key_condition(reach: KeyRanges, table: str | None = None) -> Column:
    """The condition for keys in the ranges, of integers, text and dates: other literals depend on the session. ``table``: the
    columns' alias.
    """
    from pyspark.sql import functions as F

    prefix = "" if table is None else f"{table}."
    conditions = [
        reduce(or_, [F.col(prefix + quoted(name)).between(F.lit(low), F.lit(high)) for low, high in ranges])
        for name, ranges in reach.items()
        if type(ranges[0][0]) in (int, str, date)
    ]
    return reduce(and_, conditions, F.lit(True))
