"""Cells in a table of PostgreSQL."""
