"""The coordinator: leases, acknowledgements and group records over one compare-and-set table."""

from .tables import CellTable, TableMismatch, TableNotFound, create_table, open_table

__all__ = ["CellTable", "TableMismatch", "TableNotFound", "create_table", "open_table"]
