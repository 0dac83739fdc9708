"""Ordered writes: rows of a DataFrame into a topic, all of a batch visible or none."""

from .write import OrderedWriter, WriteResult, ordered_writer, write_ordered

__all__ = ["OrderedWriter", "WriteResult", "ordered_writer", "write_ordered"]
