"""The tables that hold the coordinator's cells: one protocol, and a table for every kind of lake."""

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
