"""Reading by the public API: every start and end, following, filters, columns, table and log without a seam, lookups."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.log import MESSAGE_SCHEMA, Runtime
from penstock.log.paths import TopicPaths
from penstock.log.stores import MemoryStore
from penstock.log.table.publisher import Publisher
from penstock.log.topic.records import read_record
from tests.lakes import TIMEOUT_S, bodies
from tests.log.topics import HandClock
from tests.waiting import wait_until

Message = penstock.Message
QUEUES = 3
MINUTE = timedelta(minutes=1)


def publish(store: MemoryStore, runtime: Runtime, topic: str = "orders") -> None:
    """Move all the log has into the table."""

    async def run() -> None:
        paths = TopicPaths.of(topic)
        found = await read_record(store, paths)
        assert found is not None
        await Publisher(store, paths, found[0], runtime).publish_once()

    asyncio.run(run())


class Filled:
    """A topic with messages 0 to 29, three a minute in queue ``n % 3``; what ``where`` says is published."""

    def __init__(self, where: str) -> None:
        self.clock = HandClock()
        self.runtime = Runtime(clock=self.clock)
        self.store = MemoryStore(clock=self.clock)
        self.lake = penstock.connect(store=self.store, runtime=self.runtime)
        self.lake.create_topic("orders", queues=QUEUES)
        self.producer = self.lake.producer("orders", linger=timedelta(0))
        self.start = datetime.fromtimestamp(self.clock.wall_ms() / 1000, UTC)
        self.ids: list[str] = []
        for n in range(30):
            if n % 3 == 0:
                self.clock.advance(seconds=60)
            if n == 15 and where == "both":
                publish(self.store, self.runtime)
            message = Message(b"%d" % n, tag="ab"[n % 2] if n % 5 else None, keys=[f"k{n % 7}"], properties={"n": str(n)})
            self.ids.append(self.producer.send(message, queue=n % 3).result(timeout=TIMEOUT_S).message_id)
        if where == "table":
            publish(self.store, self.runtime)
        self.reader = self.lake.reader("orders")

    def numbers(self, **where: Any) -> list[int]:
        return [int(one.body) for one in self.reader.messages(**where)]


@pytest.fixture(params=["log", "table", "both"])
def filled(request: pytest.FixtureRequest) -> Iterator[Filled]:
    made = Filled(request.param)
    with made.lake:
        yield made


def test_everything_is_read_once_and_each_queue_in_order(filled: Filled) -> None:
    found = list(filled.reader.messages())
    assert sorted(int(one.body) for one in found) == list(range(30))
    for queue in range(QUEUES):
        mine = [one for one in found if one.queue == queue]
        assert [one.offset for one in mine] == list(range(10))
        assert [int(one.body) for one in mine] == list(range(queue, 30, QUEUES))
        assert [one.message_id for one in mine] == filled.ids[queue::QUEUES]
        assert [one.properties for one in mine] == [{"n": str(n)} for n in range(queue, 30, QUEUES)]
    assert filled.reader.offsets() == dict.fromkeys(range(QUEUES), (0, 10))


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({}, range(1, 30, 3)),
        ({"start": 0}, range(1, 30, 3)),
        ({"start": 4}, range(13, 30, 3)),
        ({"start": 9}, [28]),
        ({"start": 10}, []),
        ({"start": "latest"}, []),
        ({"start": 4, "end": 6}, [13, 16]),
        ({"start": 4, "end": 4}, []),
        ({"start": 6, "end": 4}, []),
        ({"end": 0}, []),
        ({"end": "earliest"}, []),
        ({"end": 1000}, range(1, 30, 3)),
        ({"start": "earliest", "end": "latest"}, range(1, 30, 3)),
    ],
)
def test_one_queue_from_anywhere_to_anywhere(filled: Filled, where: dict[str, Any], expected: Any) -> None:
    assert filled.numbers(queue=1, **where) == list(expected)


def test_times_mean_the_first_message_stored_at_or_after_them(filled: Filled) -> None:
    """Minute m holds messages 3m-3 to 3m-1."""
    start = filled.start
    assert sorted(filled.numbers(start=start)) == list(range(30))
    assert sorted(filled.numbers(start=start + 4 * MINUTE)) == list(range(9, 30))
    assert sorted(filled.numbers(start=start + 4 * MINUTE + timedelta(seconds=1))) == list(range(12, 30))
    assert sorted(filled.numbers(start=start + 4 * MINUTE, end=start + 7 * MINUTE)) == list(range(9, 18)), "end is exclusive"
    assert filled.numbers(start=start + 100 * MINUTE) == []
    assert filled.numbers(queue=2, start=start + 10 * MINUTE) == [29]
    with pytest.raises(penstock.InvalidArgument, match=r"must have a zone.*datetime.now\(UTC\)"):
        filled.numbers(start=datetime(2026, 1, 1))  # noqa: DTZ001 - that is the point


def test_a_position_is_told_in_offsets_before_anything_is_read(filled: Filled) -> None:
    reader = filled.lake.reader("orders")
    assert reader.resolve("earliest") == {0: 0, 1: 0, 2: 0}
    assert reader.resolve("latest") == {0: 10, 1: 10, 2: 10}
    assert reader.resolve(filled.start + 4 * MINUTE) == {0: 3, 1: 3, 2: 3}
    assert reader.resolve(filled.start + 100 * MINUTE, queues=[2]) == {2: 10}
    assert reader.resolve(7, queues=[1, 0]) == {1: 7, 0: 7}
    with pytest.raises(penstock.OffsetOutOfRange, match="the next one to be written is 10"):
        reader.resolve(11)
    with pytest.raises(penstock.InvalidArgument, match=r"no such queue.*0 to 2.*3"):
        reader.resolve("latest", queues=[0, 3])
    with pytest.raises(penstock.InvalidArgument, match=r"a position is an offset, a datetime.*yesterday"):
        reader.resolve("yesterday")  # type: ignore[arg-type]


async def test_one_message_of_each_queue_tells_when_it_was_stored(filled: Filled) -> None:
    async with penstock.aio.connect(store=filled.store, runtime=filled.runtime) as lake:
        reader = await lake.reader("orders")
        found = await reader.stored_at({0: 0, 1: 4, 2: 9})
        assert found == {0: filled.start + MINUTE, 1: filled.start + 5 * MINUTE, 2: filled.start + 10 * MINUTE}
        assert await reader.stored_at({}) == {}
        with pytest.raises(penstock.InvalidArgument, match="no such queue"):
            await reader.stored_at({3: 0})


def test_tags_and_columns_choose(filled: Filled) -> None:
    assert sorted(filled.numbers(tags="a")) == [n for n in range(30) if n % 5 and n % 2 == 0]
    assert sorted(filled.numbers(tags="a || b")) == [n for n in range(30) if n % 5]
    assert filled.numbers(tags="c") == []
    assert len(filled.numbers(tags="*")) == 30
    assert filled.numbers(where="n >= 25 AND TAGS = 'a'", queue=2) == [26]
    with pytest.raises(penstock.InvalidArgument, match="a condition is a text"):
        filled.numbers(where=5)
    for batch in filled.reader.read(columns=["body", "offset"], tags="b"):
        assert batch.schema.names == ["body", "offset"]
    assert filled.reader.to_arrow(columns=["tag"]).schema.names == ["tag"]
    assert filled.reader.to_arrow().schema == MESSAGE_SCHEMA
    with pytest.raises(penstock.InvalidArgument, match=r"there are no columns bdy.*message_id"):
        list(filled.reader.read(columns=["bdy"]))


def test_tables_come_by_queue_and_offset_as_arrow_pandas_and_polars(filled: Filled) -> None:
    table = filled.reader.to_arrow(start=2, end=5, tags="a || b")
    expected = [(q, o) for q in range(QUEUES) for o in range(2, 5) if (3 * o + q) % 5]
    assert list(zip(table["queue"].to_pylist(), table["offset"].to_pylist(), strict=True)) == expected
    frame = filled.reader.to_pandas(start=2, end=5, tags="a || b", columns=["queue", "offset"])
    assert list(frame.itertuples(index=False, name=None)) == expected
    polars = filled.reader.to_polars(start=2, end=5, tags="a || b", columns=["queue", "offset"])
    assert polars.rows() == expected
    assert filled.reader.to_arrow(start="latest").num_rows == 0


def test_lookups_find_by_id_key_and_group(filled: Filled) -> None:
    (found,) = filled.reader.lookup(message_id=filled.ids[17])
    assert (found.queue, found.offset, found.body) == (2, 5, b"17")
    by_key = filled.reader.lookup(key="k3")
    assert sorted(int(one.body) for one in by_key) == [3, 10, 17, 24]
    assert [(one.queue, one.offset) for one in by_key] == sorted((one.queue, one.offset) for one in by_key)
    assert filled.reader.lookup(message_id="0" * 32) == []
    assert filled.reader.lookup(message_group="none") == []


def test_a_follower_gets_what_was_and_what_comes_and_a_publisher_in_between_changes_nothing(filled: Filled) -> None:
    iterator = filled.reader.messages(start=8, follow=True)
    assert sorted(int(next(iterator).body) for _ in range(6)) == list(range(24, 30))
    filled.producer.send(Message(b"30"), queue=0).result(timeout=TIMEOUT_S)
    assert next(iterator).body == b"30"
    publish(filled.store, filled.runtime)
    filled.producer.send(Message(b"31"), queue=1).result(timeout=TIMEOUT_S)
    assert next(iterator).body == b"31"
    assert [int(one.body) for one in filled.reader.messages(queue=1, start=9)] == [28, 31]


@pytest.mark.parametrize("way", ["reader", "lake", "topic"])
def test_a_follower_in_another_thread_ends_with_what_it_follows(way: str) -> None:
    lake = penstock.connect("memory://")
    lake.create_topic("orders", queues=1)
    reader = lake.reader("orders")
    got: list[bytes] = []
    end: list[BaseException | None] = []

    def follow() -> None:
        try:
            got.extend(message.body for message in reader.messages(follow=True))
            end.append(None)
        except penstock.PenstockError as error:
            end.append(error)

    thread = threading.Thread(target=follow)
    thread.start()
    with lake.producer("orders") as producer:
        producer.send(Message(b"x"))
    wait_until(lambda: got, "the follower reads")
    if way == "topic":
        lake.delete_topic("orders")
    elif way == "lake":
        lake.close()
    else:
        reader.close()
    thread.join(TIMEOUT_S)
    assert not thread.is_alive()
    assert [type(one) for one in end] == [penstock.TopicDeleted if way == "topic" else type(None)]
    lake.close()


def test_an_iterator_left_half_way_holds_nothing_up() -> None:
    lake = penstock.connect("memory://")
    lake.create_topic("orders", queues=1)
    with lake.producer("orders") as producer:
        producer.send_batch([Message(b"%d" % n) for n in range(10)])
    left, closed = lake.reader("orders").messages(), lake.reader("orders").messages(follow=True)
    assert (next(left).body, next(closed).body) == (b"0", b"0")
    closed.close()  # type: ignore[attr-defined]
    lake.close()
    assert [next(left).body for _ in range(9)] == [b"%d" % n for n in range(1, 10)], "this batch was there already"
    with pytest.raises(penstock.ClosedError, match="the lake is closed"):
        next(left)
    with pytest.raises(penstock.ClosedError, match="the lake is closed"):
        lake.reader("orders")


def test_what_a_follower_cannot_do() -> None:
    with penstock.connect("memory://") as lake:
        lake.create_topic("orders")
        with pytest.raises(penstock.InvalidArgument, match=r"has no end.*end=5"):
            next(lake.reader("orders").read(follow=True, end=5))


def test_a_reader_of_a_topic_that_was_made_anew_says_so() -> None:
    store = MemoryStore()
    with penstock.connect(store=store) as here, penstock.connect(store=store) as there:
        here.create_topic("orders", queues=8)
        reader, sender = here.reader("orders"), here.producer("orders")
        there.delete_topic("orders")
        there.create_topic("orders", queues=2)
        with there.producer("orders") as producer:
            producer.send(Message(b"new")).result(timeout=TIMEOUT_S)
        for use in (reader.offsets, lambda: list(reader.messages()), lambda: reader.lookup(key="k")):
            with pytest.raises(penstock.TopicDeleted, match=r"the topic was deleted.*open it anew"):
                use()
        with pytest.raises(penstock.TopicDeleted):
            sender.send(Message(b"old")).result(timeout=TIMEOUT_S)
        assert bodies(here) == [b"new"], "opened anew it is the new one"


@pytest.mark.parametrize("where", ["log", "table"])
def test_batches_are_of_the_schema_and_readable_beyond_the_lake(where: str) -> None:
    made = Filled(where)
    with made.lake:
        batches = list(made.reader.read())
    assert all(batch.schema == MESSAGE_SCHEMA for batch in batches)
    assert pa.Table.from_batches(batches).num_rows == 30
