"""What a sync does not write to, and what it does not go on from: each is named, and nothing is touched. By the engine without Spark."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import penstock
from penstock import SyncOptions, sync
from penstock.cdc.sync.options import BatchReport
from penstock.cdc.sync.run import SyncRun
from penstock.log import LogLake, open_store
from penstock.log.errors import InvalidArgument, OffsetOutOfRange
from penstock.log.table.delta.delta_log import DeltaLog
from penstock.log.table.publisher import Publisher
from penstock.log.table.retention import empty_table
from tests.cdc.sync.streams import TOPIC, Row, event, rows, send


class Place:
    """A lake, and a folder of targets."""

    def __init__(self, folder: Path) -> None:
        self.lake = str(folder / "lake")
        self.into = folder / "targets"

    def send(self, *events: Row) -> None:
        send(self.lake, events)

    def sync(self, *, into: Path | None = None, name: str = "s", adopt: bool = False) -> SyncRun:
        """All there is, to the end."""
        run = sync(self.lake, TOPIC, SyncOptions(into=into or self.into, name=name, adopt=adopt))
        assert run.await_termination()
        return run

    def write(self, table: str, data: pa.Table) -> int:
        """A Delta table that no sync has written. Returns its version."""
        write_deltalake(str(self.into / table), data)
        return self.version(table)

    def version(self, table: str) -> int:
        return DeltaTable(str(self.into / table)).version()

    def make_topic_again(self) -> None:
        with penstock.connect(self.lake) as lake:
            lake.delete_topic(TOPIC)
            lake.create_topic(TOPIC, queues=2, message_type="FIFO")

    def expire(self) -> None:
        """Publish all that was sent, and take it out of the table, as retention does."""

        async def work() -> None:
            async with LogLake(open_store(self.lake)) as lake:
                topic = await lake.topic(TOPIC)
                await Publisher(topic.store, topic.paths, topic.record, topic.runtime).publish_once()
                delta = DeltaLog(topic.store, topic.paths, topic.record.table, topic.runtime)
                assert await empty_table(topic.store, delta, topic.runtime) > 0

        asyncio.run(work())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def bill(number: int, **more: object) -> Row:
    return event("c", "bills", {"id": number}, {"id": number, **more})


def why(run: SyncRun, table: str = "public.bills") -> str:
    """Why the one table that stands still does."""
    assert set(run.stopped) == {table}
    (reason,) = {stop.reason for stop in run.stopped[table]}
    return reason


def test_a_table_that_is_taken_over_must_have_the_key(place: Place) -> None:
    version = place.write("bills", pa.table({"number": [1], "total": [5]}))
    place.send(bill(2, total=7), event("c", "users", {"id": 1}, {"id": 1}))
    reason = why(place.sync(adopt=True))
    assert "lacks columns of the key" in reason
    assert "expected: id; observed: columns number, total" in reason
    assert place.version("bills") == version
    assert rows(place.into / "users") == [{"id": 1}]


def test_a_column_that_a_sync_cannot_write_stops_the_table_once_an_event_has_it(place: Place) -> None:
    mine = pa.table({"id": [1], "tags": pa.array([{"a": 1}], pa.struct({"a": pa.int64()}))})
    place.write("bills", mine)
    place.send(bill(2))
    assert place.sync(adopt=True).stopped == {}
    before = [{"id": 1, "tags": {"a": 1}}, {"id": 2, "tags": None}]
    assert rows(place.into / "bills") == before
    place.send(bill(3, tags={"a": 2}), event("c", "users", {"id": 1}, {"id": 1}))
    reason = why(place.sync())
    assert "columns of types that a sync cannot write" in reason
    assert "observed: tags" in reason
    assert rows(place.into / "bills") == before
    assert rows(place.into / "users") == [{"id": 1}]


def test_a_sync_of_a_name_writes_to_one_folder(place: Place, tmp_path: Path) -> None:
    place.send(bill(1))
    place.sync()
    place.send(bill(2))
    elsewhere = tmp_path / "elsewhere"
    for _ in range(2):  # and lets go of its lease
        with pytest.raises(InvalidArgument, match="a sync of this name writes elsewhere") as raised:
            place.sync(into=elsewhere)
        assert (raised.value.expected, raised.value.observed) == (str(place.into), str(elsewhere))
    assert not elsewhere.exists()
    place.sync()
    assert rows(place.into / "bills") == [{"id": 1}, {"id": 2}]
    place.sync(into=elsewhere, name="another")
    assert rows(elsewhere / "bills") == [{"id": 1}, {"id": 2}]


def test_spark_is_not_told_of_a_store_by_the_folder_s_url(place: Place) -> None:
    """Its paths know no options."""
    with pytest.raises(InvalidArgument, match=r"expected: s3://tables/shop; .*session\(s3=S3\(endpoint=…"):
        sync(place.lake, TOPIC, SyncOptions(into="s3://tables/shop?endpoint=http://127.0.0.1:1"), spark=cast("Any", object()))


def test_a_table_of_another_sync_is_not_written_to_until_it_is_adopted(place: Place) -> None:
    place.send(bill(1))
    place.sync(name="first")
    place.send(bill(2))
    version = place.version("bills")
    assert f"written by sync first of topic {TOPIC}" in why(place.sync(name="second"))
    assert place.version("bills") == version
    assert place.sync(name="second", adopt=True).stopped == {}
    assert rows(place.into / "bills") == [{"id": 1}, {"id": 2}]
    assert f"written by sync second of topic {TOPIC}" in why(place.sync(name="first"))


def test_a_table_of_an_earlier_topic_of_the_name_is_not_written_to(place: Place) -> None:
    place.send(bill(1), bill(2))
    place.sync()
    place.make_topic_again()
    place.send(bill(3))
    version = place.version("bills")
    assert "written from an earlier topic of that name" in why(place.sync())
    assert place.version("bills") == version


def test_a_topic_that_is_made_again_under_a_sync_ends_it(place: Place) -> None:
    def listen(batch: BatchReport) -> None:
        place.make_topic_again()
        place.send(bill(2))

    place.send(bill(1))
    run = sync(place.lake, TOPIC, SyncOptions(into=place.into, name="s", trigger=timedelta(seconds=0.1)), listener=listen)
    with pytest.raises(InvalidArgument, match="the topic was deleted and created again") as raised:
        run.await_termination(timedelta(minutes=2))
    assert raised.value.object == TOPIC
    assert rows(place.into / "bills") == [{"id": 1}]


def test_a_sync_does_not_pass_over_events_that_retention_took(place: Place) -> None:
    place.send(*map(bill, range(4)))
    place.sync()
    place.send(*map(bill, range(4, 8)))
    place.expire()
    place.send(*map(bill, range(8, 12)))
    version = place.version("bills")
    for _ in range(2):  # and lets go of its lease
        with pytest.raises(OffsetOutOfRange, match="removed by retention before this sync applied them") as raised:
            place.sync()
        assert raised.value.object is not None
        assert raised.value.object.startswith(f"{TOPIC}, queue ")
    assert place.version("bills") == version
    assert rows(place.into / "bills") == [{"id": number} for number in range(4)]
    # As the error says: under a new name, into a new folder, it is told of what is kept.
    anew = place.into / "anew"
    place.sync(into=anew, name="anew")
    assert rows(anew / "bills") == [{"id": number} for number in sorted(range(8, 12), key=lambda n: repr({"id": n}))]
