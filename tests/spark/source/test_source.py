"""The source in a session: rows, conditions, checkpoints and errors as users meet them."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock.log import MESSAGE_SCHEMA
from penstock.spark.source.schema import ddl
from penstock.spark.versions import STREAM_LIMITS, has
from tests.spark.source.topics import TopicFolder, topic_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def topic(tmp_path: Path) -> Iterator[TopicFolder]:
    with topic_folder(tmp_path / "lake") as topic:
        yield topic


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TopicFolder]:
    """Half of it in the table, half in the log; never changed."""
    with topic_folder(tmp_path_factory.mktemp("filled") / "lake") as topic:
        topic.send(300)
        topic.publish()
        topic.send(300)
        yield topic


def batch(spark: SparkSession, topic: TopicFolder, /, **options: str) -> DataFrame:
    return spark.read.format("penstock").options(lake=topic.url, **options).load(topic.name)


def places(frame: DataFrame) -> list[tuple[int, int]]:
    return sorted((row["queue"], row["offset"]) for row in frame.select("queue", "offset").collect())


def stored(topic: TopicFolder, which: Callable[[Any], object] = lambda _: True) -> list[tuple[int, int]]:
    return [(message.queue, message.offset) for message in topic.messages() if which(message)]


STARTS = 3


class Stream:
    """A query that is run to its end now and then, and what each batch of it had."""

    def __init__(self, spark: SparkSession, topic: TopicFolder, folder: Path) -> None:
        self.spark = spark
        self.topic = topic
        self.checkpoint = str(folder / "checkpoint")
        self.batches: list[list[tuple[int, int]]] = []
        self.progress: dict[str, Any] = {}

    def run(self, **options: str) -> None:
        """Begin again where the machine was too busy to begin: Spark gives the worker of a source ten seconds, and no way to give more."""
        from pyspark.errors import StreamingQueryException

        for left in reversed(range(STARTS)):
            try:
                self._run(**options)
                break
            except StreamingQueryException as error:
                if "Python worker failed to connect back" not in str(error) or not left:
                    raise

    def _run(self, **options: str) -> None:
        reader = self.spark.readStream.format("penstock").options(
            **{"lake": self.topic.url, "startingOffsets": "earliest", **options}
        )
        writer = reader.load(self.topic.name).writeStream.foreachBatch(self._take)
        query = writer.option("checkpointLocation", self.checkpoint).trigger(availableNow=True).start()
        try:
            query.awaitTermination()
            if query.lastProgress is not None:
                self.progress = json.loads(query.lastProgress.json)
        finally:
            query.stop()

    def _take(self, frame: DataFrame, _number: int) -> None:
        self.batches.append(places(frame))


@pytest.mark.usefixtures("spark")
def test_the_schema_is_that_of_messages() -> None:
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    named = StructType.fromDDL(ddl(MESSAGE_SCHEMA.names))
    assert isinstance(named, StructType)
    newer = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}  # it was always UTC before
    schema = to_arrow_schema(named, **newer)  # type: ignore[arg-type]
    assert schema.equals(MESSAGE_SCHEMA)


def test_a_batch_has_the_rows_that_our_reader_has(spark: SparkSession, filled: TopicFolder) -> None:
    found = batch(spark, filled).toArrow().sort_by([("queue", "ascending"), ("offset", "ascending")])
    expected = filled.lake.reader(filled.name).to_arrow()
    times = [name for name in MESSAGE_SCHEMA.names if pa.types.is_timestamp(MESSAGE_SCHEMA.field(name).type)]
    assert found.column_names == MESSAGE_SCHEMA.names
    for name in MESSAGE_SCHEMA.names:
        column = found.column(name).cast(MESSAGE_SCHEMA.field(name).type) if name in times else found.column(name)
        assert column.to_pylist() == expected.column(name).to_pylist(), name


def test_a_batch_is_chosen_by_columns_tags_offsets_and_times(spark: SparkSession, filled: TopicFolder) -> None:
    assert batch(spark, filled, columns="offset, queue").columns == ["offset", "queue"]
    paid = batch(spark, filled, tags="paid || refunded", columns="queue,offset")
    assert places(paid) == stored(filled, lambda message: message.tag == "paid")
    some = batch(spark, filled, startingOffsets='{"0": 5, "1": -1}', endingOffsets='{"0": 9, "3": 0}')
    assert places(some) == stored(filled, lambda one: one.queue == 2 or (one.queue == 0 and 5 <= one.offset < 9))
    times = sorted({message.store_timestamp for message in filled.messages()})
    middle = batch(spark, filled, startingTimestamp=times[0].isoformat(), endingTimestamp=times[-1].isoformat())
    assert places(middle) == stored(filled, lambda message: message.store_timestamp < times[-1])


def test_rows_of_a_queue_come_in_order_inside_one_task(spark: SparkSession, filled: TopicFolder) -> None:
    def check(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        last: dict[int, int] = {}
        for rows in batches:
            for queue, offset in zip(rows.column("queue").to_pylist(), rows.column("offset").to_pylist(), strict=True):
                assert offset == last.get(queue, -1) + 1, "in order, and without a gap"
                last[queue] = offset
        yield pa.RecordBatch.from_pydict({"queue": list(last), "next": [offset + 1 for offset in last.values()]})

    frame = batch(spark, filled).mapInArrow(check, "queue bigint, next bigint")
    found = [(row["queue"], row["next"]) for row in frame.collect()]
    assert sorted(found) == [(queue, following) for queue, (_, following) in filled.offsets().items()]  # each queue in one task
    assert frame.rdd.getNumPartitions() == 2


def test_a_stream_goes_on_from_its_checkpoint(spark: SparkSession, topic: TopicFolder, tmp_path: Path) -> None:
    stream = Stream(spark, topic, tmp_path)
    topic.send(50)
    limit = {"maxOffsetsPerTrigger": "20"} if has(STREAM_LIMITS) else {}
    stream.run(group="spark", **limit)
    assert [len(rows) for rows in stream.batches] == ([20, 20, 10] if limit else [50])
    (source,) = stream.progress["sources"]
    end = {"life": 1, **{str(queue): following for queue, (_, following) in topic.offsets().items()}}
    assert source["endOffset"] == end
    if limit:
        assert source["latestOffset"] == end
        assert topic.lake.describe_group("spark").lag == 0
    batches = len(stream.batches)
    topic.publish()
    topic.send(30)
    stream.run(group="spark")
    assert topic.lake.describe_group("spark").lag == (0 if limit else 30)  # an older Spark tells of a batch with the next one
    assert sorted(row for rows in stream.batches for row in rows) == stored(topic)
    assert len(stream.batches) == batches + 1
    stream.run()
    assert len(stream.batches) == batches + 1


@pytest.mark.thorough
def test_data_loss_stops_a_stream_until_it_is_allowed(spark: SparkSession, topic: TopicFolder, tmp_path: Path) -> None:
    stream = Stream(spark, topic, tmp_path)
    topic.send(50)
    stream.run()
    topic.send(20)
    topic.publish()
    topic.expire()
    topic.send(10)
    with pytest.raises(Exception, match="has no offset") as raised:
        stream.run()
    told = last_line(raised.value)
    assert "penstock.log.errors.OffsetOutOfRange: queue" in told
    assert "the earliest kept" in told
    assert told.endswith("startingOffsets and a new checkpointLocation")
    stream.run(failOnDataLoss="false")
    assert stream.batches[-1] == stored(topic)


@pytest.mark.thorough
def test_a_topic_made_again_stops_a_stream_until_that_is_allowed(spark: SparkSession, topic: TopicFolder, tmp_path: Path) -> None:
    stream = Stream(spark, topic, tmp_path)
    topic.send(50)
    stream.run()
    topic.recreate()
    topic.send(80)
    with pytest.raises(Exception, match="deleted and created again") as raised:
        stream.run()
    assert "new checkpointLocation" in last_line(raised.value)
    assert len(stream.batches) == 1
    stream.run(failOnDataLoss="false")
    assert stream.batches[-1] == stored(topic)


def last_line(error: Exception) -> str:
    """Of the Python error inside Spark's, without what Spark puts behind it."""
    said = {found[0].partition(" SQLSTATE")[0] for found in re.finditer(r"penstock\.(log\.errors|coordinator)\..*", str(error))}
    assert len(said) == 1, str(error)  # a stream's error says it twice: it is its own cause
    return said.pop()


def python_trace(error: Exception) -> list[str]:
    """The calls in the Python part of it that are ours."""
    return [line for line in str(error).splitlines() if line.lstrip().startswith('File "') and "penstock" in line]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"startingOfsets": "earliest"}, "Did you mean startingOffsets?"),
        ({"startingOffsets": "{0: 1}"}, "startingOffsets is wrong: it is not JSON"),
        ({"startingOffsets": '{"9": 1}'}, "the topic has no queue 9"),
        ({"startingOffsets": '{"0": 100000}'}, "queue 0 has no offset 100000 yet"),
        ({"maxOffsetsPerTrigger": "5"}, "it belongs to spark.readStream"),
        ({"topic": "others"}, "two topics are named"),
    ],
)
def test_what_is_wrong_stands_in_one_line_with_few_calls_around_it(
    spark: SparkSession, filled: TopicFolder, options: dict[str, str], says: str
) -> None:
    with pytest.raises(Exception, match=r"penstock\.log\.errors") as raised:
        batch(spark, filled, **options).collect()
    assert says in last_line(raised.value)
    assert len(python_trace(raised.value)) <= 2


def test_an_error_of_a_task_is_as_legible(spark: SparkSession, topic: TopicFolder) -> None:
    topic.send(40)
    topic.publish()
    frame = batch(spark, topic)
    frame.rdd.getNumPartitions()  # planned
    topic.expire()
    with pytest.raises(Exception, match="has no such offset") as raised:
        frame.collect()
    assert "failOnDataLoss=false" in str(raised.value)
    assert len(python_trace(raised.value)) <= 3


def test_a_schema_of_ones_own_is_refused(spark: SparkSession, filled: TopicFolder) -> None:
    reader = spark.read.format("penstock").option("lake", filled.url).schema("offset bigint, value string")
    with pytest.raises(Exception, match=r"the schema is not the source's") as raised:
        reader.load(filled.name).collect()
    assert '.option("columns"' in last_line(raised.value)


def test_a_topic_without_rows_is_empty(spark: SparkSession, topic: TopicFolder, tmp_path: Path) -> None:
    assert batch(spark, topic).count() == 0
    stream = Stream(spark, topic, tmp_path)
    stream.run()
    assert sum(map(len, stream.batches)) == 0
