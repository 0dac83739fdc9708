"""Spark: the session, ordered writes, the streaming source and cuts of a sync."""

from .flat_table import table
from .produce import OrderedWriter, WriteResult, ordered_writer, write_ordered
from .session import S3, configure, session
from .source.register import register
from .sync.cuts import FramesAtCut, at_cut

__all__ = [
    "S3",
    "FramesAtCut",
    "OrderedWriter",
    "WriteResult",
    "at_cut",
    "configure",
    "ordered_writer",
    "register",
    "session",
    "table",
    "write_ordered",
]
