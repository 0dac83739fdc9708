"""The stream's side of the driver, called as Spark calls it, without a session."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.coordinator import GroupInUse
from penstock.coordinator.lakes import lakes
from penstock.log import (
    MESSAGE_SCHEMA,
    DataDamaged,
    Message,
    OffsetOutOfRange,
    RetryError,
    StoreUnavailable,
    TopicDeleted,
    TopicNotFound,
)
from penstock.log.format.sealed import ROW_GROUP_ROWS
from penstock.spark.versions import STREAM_LIMITS
from tests.spark.needs import lacking
from tests.spark.source.topics import TopicFolder, topic_folder

pytest.importorskip("pyspark")
pytest.importorskip("penstock.spark.source.bounded_stream", reason=lacking(STREAM_LIMITS), exc_type=ImportError)

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from penstock.consumers.ranges.task import read
from penstock.spark.source.bounded_stream import StreamReader
from penstock.spark.source.options import parse
from penstock.spark.source.partitions import Partition

ALL = ReadAllAvailable()


@pytest.fixture
def topic(tmp_path: Path) -> Iterator[TopicFolder]:
    with topic_folder(tmp_path / "lake") as topic:
        yield topic
    lakes.close()


def stream(topic: TopicFolder, **options: str) -> StreamReader:
    given = {"lake": topic.url, "path": topic.name, "startingOffsets": "earliest", **options}
    return StreamReader(parse(given, stream=True))


def rows(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[int, int]]:
    """(queue, offset) of a batch, each task read by a reader as Spark makes them for executors."""
    found: list[tuple[int, int]] = []
    for partition in reader.partitions(start, end):
        executor = pickle.loads(pickle.dumps(StreamReader(reader._options)))
        for batch in executor.read(pickle.loads(pickle.dumps(partition))):
            found += zip(batch.column("queue").to_pylist(), batch.column("offset").to_pylist(), strict=True)
    return found


def drain(reader: StreamReader, start: dict[str, Any], limit: Any = ALL) -> tuple[list[list[tuple[int, int]]], dict[str, Any]]:
    """All batches until nothing is new, and where the stream stands then."""
    batches = []
    while (end := reader.latestOffset(start, limit)) != start:
        batches.append(rows(reader, start, end))
        start = end
    return batches, start


def test_every_row_comes_once_and_each_queue_in_order_through_table_and_log(topic: TopicFolder) -> None:
    reader = stream(topic, maxOffsetsPerTrigger="70")
    topic.send(100)
    topic.publish()
    topic.send(150)
    batches, end = drain(reader, reader.initialOffset(), reader.getDefaultReadLimit())
    assert [len(batch) for batch in batches] == [70, 70, 70, 40]
    seen = [row for batch in batches for row in batch]
    assert sorted(seen) == [(message.queue, message.offset) for message in topic.messages()]
    for queue, (earliest, following) in topic.offsets().items():
        assert [offset for number, offset in seen if number == queue] == list(range(earliest, following))
        assert end[str(queue)] == following
    assert reader.reportLatestOffset() == end


def test_a_limited_trigger_divides_one_row_group_of_the_table_at_most(topic: TopicFolder) -> None:
    count = 4 * 80_000
    with topic.lake.producer(topic.name) as producer:
        groups = pa.array([f"user-{number % 400}" for number in range(count)])
        producer.send_batch(pa.table({"body": pa.array([b"body"] * count), "message_group": groups}))
    topic.publish()
    reader = stream(topic, maxOffsetsPerTrigger=str(280_000), columns="queue,offset")
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    taken, stored = {queue: end[str(queue)] for queue in range(4)}, {queue: at for queue, (_, at) in topic.offsets().items()}
    assert sum(taken.values()) == 280_000
    assert len([queue for queue, at in taken.items() if at not in (ROW_GROUP_ROWS, stored[queue])]) == 1
    again = reader.latestOffset(end, reader.getDefaultReadLimit())
    assert {queue: again[str(queue)] for queue in range(4)} == stored
    assert len(rows(reader, start, end)) + len(rows(reader, end, again)) == count


def test_a_file_that_cannot_be_read_fails_its_task_and_not_the_planning(topic: TopicFolder) -> None:
    with topic.lake.producer(topic.name) as producer:
        producer.send_batch([Message(b"body", message_group="one")] * 20_000)
    topic.publish()
    for file in Path(topic.url).glob(f"topics/{topic.name}/table/queue=*/*.parquet"):
        file.write_bytes(file.read_bytes()[:-1])
    reader = stream(topic, maxOffsetsPerTrigger=str(10_000))
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert sum(end[str(queue)] - start[str(queue)] for queue in range(4)) == 10_000
    with pytest.raises(DataDamaged):
        rows(reader, start, end)


def test_a_restarted_query_goes_on_at_the_exact_offset(topic: TopicFolder) -> None:
    topic.send(40)
    first = stream(topic, maxOffsetsPerTrigger="10")
    start = first.initialOffset()
    middle = first.latestOffset(start, first.getDefaultReadLimit())
    restarted = stream(topic)
    again = rows(restarted, start, middle)  # the batch that a crash cut off: planned without latestOffset
    batches, _ = drain(restarted, middle)
    assert sorted(again + batches[0]) == [(message.queue, message.offset) for message in topic.messages()]


def test_a_stream_begins_at_an_end_at_offsets_or_at_a_time(topic: TopicFolder) -> None:
    topic.send(40)
    later = topic.messages()[-1].store_timestamp
    topic.send(20)
    following = {str(queue): limit for queue, (_, limit) in topic.offsets().items()}
    assert stream(topic, startingOffsets="latest").initialOffset() == {"life": 1, **following}
    named = stream(topic, startingOffsets='{"1": 3, "2": -1}').initialOffset()
    assert named == {"life": 1, "0": 0, "1": 3, "2": following["2"], "3": 0}
    options = parse({"lake": topic.url, "path": topic.name, "startingTimestamp": later.isoformat()}, stream=True)
    at_time = StreamReader(options).initialOffset()
    for message in topic.messages():
        assert (message.offset >= at_time[str(message.queue)]) == (message.store_timestamp >= later)


def test_available_now_ends_where_it_began_to(topic: TopicFolder) -> None:
    topic.send(30)
    reader = stream(topic, maxOffsetsPerTrigger="20")
    reader.prepareForTriggerAvailableNow()
    topic.send(30)
    batches, end = drain(reader, reader.initialOffset(), reader.getDefaultReadLimit())
    assert [len(batch) for batch in batches] == [20, 10]
    later = stream(topic)
    later.prepareForTriggerAvailableNow()
    assert sum(map(len, drain(later, end)[0])) == 30


def test_a_stream_that_is_not_told_where_to_begin_takes_all_if_it_ends_with_what_is_stored(
    topic: TopicFolder, caplog: pytest.LogCaptureFixture
) -> None:
    topic.send(30)
    options = parse({"lake": topic.url, "path": topic.name}, stream=True)
    ends = StreamReader(options)
    ends.prepareForTriggerAvailableNow()
    assert sum(map(len, drain(ends, ends.initialOffset())[0])) == 30
    assert caplog.messages == []
    follows = StreamReader(options)
    latest = {str(queue): following for queue, (_, following) in topic.offsets().items()}
    assert follows.initialOffset() == {"life": 1, **latest}
    assert caplog.messages == [
        "orders: the stream begins at the latest offset, behind 30 messages that are stored; startingOffsets=earliest reads them"
    ]
    told = stream(topic, startingOffsets="latest")
    told.prepareForTriggerAvailableNow()
    assert told.initialOffset() == {"life": 1, **latest}
    assert len(caplog.messages) == 1


def test_bytes_limit_a_trigger_and_one_trigger_for_all_knows_no_limit(topic: TopicFolder) -> None:
    topic.send(200)
    topic.publish()
    reader = stream(topic, maxBytesPerTrigger="2000")
    assert reader.getDefaultReadLimit() == ReadMaxBytes(2000)
    batches, _ = drain(reader, reader.initialOffset(), ReadMaxBytes(2000))
    assert len(batches) > 3
    assert sum(map(len, batches)) == 200
    assert [len(batch) for batch in drain(reader, reader.initialOffset(), ALL)[0]] == [200]
    assert stream(topic, maxBytesPerTrigger="1", maxOffsetsPerTrigger="9").getDefaultReadLimit() == ReadMaxRows(9)


def test_lost_offsets_fail_the_stream_or_are_passed_over(topic: TopicFolder, caplog: pytest.LogCaptureFixture) -> None:
    topic.send(40)
    topic.publish()
    start = stream(topic).initialOffset()
    topic.expire()
    topic.send(12)
    with pytest.raises(OffsetOutOfRange, match=r"queue 0 has no offset 0 any more.*failOnDataLoss=false") as raised:
        stream(topic).latestOffset(start, ALL)
    told_first = raised.value.__cause__
    assert isinstance(told_first, OffsetOutOfRange)
    assert (str(told_first), told_first.__cause__, told_first.__traceback__) == (str(raised.value), None, None)
    lenient = stream(topic, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        batches, _ = drain(lenient, start)
    assert sorted(batches[0]) == [(message.queue, message.offset) for message in topic.messages()]
    assert "queue 0: offset 0 is not kept, reading goes on at" in caplog.text


def test_rows_lost_between_planning_and_reading_are_met_by_the_task(topic: TopicFolder) -> None:
    topic.send(40)
    topic.publish()
    planned = []
    for fail in ("true", "false"):
        reader = stream(topic, failOnDataLoss=fail, numTasks="1")
        start = reader.initialOffset()
        topic_end = reader.latestOffset(start, ALL)
        planned += reader.partitions(start, topic_end)
    topic.expire()
    strict, lenient = planned
    assert isinstance(strict, Partition)
    assert isinstance(lenient, Partition)
    with pytest.raises(OffsetOutOfRange, match="failOnDataLoss=false"):
        list(read(strict.task))
    assert list(read(lenient.task)) == []


def test_a_topic_made_again_is_not_gone_on_with(topic: TopicFolder, caplog: pytest.LogCaptureFixture) -> None:
    topic.send(40)
    reader, lenient = stream(topic), stream(topic, failOnDataLoss="false")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    lenient.latestOffset(start, ALL)
    topic.recreate()
    topic.send(60)
    for old in (reader, stream(topic)):  # one that was open, and one that is restarted
        with pytest.raises(TopicDeleted, match="new checkpointLocation"):
            old.latestOffset(end, ALL)
    with pytest.raises(TopicDeleted, match="new checkpointLocation"):
        stream(topic).partitions(start, end)
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        assert stream(topic, failOnDataLoss="false").partitions(start, end) == []
        batches, now = drain(lenient, end)
    assert "deleted and created again" in caplog.text
    assert now["life"] > end["life"]
    assert sorted(batches[0]) == [(message.queue, message.offset) for message in topic.messages()]


def test_a_task_never_reads_another_topic_of_the_name(topic: TopicFolder) -> None:
    topic.send(40)
    reader = stream(topic)
    start = reader.initialOffset()
    (partition, *_) = reader.partitions(start, reader.latestOffset(start, ALL))
    assert isinstance(partition, Partition)
    assert sum(batch.num_rows for batch in read(partition.task))
    topic.recreate()
    topic.send(60)
    with pytest.raises(TopicDeleted, match="while it was read"):
        list(read(partition.task))


def test_a_task_that_finds_less_than_was_planned_says_so(topic: TopicFolder) -> None:
    topic.send(40)
    reader = stream(topic, numTasks="1")
    start = reader.initialOffset()
    (partition,) = reader.partitions(start, reader.latestOffset(start, ALL))
    assert isinstance(partition, Partition)
    beyond = replace(partition.task, ranges={0: (0, 10_000)})
    with pytest.raises(RetryError, match=r"does not have yet.*queues 0.*10000"):
        list(read(beyond))


def test_without_the_topic_the_error_says_so(tmp_path: Path) -> None:
    reader = StreamReader(parse({"lake": str(tmp_path), "path": "orders"}, stream=True))
    with pytest.raises(TopicNotFound):
        reader.initialOffset()
    lakes.close()


def test_small_batches_are_gathered_and_columns_and_tags_chosen(topic: TopicFolder) -> None:
    for _ in range(6):
        topic.send(20)  # an entry each, at least
    reader = stream(topic, columns="body,tag", tags="paid", numTasks="1")
    start = reader.initialOffset()
    (partition,) = reader.partitions(start, reader.latestOffset(start, ALL))
    (batch,) = reader.read(partition)
    assert batch.schema == pa.schema([MESSAGE_SCHEMA.field("body"), MESSAGE_SCHEMA.field("tag")])
    assert sorted(int(body) for body in batch.column("body").to_pylist()) == list(range(1, 120, 2))


# --- Progress as a consumer group's ----------------------------------------------------------------------------------------------


def lag(topic: TopicFolder) -> int:
    return topic.lake.describe_group("spark").lag


def test_progress_shows_as_a_consumer_group(topic: TopicFolder) -> None:
    topic.send(40)
    reader = stream(topic, group="spark", maxOffsetsPerTrigger="15")
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert lag(topic) == 40
    rows(reader, start, end)
    assert lag(topic) == 40  # read, and perhaps not processed
    reader.commit(end)
    assert lag(topic) == 25
    described = topic.lake.describe_group("spark")
    assert {str(one.queue): one.committed_offset for one in described.queues} == {
        queue: at for queue, at in end.items() if queue != "life"
    }
    assert described.members == ()
    _, end = drain(reader, end)  # Spark commits a batch only with the next one, and asks for a next one in any case
    assert lag(topic) == 0
    topic.send(7)
    assert lag(topic) == 7
    drain(stream(topic, group="spark"), end)
    assert lag(topic) == 0


def test_a_consumer_that_takes_the_group_over_begins_where_the_stream_stopped(topic: TopicFolder) -> None:
    topic.send(40)
    reader = stream(topic, group="spark", maxOffsetsPerTrigger="15")
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    reader.commit(end)
    with topic.lake.pull_consumer(topic.name, group="spark", queues=[0]) as consumer:
        messages = consumer.poll(5)
        assert [message.offset for message in messages][:1] == [end["0"]]


def test_a_group_whose_members_live_is_refused_before_and_after(topic: TopicFolder) -> None:
    topic.send(40)
    reader = stream(topic, group="spark")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    with topic.lake.pull_consumer(topic.name, group="spark") as consumer:
        consumer.poll(1)
        with pytest.raises(GroupInUse, match="a group of its own"):
            reader.commit(end)
        with pytest.raises(GroupInUse, match="members of the consumer group live"):
            stream(topic, group="spark").latestOffset(end, ALL)


def test_a_table_that_cannot_be_written_only_leaves_a_word_in_the_log(
    topic: TopicFolder, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic.send(40)
    reader = stream(topic, group="spark")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    opened = reader._view.opened
    groups = opened.run(opened.coordination).groups

    async def fail(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("no answer")

    with monkeypatch.context() as broken, caplog.at_level(logging.WARNING, "penstock.spark"):
        broken.setattr(groups, "update", fail)
        reader.commit(end)
    assert "does not show in group spark: no answer" in caplog.text
    assert lag(topic) == 40
    reader.commit(end)  # later it is tried again
    assert lag(topic) == 0


def test_progress_of_a_topic_made_again_begins_anew(topic: TopicFolder) -> None:
    topic.send(40)
    drain(stream(topic, group="spark"), stream(topic).initialOffset())
    topic.recreate()
    topic.send(9)
    assert lag(topic) == 9
    drain(stream(topic, group="spark"), stream(topic).initialOffset())
    assert lag(topic) == 0


@pytest.mark.parametrize("limit", [ALL, ReadMaxRows(30)])
def test_no_batch_has_a_message_group_s_newer_messages_beside_older_ones_when_the_topic_grows(
    topic: TopicFolder, limit: Any
) -> None:
    reader = stream(topic, **({} if limit is ALL else {"maxOffsetsPerTrigger": "30"}))
    start = reader.initialOffset()
    for queues in (8, 16):
        topic.send(100)
        topic.lake.alter_topic(topic.name, queues=queues)
        topic.send(100)
    places = {(message.queue, message.offset): message for message in topic.messages()}
    batches, end = drain(reader, start, limit)
    assert sorted(place for batch in batches for place in batch) == sorted(places)
    assert end == reader.reportLatestOffset()
    numbers: dict[str, int] = {}
    for batch in batches:
        of_group: dict[str, list[int]] = {}
        for place in batch:
            message = places[place]
            of_group.setdefault(message.message_group or "", []).append(int(message.body))
        for group, found in of_group.items():
            assert min(found) > numbers.get(group, -1)
            assert len({queue for queue, offset in batch if places[queue, offset].message_group == group}) == 1
            numbers[group] = max(found)


def test_a_query_that_ends_with_what_is_stored_ends_before_a_growth_that_came_later(topic: TopicFolder) -> None:
    reader = stream(topic)
    topic.send(50)
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    topic.lake.alter_topic(topic.name, queues=8)
    topic.send(50)
    batches, end = drain(reader, start)
    assert sum(map(len, batches)) == 50
    batches, _ = drain(stream(topic), end)
    assert sum(map(len, batches)) == 50
