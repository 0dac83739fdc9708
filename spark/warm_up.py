"""A small job that warms a session, or fills an archive with its classes.

``python -m penstock.spark.warm_up FILE`` runs it in a session whose JVM writes the archive at its end.
"""

from __future__ import annotations

import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..cdc.sync.options import SyncOptions
from ..cdc.sync.plan import SyncPlan
from ..cdc.sync.run import SyncRun
from ..coordinator.lakes import LakePlace, lakes
from ..log.lake import LogLake
from ..log.message.message import Message
from ..log.message.message_type import MessageType
from ..log.topic.settings import TopicSettings
from .class_archive import FIRST_COMPILER
from .session import session
from .sync.backend import SparkBackend

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TOPIC = _TABLE = "training"
_EVENTS, _BATCH = 12, 6


def train(spark: SparkSession, scratch: Path) -> None:
    """Sync a few events of a lake below ``scratch`` into a Delta table: one batch makes the table, another meets its rows."""
    place = LakePlace.of(scratch / "lake")
    opened = lakes.open(place)
    opened.run(lambda: _fill(opened.lake))
    options = SyncOptions(into=scratch / "tables", max_events=_BATCH)
    plan = SyncPlan.of(place, _TOPIC, options, tasks=max(1, spark.sparkContext.defaultParallelism))
    SyncRun(plan, partial(SparkBackend, spark)).await_termination()


async def _fill(lake: LogLake) -> None:
    await lake.create_topic(_TOPIC, TopicSettings(message_type=MessageType.FIFO, queues=1))
    producer = await lake.producer(_TOPIC)
    for number in range(_EVENTS):
        key = {"id": number // 4}
        source = {"schema": "public", "table": _TABLE}
        event = {"key": key, "value": {"op": "u", "after": {**key, "n": number}, "source": source}}
        producer.send(Message(json.dumps(event).encode(), message_group=_TABLE))
    await producer.close()


def main(archive: str) -> int:
    """Train a session, and have its JVM archive the classes."""
    with tempfile.TemporaryDirectory(prefix="penstock-training-") as scratch:
        conf = {
            "spark.driver.defaultJavaOptions": f"{FIRST_COMPILER} -XX:ArchiveClassesAtExit={archive}",
            "spark.sql.warehouse.dir": scratch,
        }
        spark = session("penstock-training", master="local[2]", conf=conf)
        train(spark, Path(scratch))
        table = f"{scratch}/counts"
        spark.read.format("penstock").option("lake", f"{scratch}/lake").load(_TOPIC).groupBy("queue").count().write.format(
            "delta"
        ).save(table)
        spark.read.format("delta").load(table).collect()
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
