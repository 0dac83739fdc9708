"""A driver of the sync that may be killed: ``… driver LAKE INTO ENGINE BATCH STEP MOMENT NTH``; ``-`` as STEP: it runs until it is stopped."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, cast

from penstock.spark import session, sync
from penstock.spark.sync.steps import NO_STEPS, Moment
from tests.spark.sync.crashes import CrashAt
from tests.spark.sync.streams import TOPIC

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(lake: str, into: str, engine: str, batch: str, step: str, moment: str, nth: str) -> None:
    spark: SparkSession | None = None
    if engine == "spark":
        quick = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
        spark = session("penstock-killed", master="local[2]", conf=quick)
    steps = NO_STEPS if step == "-" else CrashAt(step, cast("Moment", moment), int(nth), kill=os.getpgrp())
    last = step == "-" and moment == "end"
    run = sync(
        spark,
        lake,
        TOPIC,
        into=into,
        name="s",
        trigger="available_now" if last else timedelta(0),
        max_events_per_batch=int(batch),
        steps=steps,
    )
    run.await_termination()
    assert not run.stopped, run.stopped


if __name__ == "__main__":
    main(*sys.argv[1:])
