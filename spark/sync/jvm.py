"""Calls into the JVM by PySpark's private names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_on_disk(session: SparkSession, path: str) -> bool:
    """Whether Spark and this process read a path alike."""
    if "://" in path:
        return False
    conf = session.sparkContext._jsc.hadoopConfiguration()
    system = _jvm(session).org.apache.hadoop.fs.Path(path).getFileSystem(conf)
    return bool(system.getUri().getScheme() == "file")


def can_lock(session: SparkSession) -> bool:
    """Whether each thread of this process has a JVM thread of its own, which can hold a lock."""
    from py4j.clientserver import ClientServer

    return isinstance(session.sparkContext._gateway, ClientServer)


@contextmanager
def without_commits(session: SparkSession, path: str) -> Iterator[None]:
    """Keep other JVM threads from commits to a Delta table on disk, by the lock under which Delta checks for a commit's number
    and renames its file.
    """
    lock = _jvm(session).org.apache.spark.sql.delta.DeltaLog.forTable(session._jsparkSession, path).snapshotLock()
    lock.lock()
    try:
        yield
    finally:
        lock.unlock()


def look_anew(session: SparkSession, path: str) -> None:
    """Let Spark forget that no table was at a path: it looks once."""
    jvm = _jvm(session)
    jvm.org.apache.spark.sql.delta.DeltaLog.invalidateCache(session._jsparkSession, jvm.org.apache.hadoop.fs.Path(path))


def _jvm(session: SparkSession) -> Any:  # noqa: ANN401 - the classes of the JVM have no types here
    return session._jvm
