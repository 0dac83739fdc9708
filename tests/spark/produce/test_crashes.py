"""Drivers and tasks that are killed: every row is there once and in order, and no reader ever saw a part of a batch."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.coordinator.lakes import LakePlace
from penstock.spark.java import Java
from penstock.spark.produce.columns import MessageColumns
from penstock.spark.produce.write import OrderedWriter, WriteSteps
from tests.spark.produce.killed import PART_BYTES, SCHEMA, TOPIC
from tests.spark.produce.lives import BATCHES, check, committed, write_input, written_in_lives

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


class Crash(Exception):
    """The driver ends here."""


def test_a_batch_is_there_whole_or_not_at_all_wherever_its_driver_ends(spark: SparkSession, tmp_path: Path) -> None:
    """In one process; each batch is tried again until its turn to end has passed."""
    write_input(tmp_path / "input")
    ends = ["begun", "staged", "linked", "never"]

    def after(step: str) -> None:
        if step == ends[0]:
            raise Crash(f"after {ends.pop(0)}")

    def run() -> None:
        writer = OrderedWriter(
            LakePlace.of(tmp_path / "lake"),
            TOPIC,
            MessageColumns(message_group="user", order_by=("seq",)),
            name=None,
            timeout=timedelta(minutes=2),
            part_bytes=PART_BYTES,
            steps=WriteSteps(after=after),
        )
        rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "input"))
        stream = rows.writeStream.foreachBatch(writer).option("checkpointLocation", str(tmp_path / "checkpoint"))
        stream.trigger(availableNow=True).start().awaitTermination()

    with penstock.connect(tmp_path / "lake", maintenance=False) as lake:
        lake.create_topic(TOPIC, message_type="FIFO", queues=4)
        for step, there in (("begun", 0), ("staged", 0), ("linked", 1)):
            with pytest.raises(Exception, match=f"after {step}"):
                run()
            check(lake, there)
            assert committed(tmp_path) == 0
        run()
        check(lake, BATCHES)
    assert committed(tmp_path) == BATCHES


@pytest.mark.thorough
@pytest.mark.processes
def test_every_row_is_there_once_and_in_order_when_driver_and_workers_are_killed(java: Java, tmp_path: Path) -> None:
    """The campaign kills the driver at each step; here it dies once, between the link and Spark's note of it."""
    assert written_in_lives(tmp_path, [("linked", 2), ("never", 1)]) >= BATCHES
