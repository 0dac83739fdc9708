"""Checks whether target tables hold what their source does: counts, then hashes of ranges, then the rows that differ.

Shares no code with what fills the tables, so that it can judge it.
"""

from .compare import Comparison, Difference, compare
from .dumps import Dump, DumpFormat
from .rows import Rows
from .target import DeltaRows, open_target

__all__ = ["Comparison", "DeltaRows", "Difference", "Dump", "DumpFormat", "Rows", "compare", "open_target"]
