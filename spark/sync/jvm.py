"""What a sync asks of the JVM by names that PySpark keeps to itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_on_disk(session: SparkSession, path: str) -> bool:
    """Whether a path means the same to Spark as to this process: Spark's default file system may be another one."""
    if "://" in path:
        return False
    conf = session.sparkContext._jsc.hadoopConfiguration()
    system = _jvm(session).org.apache.hadoop.fs.Path(path).getFileSystem(conf)
    return bool(system.getUri().getScheme() == "file")


def can_lock(session: SparkSession) -> bool:
    """Whether each thread of this process has one of its own in the JVM, which can hold a lock."""
    from py4j.clientserver import ClientServer

    return isinstance(session.sparkContext._gateway, ClientServer)


@contextmanager
def without_commits(session: SparkSession, path: str) -> Iterator[None]:
    """Let no other thread of the JVM commit to a Delta table on disk meanwhile. It is the lock that Delta's own commits take there, as they
    look whether a commit of that number is there and then rename theirs to its name.
    """
    lock = _jvm(session).org.apache.spark.sql.delta.DeltaLog.forTable(session._jsparkSession, path).snapshotLock()
    lock.lock()
    try:
        yield
    finally:
        lock.unlock()


def look_anew(session: SparkSession, path: str) -> None:
    """Let Spark forget that there was no table at a path: it looks once."""
    jvm = _jvm(session)
    jvm.org.apache.spark.sql.delta.DeltaLog.invalidateCache(session._jsparkSession, jvm.org.apache.hadoop.fs.Path(path))


def _jvm(session: SparkSession) -> Any:  # noqa: ANN401 - the classes of the JVM have no types here
    return session._jvm
