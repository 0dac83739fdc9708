"""Writes of DataFrames to typed topics: columns are fields, checked in the tasks; a bad row refuses all."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.coordinator.lakes import lakes
from penstock.log import queue_of
from penstock.log.errors import InvalidArgument
from penstock.spark import ordered_writer, write_ordered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "id bigint not null, customer struct<number: int, name: string>, amount decimal(12,2), kind string"
QUEUES = 4


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[penstock.Lake]:
    with penstock.connect(tmp_path / "lake", maintenance=False) as lake:
        lake.create_topic(
            "orders", message_type="FIFO", queues=QUEUES, schema=SCHEMA, message_group="customer.number", tag="kind", keys=("id",)
        )
        lake.create_topic("plain", queues=2, schema=SCHEMA)
        yield lake
    lakes.close()


def frame_of(spark: SparkSession, count: int = 40) -> DataFrame:
    return spark.range(count).selectExpr(
        "id", "named_struct('number', int(id % 7), 'name', 'né') AS customer", "CAST(id AS decimal(6,1)) AS amount", "'a' AS kind"
    )


def messages(lake: penstock.Lake, topic: str = "orders") -> list[Any]:
    return sorted(lake.reader(topic).messages(), key=lambda one: one.value["id"])


def test_columns_are_fields_and_labels_come_from_them(spark: SparkSession, lake: penstock.Lake) -> None:
    later = SCHEMA.replace("kind string", "sort string") + ", note string"
    lake.evolve_topic("orders", later, rename={"kind": "sort"})
    result = write_ordered(frame_of(spark), lake, "orders", message_group=None, order_by="id")
    found = messages(lake)
    assert result.rows == len(found) == 40
    customer = {"number": 3, "name": "né"}
    assert found[3].value == {"id": 3, "customer": customer, "amount": Decimal("3.00"), "sort": "a", "note": None}
    assert (found[3].message_group, found[3].tag, found[3].keys, found[3].body) == ("3", "a", ("3",), None)
    assert all(one.queue == queue_of(one.message_group, QUEUES) for one in found)
    by_queue = sorted(found, key=lambda one: (one.queue, one.offset))
    assert [one.value["id"] for one in by_queue] == [
        one.value["id"] for one in sorted(found, key=lambda m: (m.queue, m.value["id"]))
    ]


def test_the_senders_own_labels_stand_beside_the_fields(spark: SparkSession, lake: penstock.Lake) -> None:
    lake.create_topic("own", message_type="FIFO", queues=QUEUES, schema=SCHEMA)
    rows = frame_of(spark, 4).selectExpr("*", "concat('g-', id % 2) AS who", "array('k') AS labels", "10 - id AS at")
    writer = ordered_writer(lake, "own", message_group="who", keys="labels", order_by="at", name="w")
    assert writer.write(rows, 0).rows == 4
    assert writer.write(rows, 0).duplicate
    assert [(one.value["id"], one.message_group, one.keys) for one in messages(lake, "own")] == [
        (number, f"g-{number % 2}", ("k",)) for number in range(4)
    ]


def test_what_does_not_fit_is_told_before_anything_is_written(spark: SparkSession, lake: penstock.Lake) -> None:
    rows = frame_of(spark)
    with pytest.raises(InvalidArgument, match=r"amount is string, not decimal\(12,2\); colour is not in the schema"):
        write_ordered(
            rows.selectExpr("id", "customer", "'1' AS amount", "'red' AS colour"), lake, "orders", message_group=None, order_by="id"
        )
    # Spark takes KIND for kind: it orders by it, and must not leave it out for that.
    with pytest.raises(InvalidArgument, match="KIND is not in the schema"):
        write_ordered(rows.withColumnRenamed("kind", "KIND"), lake, "orders", message_group=None, order_by="kind")
    with pytest.raises(InvalidArgument, match="fields and no body"):
        write_ordered(rows, lake, "orders", message_group=None, order_by="id", body="kind")
    with pytest.raises(InvalidArgument, match=r"the topic takes message_group from a field.*customer\.number"):
        write_ordered(rows, lake, "orders", message_group="kind", order_by="id")
    with pytest.raises(InvalidArgument, match="the field that gives the message group is missing"):
        write_ordered(rows.drop("customer"), lake, "orders", message_group=None, order_by="id")
    bad = rows.selectExpr("if(id = 11, NULL, id) AS id", "customer", "amount").coalesce(1)
    with pytest.raises(InvalidArgument, match=r"1 of .* rows do not fit the topic's schema") as told:
        write_ordered(bad, lake, "plain", message_group=None, order_by=())
    assert "row 11 of partition 0, id" in str(told.value)
    assert "bigint not null" in str(told.value)
    assert messages(lake) == messages(lake, "plain") == []


@pytest.mark.thorough
def test_the_sink_takes_fields_beside_columns_of_messages(spark: SparkSession, lake: penstock.Lake) -> None:
    rows = frame_of(spark, 6).selectExpr("*", "binary('k') AS key")
    sink = {"lake": lake.url, "topic": "plain"}
    rows.write.format("penstock").options(**sink).mode("append").save()
    found = messages(lake, "plain")
    assert [one.value["id"] for one in found] == list(range(6))
    assert {one.key for one in found} == {b"k"}
    with pytest.raises(Exception, match=r"idd is not in the schema.*nothing was written"):
        rows.withColumnRenamed("id", "idd").write.format("penstock").options(**sink).mode("append").save()
    with pytest.raises(Exception, match="rows do not fit the topic's schema"):
        rows.selectExpr("CAST(NULL AS bigint) AS id", "amount").write.format("penstock").options(**sink).mode("append").save()
    assert len(messages(lake, "plain")) == 6
