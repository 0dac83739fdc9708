"""``format("penstock")`` as a sink: what Spark calls, options, and a stream and a batch in a session."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.log.errors import InvalidArgument, LimitExceeded
from penstock.spark.lakes import lakes
from penstock.spark.produce.sink import StreamSink, batch_sink, parse, stream_sink
from tests.spark.produce.test_parts import batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

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

    def run(batch: int, job: str) -> None:
        sink: StreamSink = pickle.loads(pickle.dumps(stream_sink(options, schema("message_group", "body"))))
        tasks = [sink._sink.stage(iter(batches(80)), query="q", job=job), sink._sink.stage(iter([]), query="q", job=job)]
        sink.commit([*tasks, None], batch)

    run(0, "a" * 32)
    run(0, "b" * 32)
    run(3, "c" * 32)
    assert len(bodies(lake)) == 160
    with pytest.raises(InvalidArgument, match="later batches are written already"):
        run(1, "d" * 32)
    stream_sink(options, schema("body")).commit([], 4)
    stream_sink(options, schema("body")).abort([], 4)
    assert len(bodies(lake)) == 160


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
