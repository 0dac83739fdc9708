"""Spark: the session, ordered writes, the streaming source and change data sync."""

from ..cdc.choice.masks import Mask
from ..cdc.choice.tables import TableOptions
from ..cdc.sync.run import SyncRun, SyncStatus
from .flat_table import table
from .produce import OrderedWriter, WriteResult, ordered_writer, write_ordered
from .session import S3, configure, session
from .source.register import register
from .sync.start import sync

__all__ = [
    "S3",
    "Mask",
    "OrderedWriter",
    "SyncRun",
    "SyncStatus",
    "TableOptions",
    "WriteResult",
    "configure",
    "ordered_writer",
    "register",
    "session",
    "sync",
    "table",
    "write_ordered",
]
