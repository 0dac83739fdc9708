"""A driver that can be killed: ``python -m tests.spark.sync.driver LAKE INTO STEP MOMENT NTH``; NTH 0 runs to the end."""

from __future__ import annotations

import os
import sys
from typing import cast

from penstock.spark import session
from penstock.spark.lakes import LakePlace
from penstock.spark.sync.engine import Engine
from penstock.spark.sync.options import Options
from penstock.spark.sync.steps import NO_STEPS, Moment
from tests.spark.sync.crashes import BATCH, CrashAt
from tests.spark.sync.streams import TOPIC


def main(lake: str, into: str, step: str, moment: str, nth: str) -> None:
    quick = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    spark = session("penstock-killed", master="local[2]", conf=quick)
    steps = CrashAt(step, cast("Moment", moment), int(nth), kill=os.getpgrp()) if int(nth) else NO_STEPS
    options = Options(place=LakePlace.of(lake), topic=TOPIC, into=into, name="s", max_events_per_batch=BATCH, tasks=2, steps=steps)
    engine = Engine(spark, options)
    engine.open()
    try:
        engine.look()
        while engine.step() is not None:
            pass
    finally:
        engine.close()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
