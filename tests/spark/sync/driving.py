"""Drives a sync in this process to the end of its topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.spark import SyncRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.sync.options import Options


def drive_to_the_end(spark: SparkSession | None, options: Options) -> SyncRun:
    """Until all of the topic is applied. Raises what ends it before."""
    run = SyncRun(spark, options)
    assert run.await_termination()
    return run
