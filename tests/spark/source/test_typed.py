"""The source and the flat view of a typed topic: Spark has real types, across an evolution of the schema too."""

from __future__ import annotations

import asyncio
import zipfile
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.coordinator.lakes import lakes
from penstock.log import LogLake, open_store
from penstock.log.table.publisher import Publisher
from penstock.spark import table
from penstock.spark.flat_table import _folder
from tests.data.test_formats import FORMATS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SCHEMA = """id bigint not null, customer string, amount decimal(12,2), at timestamp, day date, paid boolean, small tinyint,
    items array<struct<sku: string not null, count: int>>, notes map<string, string>, place struct<city: string, zip: int>, raw binary"""
ROW: dict[str, Any] = {
    "id": 1,
    "customer": "né",
    "amount": Decimal("12.50"),
    "at": datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC),
    "day": date(2026, 1, 31),
    "paid": True,
    "small": -1,
    "items": [{"sku": "a", "count": 2}],
    "notes": {"a": "b"},
    "place": {"city": "Ulm", "zip": 89073},
    "raw": b"\0\xff",
}
EMPTY = {**dict.fromkeys(ROW), "id": 2}


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[penstock.Lake]:
    with penstock.connect(tmp_path / "a lake", maintenance=False) as lake:
        lake.create_topic("orders", message_type="FIFO", queues=2, schema=SCHEMA, message_group="id")
        yield lake
    lakes.close()


def send(lake: penstock.Lake, *rows: dict[str, Any]) -> None:
    with lake.producer("orders") as producer:
        for row in rows:
            producer.send_row(row)


def publish(lake: penstock.Lake) -> None:
    async def run() -> None:
        async with LogLake(open_store(lake.url)) as core:
            topic = await core.topic("orders")
            await Publisher(topic.store, topic.paths, topic.record, topic.runtime).publish_once()

    asyncio.run(run())


def frame_of(spark: SparkSession, lake: penstock.Lake, **options: str) -> DataFrame:
    return spark.read.format("penstock").options(lake=lake.url, **options).load("orders")


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows as Python has them, by id."""
    rows = [row.asDict(recursive=True) for row in frame.selectExpr("*", "unix_micros(at) AS us").orderBy("id").collect()]
    for row in rows:
        micros = row.pop("us")
        row["at"] = None if micros is None else datetime.fromtimestamp(micros / 1e6, UTC)
        row["raw"] = None if row["raw"] is None else bytes(row["raw"])
    return rows


def test_rows_of_table_and_log_have_real_types(spark: SparkSession, lake: penstock.Lake) -> None:
    send(lake, ROW)
    publish(lake)
    send(lake, EMPTY)
    frame = frame_of(spark, lake)
    assert rows_of(frame.select("value.*")) == [ROW, EMPTY]
    assert frame.where("value.amount > 12 AND body IS NULL").select("message_group").first() == ("1",)
    some = frame_of(spark, lake, columns="offset, value.place, value.id")
    assert some.schema.simpleString() == "struct<offset:bigint,value:struct<id:bigint,place:struct<city:string,zip:int>>>"
    assert sorted(row.value.id for row in some.collect()) == [1, 2]
    with pytest.raises(Exception, match=r"there are no columns value\.amuont"):
        frame_of(spark, lake, columns="value.amuont")


@pytest.mark.thorough
def test_the_table_is_flat(spark: SparkSession, lake: penstock.Lake) -> None:
    send(lake, ROW, EMPTY)
    publish(lake)
    flat = table(spark, lake, "orders")
    assert rows_of(flat.select(*ROW)) == [ROW, EMPTY]
    assert {"queue", "offset", "store_timestamp", "message_group", "customer"} <= set(flat.columns)
    assert len(set(flat.columns)) == len(flat.columns)
    assert "body" not in flat.columns
    assert flat.where("amount > 12").select("message_group").collect() == [("1",)]
    lake.create_topic("plain", queues=1)
    assert "body" in table(spark, lake, "plain").columns


def test_a_table_of_the_first_format_is_given_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    with zipfile.ZipFile(FORMATS[0]) as packed:
        packed.extractall(tmp_path)
    frame = table(spark, tmp_path / "lake", "orders")
    assert frame.count() > 0
    assert "body" in frame.columns
    assert "headers" not in frame.columns  # they came with the second format


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        ("s3://bucket/lake?region=eu-west-1&endpoint=http://localhost:9000", "s3://bucket/lake"),
        ("s3://bucket/a%20lake/", "s3://bucket/a lake"),
        ("file:///a%20lake/", "/a lake"),
    ],
)
def test_hadoop_is_told_the_folder_without_options(url: str, folder: str) -> None:
    assert _folder(url) == folder


@pytest.mark.thorough  # values of earlier types without a session, and Spark that reads rows of a typed topic
def test_a_stream_shows_a_later_version_by_its_own_until_it_is_started_again(
    spark: SparkSession, lake: penstock.Lake, tmp_path: Path
) -> None:
    seen: list[dict[str, Any]] = []

    def take(batch: DataFrame, _number: int) -> None:
        seen.extend(row.value.asDict() for row in batch.select("value").collect())

    def run(frame: DataFrame) -> None:
        query = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "progress"))
        query.trigger(availableNow=True).start().awaitTermination()

    def stream() -> DataFrame:
        options = {"lake": lake.url, "startingOffsets": "earliest", "columns": "value.id, value.small, value.customer"}
        return spark.readStream.format("penstock").options(**options).load("orders")

    planned = stream()
    send(lake, {"id": 1, "small": 1})
    run(planned)
    later = SCHEMA.replace("small tinyint", "small int").replace("customer string", "client string")
    lake.evolve_topic("orders", later, rename={"customer": "client"})
    send(lake, {"id": 2, "small": 2, "client": "b"})
    run(planned)
    assert seen == [{"id": 1, "customer": None, "small": 1}, {"id": 2, "customer": "b", "small": 2}]
    send(lake, {"id": 3, "small": 1000})
    with pytest.raises(Exception, match="a value does not fit the earlier type"):
        run(planned)
    run(stream())  # the former name still asks for the field
    assert seen[2:] == [{"id": 3, "client": None, "small": 1000}]
