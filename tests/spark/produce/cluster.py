"""A driver whose executors are processes of their own, on a cluster of two hosts: ``python -m tests.spark.produce.cluster MASTER LAKE MARKS``.

It writes two batches. In the first one an executor is killed amid a task; in the second one a task is slow, so Spark runs it twice at once.
"""

from __future__ import annotations

import os
import signal
import sys
from datetime import timedelta
from functools import partial
from pathlib import Path

import psutil
from pyspark.sql import functions as F

from penstock.coordinator.lakes import LakePlace
from penstock.spark import session
from penstock.spark.produce.columns import MessageColumns
from penstock.spark.produce.write import OrderedWriter, WriteSteps
from tests.spark import quick
from tests.tree import ROOT
from tests.waiting import wait_until

TOPIC, QUEUES = "orders", 4
ROWS, GROUPS = 400, 7
KILLED, SLOW = "killed", "slow"
CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    **quick.QUERIES,
    "spark.executor.defaultJavaOptions": quick.JVM,
    "spark.executor.memory": "512m",
    "spark.executorEnv.PYTHONPATH": str(ROOT),
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
}


def before_part(kind: str, marks: str, task: int, _attempt: int, part: int) -> None:
    """In a task, before it uploads a part: leaves a file that says so. The first task that comes to its second part has its fate there.

    Attempts are told apart by their process: with an executor its shuffle files are lost, and the stage that is run again counts anew.
    """
    folder = Path(marks)
    (folder / f"{kind}-{task}-{part}-{os.getpid()}").touch()
    if part != 1:
        return
    try:
        (folder / f"{kind}-fate").touch(exist_ok=False)
    except FileExistsError:
        return
    (folder / f"{kind}-fate").write_text(str(task))
    if kind == KILLED:
        executor = next(one for one in psutil.Process().parents() if one.name() == "java")
        os.kill(executor.pid, signal.SIGKILL)
    # The worker of a killed executor may live a moment longer, and must not upload the rest.
    wait_until(lambda: len([*folder.glob(f"{kind}-{task}-0-*")]) > 1, "another attempt of the task", timeout_s=240.0)


def main(master: str, lake: str, marks: str) -> None:
    spark = session("penstock-cluster", master=master, conf=CONF)
    for batch, kind in enumerate((KILLED, SLOW)):
        number = F.col("id")
        user = F.concat(F.lit("user-"), (number % GROUPS).cast("string"))
        rows = spark.range(batch * ROWS, (batch + 1) * ROWS, numPartitions=2).select(
            user.alias("user"), number.alias("seq"), F.lit("x" * 60).alias("note")
        )
        writer = OrderedWriter(
            LakePlace.of(lake),
            TOPIC,
            MessageColumns(message_group="user", order_by=("seq",)),
            name="cluster",
            timeout=timedelta(minutes=2),
            part_bytes=4_000,
            steps=WriteSteps(before_part=partial(before_part, kind, marks)),
        )
        written = writer.write(rows.orderBy(F.xxhash64("seq")), batch)
        assert written.rows == ROWS, written
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
