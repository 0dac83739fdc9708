"""Cells of the coordination table: keys, numbers as bytes, and writes that are known to have happened.

What a cell says is for its own room.
"""
