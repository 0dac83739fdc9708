"""A topic's table through Spark: equal rows, files in order, and a stream that upkeep neither stops nor doubles."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.log.message.message import MESSAGE_SCHEMA
from penstock.log.table.compactor import Compactor
from penstock.log.table.delta.delta_log import DeltaLog
from penstock.log.table.publisher import Publisher
from penstock.log.table.retention import RetentionPolicy, retain_once
from tests.log.table.readers import copy_to_folder, queue_rows
from tests.log.topics import LogWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


class Topic:
    """A topic in memory, copied to a folder for Spark after each change."""

    def __init__(self, name: str, folder: Path) -> None:
        self.log = asyncio.run(LogWriter(topic=name).create())
        self.delta = DeltaLog(self.log.store, self.log.paths, "table", self.log.runtime)
        self.folder = folder
        self.table = str(folder / self.log.paths.table("table"))

    def publish(self, entries: int) -> None:
        async def run() -> None:
            publisher = Publisher(self.log.store, self.log.paths, self.log.record, self.log.runtime)
            for n in range(entries):
                await self.log.send({n % 4: 3, 0: 2})
                await publisher.publish_once()
            await copy_to_folder(self.log.store, self.folder)

        asyncio.run(run())

    def compact(self) -> int:
        async def run() -> int:
            done = await Compactor(self.log.store, self.delta, self.log.runtime, fan_in=2).compact_once()
            await copy_to_folder(self.log.store, self.folder)
            return done.files

        return asyncio.run(run())

    def expire_all(self) -> int:
        async def run() -> int:
            self.log.clock.advance(hours=100)
            rows = await retain_once(self.log.store, self.delta, self.log.runtime, RetentionPolicy(timedelta(days=3), None))
            await copy_to_folder(self.log.store, self.folder)
            return rows

        return asyncio.run(run())

    def checkpoint(self) -> None:
        async def run() -> None:
            await self.delta.refresh()
            await self.delta.write_checkpoint()
            await copy_to_folder(self.log.store, self.folder)

        asyncio.run(run())

    def rows(self) -> list[dict[str, object]]:
        async def run() -> list[dict[str, object]]:
            return [row for queue in range(4) for row in (await queue_rows(self.log, queue)).to_pylist()]

        return asyncio.run(run())


def by_offset(frame: DataFrame) -> list[dict[str, object]]:
    rows = [row.asDict() for row in frame.orderBy("queue", "offset").collect()]
    return [{**row, "body": bytes(row["body"])} for row in rows]


@pytest.mark.parametrize("name", [pytest.param("orders", marks=pytest.mark.thorough), "%DLQ%billing"])
def test_spark_reads_the_rows_that_we_read(spark: SparkSession, tmp_path: Path, name: str) -> None:
    topic = Topic(name, tmp_path)
    topic.publish(5)
    expected = topic.rows()
    same = [field.name for field in MESSAGE_SCHEMA if not str(field.type).startswith(("timestamp", "map"))]
    for _ in range(2):
        frame = spark.read.format("delta").load(topic.table)
        found = by_offset(frame)
        assert [{n: row[n] for n in same} for row in found] == [{n: row[n] for n in same} for row in expected]
        assert [row["properties"] for row in found] == [dict(row["properties"]) for row in expected]  # type: ignore[call-overload]
        stored = frame.orderBy("queue", "offset").selectExpr("unix_millis(store_timestamp) AS ms").collect()
        assert [row["ms"] for row in stored] == [round(row["store_timestamp"].timestamp() * 1000) for row in expected]  # type: ignore[attr-defined]
        topic.checkpoint()  # and once more through it


def test_rows_of_a_file_come_in_the_order_of_offsets(spark: SparkSession, tmp_path: Path) -> None:
    topic = Topic("orders", tmp_path)
    topic.publish(5)
    files: dict[str, list[int]] = {}
    for row in spark.read.format("delta").load(topic.table).selectExpr("_metadata.file_path AS file", "offset").collect():
        files.setdefault(row["file"], []).append(row["offset"])
    assert len(files) > 4, "several of a queue"
    for offsets in files.values():
        assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))


def test_a_native_stream_goes_on_through_compaction_and_retention(spark: SparkSession, tmp_path: Path) -> None:
    topic = Topic("orders", tmp_path / "lake")
    seen: list[tuple[int, int]] = []

    def take(frame: DataFrame, _batch: int) -> None:
        seen.extend((row["queue"], row["offset"]) for row in frame.select("queue", "offset").collect())

    def stream() -> None:
        reader = spark.readStream.format("delta").option("ignoreDeletes", "true").load(topic.table)
        query = reader.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "progress"))
        query.trigger(availableNow=True).start().awaitTermination()

    topic.publish(4)
    stream()
    assert topic.compact() > 0
    topic.publish(2)
    stream()
    assert topic.expire_all() > 0
    topic.publish(1)
    stream()
    assert sorted(seen) == sorted(topic.log.sent)
