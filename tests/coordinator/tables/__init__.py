"""The tables of cells, all kinds against one contract."""
