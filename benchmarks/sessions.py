"""What benchmarks with Spark share: a session of two cores, and what it and all its workers cost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psutil

from penstock.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = 2


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    """A session of two cores; the running one where there is one."""
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    spark = running or session("penstock-bench", master=f"local[{CORES}]")
    yield spark
    if running is None:
        spark.stop()


def cpu_s() -> float:
    """Processor time of this process and all below it: the JVM and the Python workers."""
    total = 0.0
    for process in [psutil.Process(os.getpid()), *psutil.Process().children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue  # it ended meanwhile
        total += times.user + times.system
    return total
