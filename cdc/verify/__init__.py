"""Checks whether target tables hold what their source does. Independent of the code that fills the tables."""

from typing import TYPE_CHECKING

from ...log.lazy_names import lazy_names

if TYPE_CHECKING:
    from .comparison import RowDifference as RowDifference
    from .comparison import TableComparison as TableComparison
    from .comparison import compare as compare
    from .dump_format import DumpFormat as DumpFormat
    from .dumps import Dump as Dump
    from .rows import Rows as Rows
    from .target import DeltaRows as DeltaRows
    from .target import open_target as open_target
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
