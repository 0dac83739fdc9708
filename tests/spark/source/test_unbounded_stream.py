"""The stream's side of the driver in Spark 4.0 and 4.1, called as these call it, in any version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.coordinator.lakes import lakes
from penstock.log import OffsetOutOfRange
from penstock.log.errors import MissingDependency
from tests.spark.source.topics import TopicFolder, topic_folder

pytest.importorskip("pyspark")

from penstock.consumers.ranges.task import read
from penstock.spark.source.datasource import stream_reader
from penstock.spark.source.options import parse
from penstock.spark.source.partitions import Partition
from penstock.spark.source.unbounded_stream import UnboundedStreamReader

OLDER = "4.0.5"


@pytest.fixture
def topic(tmp_path: Path) -> Iterator[TopicFolder]:
    with topic_folder(tmp_path / "lake") as topic:
        yield topic
    lakes.close()


def stream(topic: TopicFolder, **options: str) -> UnboundedStreamReader:
    reader = stream_reader(parse({"lake": topic.url, "path": topic.name, **options}, stream=True), OLDER)
    assert isinstance(reader, UnboundedStreamReader)
    return reader


def rows(reader: UnboundedStreamReader, start: dict[str, int], end: dict[str, int]) -> list[tuple[int, int]]:
    """(queue, offset) of a batch."""
    found: list[tuple[int, int]] = []
    for partition in reader.partitions(start, end):
        assert isinstance(partition, Partition)
        for batch in read(partition.task):
            found += zip(batch.column("queue").to_pylist(), batch.column("offset").to_pylist(), strict=True)
    return found


def test_a_trigger_takes_all_that_is_stored_and_every_row_comes_once(topic: TopicFolder) -> None:
    topic.send(40)
    reader = stream(topic, startingOffsets="earliest", group="spark")
    start = reader.initialOffset()
    first = reader.latestOffset()
    taken = rows(reader, start, first)
    assert reader.latestOffset() == first  # nothing is new: Spark plans no batch
    topic.send(30)
    second = reader.latestOffset()
    taken += rows(reader, first, second)
    assert sorted(taken) == [(message.queue, message.offset) for message in topic.messages()]
    assert topic.lake.describe_group("spark").lag == 30
    reader.commit(second)
    assert topic.lake.describe_group("spark").lag == 0


def test_a_restarted_query_goes_on_at_the_exact_offset(topic: TopicFolder) -> None:
    topic.send(40)
    first = stream(topic, startingOffsets="earliest")
    start = first.initialOffset()
    middle = first.latestOffset()
    topic.send(30)
    cut_off = stream(topic)
    again = rows(cut_off, start, middle)  # Spark tells a batch that was planned; the start of the query is not asked for again
    end = stream(topic).latestOffset()  # a batch that was done: Spark tells where it ended only with the next one
    assert end == cut_off.latestOffset()
    assert sorted(again + rows(stream(topic), middle, end)) == [(one.queue, one.offset) for one in topic.messages()]


def test_lost_rows_are_an_error_unless_told_otherwise(topic: TopicFolder) -> None:
    beyond = {"life": 1, **dict.fromkeys("0123", 99)}
    topic.send(8)
    with pytest.raises(OffsetOutOfRange, match="no offset 99 yet"):
        stream(topic, startingOffsets="earliest").partitions(beyond, beyond)


def test_what_these_versions_cannot_know_is_refused_by_name(topic: TopicFolder) -> None:
    for limit in ("maxOffsetsPerTrigger", "maxBytesPerTrigger"):
        with pytest.raises(
            MissingDependency, match=r"maxOffsetsPerTrigger and .*expected: pyspark 4.2 or newer; observed: pyspark 4.0.5"
        ):
            stream(topic, **{limit: "10"})
    with pytest.raises(MissingDependency, match=r"no startingOffsets: .*expected: pyspark 4.2 or newer; .*Name the start"):
        stream(topic).initialOffset()
