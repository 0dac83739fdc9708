"""Drives a sync in this process to the end of its topic."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.cdc.sync.backends.local import LocalBackend
from penstock.cdc.sync.run import SyncRun
from penstock.spark.sync.backend import SparkBackend

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.cdc.sync.plan import SyncPlan


def drive_to_the_end(spark: SparkSession | None, plan: SyncPlan) -> SyncRun:
    """Until all of the topic is applied. Raises what ends it before."""
    run = SyncRun(plan, LocalBackend if spark is None else partial(SparkBackend, spark))
    assert run.await_termination()
    return run
