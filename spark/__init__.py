"""Spark: the session, ordered writes, the streaming source and change data sync."""

from ..cdc.choice.masks import Mask
from ..cdc.choice.tables import TableOptions
from ..cdc.retype.changes import ColumnChange
from ..cdc.retype.retype import RetypedTable
from ..cdc.sync.run import SyncRun, SyncStatus
from .flat_table import table
from .produce import OrderedWriter, WriteResult, ordered_writer, write_ordered
from .session import S3, configure, session
from .source.register import register
from .sync.cuts import FramesAtCut, at_cut
from .sync.retype import retype
from .sync.start import sync

__all__ = [
    "S3",
    "ColumnChange",
    "FramesAtCut",
    "Mask",
    "OrderedWriter",
    "RetypedTable",
    "SyncRun",
    "SyncStatus",
    "TableOptions",
    "WriteResult",
    "at_cut",
    "configure",
    "ordered_writer",
    "register",
    "retype",
    "session",
    "sync",
    "table",
    "write_ordered",
]
