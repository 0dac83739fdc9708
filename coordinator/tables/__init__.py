"""The tables that hold the coordinator's cells: one protocol, and its implementations."""

from typing import TYPE_CHECKING

from ...log.lazy_names import lazy_names

if TYPE_CHECKING:
    from ...log.stores.protocol import Conflict
    from .memory import MemoryTable
    from .objectstore import ObjectStoreTable
    from .open import create_table, open_table
    from .protocol import Cell, CellTable, CellVersion, TableMismatch, TableNotFound
    from .sqlite import SqliteTable

__all__ = [
    "Cell",
    "CellTable",
    "CellVersion",
    "Conflict",
    "MemoryTable",
    "ObjectStoreTable",
    "SqliteTable",
    "TableMismatch",
    "TableNotFound",
    "create_table",
    "open_table",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "...log.stores.protocol": ["Conflict"],
            ".memory": ["MemoryTable"],
            ".objectstore": ["ObjectStoreTable"],
            ".open": ["create_table", "open_table"],
            ".protocol": ["Cell", "CellTable", "CellVersion", "TableMismatch", "TableNotFound"],
            ".sqlite": ["SqliteTable"],
        },
    )
