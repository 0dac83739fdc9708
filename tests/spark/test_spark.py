"""What needs a running Spark: the session itself, its routing hash, S3, and the demo's declaration of its tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

import penstock
from examples.demo.checks.capture import event_of, key_columns
from examples.demo.checks.compare import TableDifference, compare_tables
from examples.demo.tables import infer_targets
from penstock import SyncOptions, sync
from penstock.cdc.events.debezium import parse_change
from penstock.log.message.routing import queue_of
from tests.demo.captures import CAPTURE, DUMPS, dropped, dumps_of
from tests.servers import moto_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


TARGETS = infer_targets(change for line in CAPTURE if (change := parse_change(json.loads(line))))


def run(spark: SparkSession, folder: Path, lines: Sequence[bytes]) -> list[TableDifference]:
    """Send these lines, sync the topic and compare with the dumps of the true capture."""
    with penstock.connect(str(folder / "lake"), maintenance=False) as lake:
        lake.create_topic("shop", message_type="FIFO", queues=4)
        with lake.producer("shop") as producer:
            for line in lines:
                producer.send(penstock.Message(line, message_group="-".join(event_of(line).row)))
    columns = {target.table: target.columns for target in TARGETS}
    sync(str(folder / "lake"), "shop", SyncOptions(into=folder / "targets", columns=columns), spark=spark).await_termination()
    return compare_tables(dumps_of(DUMPS), key_columns(map(event_of, CAPTURE)), str(folder / "targets"))


def test_the_demo_s_declaration_gives_the_dumps_and_a_later_run_merges_what_came_since(spark: SparkSession, tmp_path: Path) -> None:
    assert not any(table.equal for table in run(spark, tmp_path, CAPTURE[:6]))
    assert all(table.equal for table in run(spark, tmp_path, CAPTURE[6:]))
    fields = DeltaTable(str(tmp_path / "targets" / "bills")).schema().fields
    assert [(field.name, str(field.type).split('"')[1]) for field in fields] == [
        ("id", "long"),
        ("amount", "decimal(38,2)"),
        ("paid_at", "timestamp"),
        ("note", "string"),
        ("__position", "long"),
    ]


def test_a_lost_last_event_shows_in_the_tables(spark: SparkSession, tmp_path: Path) -> None:
    bills, lines = run(spark, tmp_path, dropped(8))  # the delete of a line
    assert (bills.equal, lines.extra, lines.examples) == (True, 1, ("extra id 1, line 2",))


def test_python_routes_as_spark_does(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    groups = ["", "a", "user-7", "订单-1", "x" * 63, "\U0001f600\x00"]
    for queues in (1, 3, 16):
        routed = spark.createDataFrame([(group,) for group in groups], "g string").select(
            F.pmod(F.xxhash64("g"), F.lit(queues)).alias("queue")
        )
        assert [row.queue for row in routed.collect()] == [queue_of(group, queues) for group in groups]


def test_a_session_is_set_for_small_tables_and_utc(spark: SparkSession) -> None:
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    assert {name: spark.conf.get(name) for name in settings} == settings


def test_python_workers_have_our_packages(spark: SparkSession) -> None:
    assert spark.range(3).mapInArrow(lambda batches: batches, "id long").count() == 3


@pytest.mark.s3
def test_delta_tables_on_s3_under_the_scheme_s3(spark: SparkSession, request: pytest.FixtureRequest) -> None:
    with moto_server() as server:
        spark.conf.set("fs.s3a.endpoint", server.endpoint)
        request.addfinalizer(lambda: spark.conf.unset("fs.s3a.endpoint"))  # other tests of this session use another server
        url = f"s3://{server.bucket}/table"
        spark.range(5).coalesce(1).write.format("delta").save(url)
        options = {**server.credentials, "aws_endpoint": server.endpoint, "aws_region": "us-east-1", "aws_allow_http": "true"}
        assert DeltaTable(url, storage_options=options).to_pyarrow_table()["id"].to_pylist() == [0, 1, 2, 3, 4]
        assert spark.read.format("delta").load(url).count() == 5
