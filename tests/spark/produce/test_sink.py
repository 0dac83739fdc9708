"""``format("penstock")`` as a sink: what Spark calls, options, and a stream and a batch in a session."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pytest

import penstock
from penstock.coordinator.lakes import lakes
from penstock.log.errors import InvalidArgument, LimitExceeded, NotWritten, TopicDeleted, TopicNotFound
from penstock.log.limits import JOB_LINK_MAX_S
from penstock.log.message.routing import queue_of
from penstock.spark.produce.sink import batch_sink, parse
from penstock.spark.versions import STREAM_SINK
from tests.spark.needs import lacking
from tests.spark.produce.test_parts import batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

pytest.importorskip("penstock.spark.produce.stream_sink", reason=lacking(STREAM_SINK), exc_type=ImportError)

from penstock.spark.produce.stream_sink import StreamSink, stream_sink

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[penstock.Lake]:
    with penstock.connect(tmp_path / "lake", maintenance=False) as lake:
        lake.create_topic("orders", message_type="FIFO", queues=4)
        yield lake
    lakes.close()


def schema(*names: str) -> StructType:
    from pyspark.sql.types import StringType, StructField, StructType

    return StructType([StructField(name, StringType()) for name in names])


def bodies(lake: penstock.Lake) -> list[bytes]:
    return [message.body for message in lake.reader("orders").messages()]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topic": "orders"}, "the lake is missing"),
        ({"lake": "lake"}, "the topic is missing"),
        ({"lake": "lake", "topc": "orders"}, r"no option 'topc'.*Did you mean topic\?"),
        ({"lake": "memory://x", "topic": "orders"}, "other processes"),
        ({"lake": "lake", "topic": "or/ders"}, "bad topic name"),
        ({"lake": "lake", "topic": "orders", "path": "others"}, "two topics are named"),
    ],
    ids=str,
)
def test_a_bad_option_is_told(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        parse(options)


def test_a_name_that_is_too_long_is_told() -> None:
    with pytest.raises(LimitExceeded, match="name is too long"):
        parse({"lake": "lake", "topic": "orders", "name": "n" * 128})


def test_columns_that_no_message_has_are_told(lake: penstock.Lake) -> None:
    options = {"lake": lake.url, "topic": "orders"}
    with pytest.raises(InvalidArgument, match=r"no column 'bdy'.*Did you mean body\?"):
        stream_sink(options, schema("message_group", "bdy"))
    with pytest.raises(InvalidArgument, match="the column body is missing"):
        stream_sink(options, schema("message_group"))
    with pytest.raises(InvalidArgument, match="cannot be overwritten"):
        batch_sink(options, schema("body"), overwrite=True)


def test_a_batch_that_is_committed_again_is_there_once(lake: penstock.Lake) -> None:
    """As after a driver that died behind its commit: Spark makes all anew, and another job."""
    options = {"lake": lake.url, "topic": "orders", "name": "etl"}

    def run(batch: int, job: str, rows: int = 80) -> None:
        sink: StreamSink = pickle.loads(pickle.dumps(stream_sink(options, schema("message_group", "body"))))
        tasks = [sink._sink.stage(iter(batches(rows)), query="q", job=job), sink._sink.stage(iter([]), query="q", job=job)]
        sink.commit([*tasks, None], batch)

    run(0, "a" * 32)
    run(0, "b" * 32)
    run(3, "c" * 32)
    assert len(bodies(lake)) == 160
    with pytest.raises(InvalidArgument, match="later batches are written already"):
        run(1, "d" * 32)
    with pytest.raises(InvalidArgument, match=r"no repetition.*expected: 80 rows; observed: 120 rows"):
        run(3, "e" * 32, 120)
    stream_sink(options, schema("body")).commit([], 4)
    stream_sink(options, schema("body")).abort([], 4)
    assert len(bodies(lake)) == 160


@pytest.mark.parametrize("same_process", [True, False])
@pytest.mark.parametrize("kind", ["stream", "batch"])
def test_rows_that_were_staged_for_a_topic_that_was_made_again_are_not_linked(
    lake: penstock.Lake, kind: str, *, same_process: bool
) -> None:
    """Spark plans a batch and commits it in processes of their own, which may have the topic open since long."""
    options = {"lake": lake.url, "topic": "orders", "name": "etl"}

    def run(*, again: bool) -> None:
        columns = schema("message_group", "body")
        sink = stream_sink(options, columns) if kind == "stream" else batch_sink(options, columns, overwrite=False)
        in_task = pickle.loads(pickle.dumps(sink))._sink
        done = pickle.loads(pickle.dumps(in_task.stage(iter(batches(80)), query="q", job=uuid4().hex)))
        if again:
            lake.delete_topic("orders")
            lake.create_topic("orders", message_type="FIFO", queues=8)
        if not same_process:
            lakes.close()
        if isinstance(sink, StreamSink):
            stream_sink(options, columns).commit([done], 0)
        else:
            sink.commit([done])

    with pytest.raises(TopicDeleted, match=r"not the one that the rows were staged for.*stage them anew"):
        run(again=True)
    assert bodies(lake) == []
    run(again=False)
    assert len(bodies(lake)) == 80


@pytest.mark.parametrize("same_process", [True, False])
@pytest.mark.parametrize("kind", ["stream", "batch"])
def test_rows_that_were_staged_before_the_topic_got_more_queues_are_linked_once_in_these(
    lake: penstock.Lake, kind: str, *, same_process: bool
) -> None:
    options, columns = {"lake": lake.url, "topic": "orders", "name": "etl"}, schema("message_group", "body")
    rows = pa.record_batch({"message_group": [f"g-{n % 9}" for n in range(90)], "body": [b"%06d" % n for n in range(90)]})

    def run(queues: int) -> None:
        sink = stream_sink(options, columns) if kind == "stream" else batch_sink(options, columns, overwrite=False)
        job = uuid4().hex
        done = [sink._sink.stage(iter([rows.slice(at, 30)]), query="q", job=job) for at in (0, 30, 60)]
        lake.alter_topic("orders", queues=queues)
        if not same_process:
            lakes.close()
        if isinstance(sink, StreamSink):
            for _ in range(2):  # the driver died behind it
                stream_sink(options, columns).commit(done, queues)
        else:
            sink.commit(done)

    run(8)
    run(32)
    stored = lake.reader("orders").to_arrow(columns=["queue", "message_group", "body"])
    found = Counter(stored.column("body").to_pylist())
    assert found == dict.fromkeys((b"%06d" % n for n in range(90)), 2)
    homes = {group: {queue_of(group, 8), queue_of(group, 32)} for group in stored["message_group"].unique().to_pylist()}
    assert all(row["queue"] in homes[row["message_group"]] for row in stored.to_pylist())


def test_a_topic_that_is_gone_at_the_commit_is_told(lake: penstock.Lake) -> None:
    sink = stream_sink({"lake": lake.url, "topic": "orders"}, schema("message_group", "body"))
    done = sink._sink.stage(iter(batches(40)), query="q", job="a" * 32)
    lake.delete_topic("orders")
    with pytest.raises(TopicNotFound, match="orders"):
        sink.commit([done], 0)


def test_the_day_in_which_a_batch_is_to_be_linked_begins_before_its_tasks(lake: penstock.Lake) -> None:
    """The commit is planned by a sink of its own, long after them."""
    options = {"lake": lake.url, "topic": "orders"}
    sink = stream_sink(options, schema("message_group", "body"))._sink
    a_day_ago = replace(sink, link_until_s=sink.link_until_s - JOB_LINK_MAX_S)
    done = a_day_ago.stage(iter(batches(40)), query="q", job="a" * 32)
    with pytest.raises(NotWritten):
        stream_sink(options, schema("message_group", "body")).commit([done], 0)
    assert bodies(lake) == []


@pytest.mark.thorough
def test_in_a_session(spark: SparkSession, lake: penstock.Lake, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    rows = spark.range(60).select(
        F.concat(F.lit("g-"), F.col("id") % 3).alias("message_group"), F.col("id").cast("string").alias("body")
    )
    rows.write.format("penstock").mode("append").option("lake", lake.url).save("orders")
    assert sorted(map(int, bodies(lake))) == list(range(60))
    rows.write.parquet(str(tmp_path / "in"))
    for _ in range(2):
        stream = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "in")).writeStream.format("penstock")
        stream = (
            stream.option("lake", lake.url).option("topic", "orders").option("checkpointLocation", str(tmp_path / "checkpoint"))
        )
        stream.trigger(availableNow=True).start().awaitTermination()
        for name in ("0", ".0.crc"):  # as if Spark had died before it noted the batch
            (tmp_path / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    assert len(bodies(lake)) == 120
    with pytest.raises(Exception, match="message_group is null"):
        rows.withColumn("message_group", F.lit(None).cast("string")).write.format("penstock").mode("append").option(
            "lake", lake.url
        ).save("orders")
    assert len(bodies(lake)) == 120


@pytest.mark.thorough
def test_a_query_whose_topic_grows_under_its_batches_goes_on(spark: SparkSession, lake: penstock.Lake, tmp_path: Path) -> None:
    """Each batch's tasks double the queues, behind its plan and before its commit."""
    url, folder = lake.url, str(tmp_path / "in")

    def grow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with penstock.connect(url, maintenance=False) as other:
            other.alter_topic("orders", queues=2 * other.describe_topic("orders").settings.queues)
        yield from batches

    rows = spark.range(60).selectExpr("concat('g-', id % 9) AS message_group", "cast(id AS string) AS body").coalesce(1)
    for _ in range(2):
        rows.write.mode("append").parquet(folder)
    read = spark.readStream.schema(rows.schema).option("maxFilesPerTrigger", 1).parquet(folder)
    query = read.coalesce(1).mapInArrow(grow, rows.schema).writeStream.format("penstock").option("lake", url)
    query = query.option("topic", "orders").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    assert lake.describe_topic("orders").settings.queues == 16
    found = [(message.message_group, message.queue, int(message.body)) for message in lake.reader("orders").messages()]
    assert sorted(body for _, _, body in found) == sorted([*range(60), *range(60)])
    assert all(queue in {queue_of(group or "", 8), queue_of(group or "", 16)} for group, queue, _ in found)
