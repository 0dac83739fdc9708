"""A driver that dies by SIGKILL at a step of its choice: ``python -m tests.spark.produce.killed LAKE INPUT CHECKPOINT MARKS STEP OCCURRENCE``.

Its tasks die too: the first attempt of each batch's first task, before it uploads its second part; each leaves a file under MARKS.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from datetime import timedelta
from functools import partial
from pathlib import Path

from penstock.coordinator.lakes import LakePlace
from penstock.spark import session
from penstock.spark.produce.columns import MessageColumns
from penstock.spark.produce.write import OrderedWriter, WriteSteps
from tests.spark import quick

TOPIC = "orders"
SCHEMA = "user string, seq long, note string"
PART_BYTES = 4_000


def kill_first_attempt(marks: str, task: int, attempt: int, part: int) -> None:
    if (task, attempt, part) == (0, 0, 1):
        (Path(marks) / f"{os.getpid()}").touch()
        os.kill(os.getpid(), signal.SIGKILL)


def main(lake: str, folder: str, checkpoint: str, marks: str, step: str, occurrence: str) -> None:
    met: Counter[str] = Counter()

    def after(reached: str) -> None:
        met[reached] += 1
        if (reached, met[reached]) == (step, int(occurrence)):
            os.kill(os.getpid(), signal.SIGKILL)

    spark = session("killed", master="local[2,4]", conf=quick.QUERIES)
    writer = OrderedWriter(
        LakePlace.of(lake),
        TOPIC,
        MessageColumns(message_group="user", order_by=("seq",)),
        name=None,
        timeout=timedelta(minutes=2),
        part_bytes=PART_BYTES,
        steps=WriteSteps(after=after, before_part=partial(kill_first_attempt, marks)),
    )
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(folder)
    query = rows.writeStream.foreachBatch(writer).option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
