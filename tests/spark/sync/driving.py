"""Drives the engine of a sync in this process, without the thread that a run has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.spark.sync.engine import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.sync.options import Options


def drive_to_the_end(spark: SparkSession | None, options: Options) -> Engine:
    """Until all of the topic is applied, or the engine raises; it is closed either way."""
    engine = Engine(spark, options)
    engine.open()
    try:
        engine.look()
        while engine.step() is not None:
            pass
    finally:
        engine.close()
    return engine
