"""What benchmarks with Spark share: a session of two cores, and what it and all its workers cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psutil

from penstock.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = 2


@contextmanager
def spark_session(*, short: bool = False) -> Iterator[SparkSession]:
    """A session of two cores, or one for a ``short`` run, in which the second compiler would not pay off; the running one where there is one."""
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    spark = running or session("penstock-bench", master=f"local[{CORES}]", quick_start=short)
    yield spark
    if running is None:
        spark.stop()


def cpu_s() -> float:
    """Processor time so far of this process and all that it, the JVM and Spark's Python workers ever started, those that ended included.

    What a process used goes to its parent when that has waited for its end. So one that ends while the others are looked at would be
    counted twice or not at all; they are looked at until none did.
    """
    while True:
        processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
        try:
            times = [process.cpu_times() for process in processes]
        except psutil.Error:
            continue
        if all(process.is_running() for process in processes):
            return sum(one.user + one.system + one.children_user + one.children_system for one in times)
