"""The tables that hold the coordinator's cells: one protocol, and its implementations."""

from typing import TYPE_CHECKING

from ...log.lazy_names import lazy_names

if TYPE_CHECKING:
    from ...log.stores.protocol import Conflict as Conflict
    from .memory import MemoryTable as MemoryTable
    from .objectstore import ObjectStoreTable as ObjectStoreTable
    from .open import create_table as create_table
    from .open import open_table as open_table
    from .protocol import Cell as Cell
    from .protocol import CellTable as CellTable
    from .protocol import CellVersion as CellVersion
    from .protocol import CoordinationMismatch as CoordinationMismatch
    from .protocol import TableMismatch as TableMismatch
    from .protocol import TableNotFound as TableNotFound
    from .sqlite import SqliteTable as SqliteTable
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
