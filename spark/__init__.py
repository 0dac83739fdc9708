"""Spark: the session, ordered writes, the streaming source and change data sync."""

from .session import S3, configure, session

__all__ = ["S3", "configure", "session"]
