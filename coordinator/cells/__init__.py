"""Cells of the coordination table: keys, numbers as bytes, and writes with a certain outcome."""
