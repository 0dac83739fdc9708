"""Spark: the session, ordered writes, the streaming source and change data sync."""

from ..cdc.sync.run import SyncRun, SyncStatus
from .flat_table import table
from .produce import OrderedWriter, WriteResult, ordered_writer, write_ordered
from .session import S3, configure, session
from .source.register import register
from .sync.start import sync

__all__ = [
    "S3",
    "OrderedWriter",
    "SyncRun",
    "SyncStatus",
    "WriteResult",
    "configure",
    "ordered_writer",
    "register",
    "session",
    "sync",
    "table",
    "write_ordered",
]
