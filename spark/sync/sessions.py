"""Sessions for merges side by side."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TIMES = "spark.sql.parquet.outputTimestampType"


class SessionPool:
    """Sessions of one Spark application, each for one user at a time, as a commit's settings must not leak."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._spare: deque[SparkSession] = deque()

    @contextmanager
    def borrow(self, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
        session = self._spare.pop() if self._spare else self._made()
        before = {name: session.conf.get(name, None) for name in settings or {}}
        try:
            for name, value in (settings or {}).items():
                session.conf.set(name, value)
            yield session
        finally:
            for name, known in before.items():
                session.conf.unset(name) if known is None else session.conf.set(name, known)
            self._spare.append(session)

    def _made(self) -> SparkSession:
        session = self._spark.newSession()
        session.conf.set(_TIMES, "TIMESTAMP_MICROS")  # others read the default, INT96, as nanoseconds: 1677 to 2262
        return session
