"""Checks whether target tables hold what their source does. Independent of the code that fills the tables."""

from typing import TYPE_CHECKING

from ...log.lazy_names import lazy_names

if TYPE_CHECKING:
    from .comparison import RowDifference, TableComparison, compare
    from .dump_format import DumpFormat
    from .dumps import Dump
    from .rows import Rows
    from .target import DeltaRows, open_target

__all__ = ["DeltaRows", "Dump", "DumpFormat", "RowDifference", "Rows", "TableComparison", "compare", "open_target"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".comparison": ["TableComparison", "RowDifference", "compare"],
            ".dump_format": ["DumpFormat"],
            ".dumps": ["Dump"],
            ".rows": ["Rows"],
            ".target": ["DeltaRows", "open_target"],
        },
    )
