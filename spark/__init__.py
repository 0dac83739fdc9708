"""Spark: the session, ordered writes, the streaming source and change data sync."""

from .session import S3, configure, session
from .sync.run import SyncRun, SyncStatus, sync

__all__ = ["S3", "SyncRun", "SyncStatus", "configure", "session", "sync"]
