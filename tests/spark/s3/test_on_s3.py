"""Spark's parts on a real S3 server: a lake, checkpoints and targets there, every row compared."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock import SyncOptions, sync
from penstock.aio import Lake
from penstock.coordinator.lakes import lakes
from penstock.infra.cli.lake.maintenance import maintain_once
from penstock.log import open_store, queue_of
from penstock.spark import ordered_writer, write_ordered
from penstock.spark.versions import STREAM_LIMITS, has
from tests.cdc.sync.streams import TOPIC, event, send
from tests.servers import S3Server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.versitygw, pytest.mark.slow, pytest.mark.timeout(400)]

QUEUES, USERS, COUNT = 4, 11, 300


@pytest.fixture
def server(spark: SparkSession, versitygw: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """For Spark as ``s3a://``: under ``s3://`` other tests of the session have spoken to another server."""
    for name, value in versitygw.environment.items():
        if "ENDPOINT" not in name:
            monkeypatch.setenv(name, value)
    settings = spark.sparkContext._jsc.hadoopConfiguration()  # of all sessions: a sync has one of its own
    settings.set("fs.s3a.endpoint", versitygw.endpoint)
    yield versitygw
    settings.unset("fs.s3a.endpoint")
    lakes.close()


def made(url: str, *topics: str) -> None:
    with penstock.connect(url, maintenance=False) as lake:
        for topic in topics:
            lake.create_topic(topic, message_type="FIFO", queues=QUEUES)


def upkept(url: str) -> None:
    """One round: what is in the log gets into the table."""

    async def work() -> None:
        async with Lake(open_store(url)) as lake:
            results: list[object] = []
            await maintain_once(lake, (), lambda topic, step, result: results.append(result))
            assert not [result for result in results if isinstance(result, Exception)]

    asyncio.run(work())


def orders(spark: SparkSession, start: int = 0) -> DataFrame:
    from pyspark.sql import functions as F

    user = F.concat(F.lit("user-"), (F.col("id") % USERS).cast("string"))
    return spark.range(start, start + COUNT).select(user.alias("user"), F.col("id").alias("seq"), F.lit("né").alias("note"))


def check(rows: Iterable[Any], *, until: int) -> None:
    """Every order up to this one is there once, in its user's queue, behind the one before."""
    found = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row.queue, row.offset)):
        body = json.loads(row.body)
        assert (row.queue, body["note"]) == (queue_of(row.message_group, QUEUES), "né")
        found[row.message_group].append(body["seq"])
    assert found == {f"user-{user}": list(range(user, until, USERS)) for user in range(USERS)}


@pytest.mark.thorough
def test_writes_sources_and_streams(spark: SparkSession, server: S3Server) -> None:
    url, checkpoint = server.url("spark-lake"), f"s3a://{server.bucket}/checkpoints/copy"
    made(url, "orders", "copies")
    by = {"message_group": "user", "order_by": "seq"}
    assert write_ordered(orders(spark), url, "orders", **by, name="nightly", batch_id=0).rows == COUNT  # type: ignore[arg-type]
    assert write_ordered(orders(spark), url, "orders", **by, name="nightly", batch_id=0).duplicate  # type: ignore[arg-type]

    upkept(url)  # one half is in the table then, the other one in the log
    write_ordered(orders(spark, COUNT), url, "orders", **by, name="nightly", batch_id=1)  # type: ignore[arg-type]

    limit = {"maxOffsetsPerTrigger": str(COUNT)} if has(STREAM_LIMITS) else {}
    options = {"lake": url, "group": "copier", "startingOffsets": "earliest", **limit}
    columns = {"message_group": "message_group", "body": "body", "order_by": ["queue", "offset"]}
    writer = ordered_writer(url, "copies", **columns)  # type: ignore[arg-type]
    source = spark.readStream.format("penstock").options(**options).load("orders")
    query = source.writeStream.foreachBatch(writer).option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    assert len(query.recentProgress) == (2 if limit else 1)
    for topic in ("orders", "copies"):
        check(spark.read.format("penstock").option("lake", url).load(topic).collect(), until=2 * COUNT)
    with penstock.connect(url, read_only=True) as lake:
        assert lake.describe_group("copier").lag == (0 if limit else 2 * COUNT)  # an older Spark tells of a batch with the next one


@pytest.mark.thorough
def test_a_sync_into_targets_there(spark: SparkSession, server: S3Server) -> None:
    url, into = server.url("spark-changes"), f"s3a://{server.bucket}/targets"
    wanted: dict[int, dict[str, Any]] = {}
    events = list[Any]()
    for number in range(200):
        key = {"id": number % 60}
        if number % 7 == 6 and number % 60 in wanted:
            del wanted[number % 60]
            events.append(event("d", "bills", key, before=key, at=number))
        else:
            row = wanted[number % 60] = {**key, "amount": f"{number}.50"}
            events.append(event("u", "bills", key, row, at=number))
    send(url, events)
    run = sync(url, TOPIC, SyncOptions(into=into, columns={"bills": {"amount": "decimal(12,2)"}}, max_events=150), spark=spark)
    assert run.await_termination()
    assert (run.status.events, run.status.batches, run.stopped) == (len(events), 2, {})
    found = spark.read.format("delta").load(f"{into}/bills").collect()
    assert {row.id: row.amount for row in found} == {key: Decimal(str(row["amount"])) for key, row in wanted.items()}
    assert len(found) == len(wanted)
