"""Messages that were sent before: they keep their ids, and a name goes on where its opener knows it to be."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from penstock.log import LogLake, MessageView, ProducerOptions, Runtime, SequenceError, TopicLimits, TopicSettings
from penstock.log.limits import HANDED_BYTES_MAX, NAMED_ROW_MS
from penstock.log.message.message import COPY_SCHEMA
from penstock.log.stores import MemoryStore
from tests.log.topics import START_MS, HandClock

AT_ONCE = ProducerOptions(linger=timedelta(0))
BORN = datetime(2020, 2, 29, 12, 0, 0, 123456, UTC)


def copies(count: int, *, first: int = 0, **columns: Any) -> pa.Table:
    """So many of them, with sequences from ``first`` on."""
    rows = [
        {
            "queue": None,
            "message_group": f"g{n % 3}",
            "tag": None if n % 2 else "paid",
            "keys": [f"k{n}"],
            "properties": [("n", str(n))],
            "body": b"body %d" % n,
            "sequence": n,
            "message_id": f"{n:032x}",
            "born_timestamp": BORN + timedelta(seconds=n),
            **columns,
        }
        for n in range(first, first + count)
    ]
    return pa.Table.from_pylist(rows, COPY_SCHEMA)


def play(script: Callable[[LogLake], Awaitable[None]], **settings: Any) -> None:
    async def main() -> None:
        async with LogLake(MemoryStore()) as lake:
            await lake.create_topic("t", TopicSettings(**{"queues": 4, **settings}))
            await script(lake)

    asyncio.run(main())


async def read(lake: LogLake) -> dict[str, MessageView]:
    """All that the topic holds, by message id."""
    reader = await lake.reader("t")
    found = [message async for message in reader.messages()]
    assert len({one.message_id for one in found}) == len(found)
    return {one.message_id: one for one in found}


def test_a_copy_keeps_its_id_and_birth_and_is_routed_by_its_group() -> None:
    async def script(lake: LogLake) -> None:
        producer = await lake.producer("t", name="copier", options=AT_ONCE)
        result = await producer.send_copies(copies(7))
        assert (result.rows, result.duplicates) == (7, 0)
        found = await read(lake)
        assert sorted(found) == [f"{n:032x}" for n in range(7)]
        for n, one in enumerate(found[f"{n:032x}"] for n in range(7)):
            assert (one.body, one.message_group, one.tag) == (b"body %d" % n, f"g{n % 3}", None if n % 2 else "paid")
            assert (one.keys, one.properties, one.born_timestamp) == ((f"k{n}",), {"n": str(n)}, BORN + timedelta(seconds=n))
            assert one.store_timestamp > one.born_timestamp
            assert one.producer == "copier"
        assert len({one.queue for one in found.values() if one.message_group == "g1"}) == 1

    play(script)


def test_copies_have_sequences_as_other_messages() -> None:
    async def script(lake: LogLake) -> None:
        producer = await lake.producer("t", name="copier", options=AT_ONCE)
        await producer.send_copies(copies(4))
        with pytest.raises(SequenceError):
            await producer.send_copies(copies(2, first=3))
        again = await lake.producer("t", name="copier", options=AT_ONCE)
        assert again.last_sequence == 3
        result = await again.send_copies(copies(6))
        assert (result.rows, result.duplicates) == (2, 4)
        assert len(await read(lake)) == 6

    play(script)


def test_what_another_topic_took_is_taken_whatever_this_ones_limits_and_type() -> None:
    async def script(lake: LogLake) -> None:
        producer = await lake.producer("t", name="copier", options=AT_ONCE)
        await producer.send_copies(copies(2, body=b"x" * 100, properties=[("a" * 50, "b" * 50), ("c", "")]))
        await producer.send_copies(copies(1, first=2, message_group=None))
        assert [len(one.body) for one in (await read(lake)).values()] == [100, 100, len(b"body 2")]

    play(
        script,
        message_type="FIFO",
        limits=TopicLimits(max_body_bytes=10, max_properties=1, max_properties_bytes=10, max_message_group_bytes=1),
        queues=1,
    )


def test_copies_too_large_for_an_entry_are_staged() -> None:
    async def script(lake: LogLake) -> None:
        producer = await lake.producer("t", name="copier", options=AT_ONCE)
        await producer.send_copies(copies(3, body=random.Random(1).randbytes(HANDED_BYTES_MAX // 2)))
        found = await read(lake)
        assert sorted(found) == [f"{n:032x}" for n in range(3)]
        assert {one.born_timestamp for one in found.values()} == {BORN + timedelta(seconds=n) for n in range(3)}

    play(script)


def test_a_queue_that_is_named_is_kept() -> None:
    async def script(lake: LogLake) -> None:
        producer = await lake.producer("t", name="copier", options=AT_ONCE)
        await producer.send_copies(copies(5, queue=2))
        assert {one.queue for one in (await read(lake)).values()} == {2}

    play(script)


@pytest.mark.parametrize(("days", "expected"), [(29, 7), (31, 40)])
async def test_only_a_name_that_left_the_state_goes_on_where_its_opener_says(days: int, expected: int) -> None:
    """Also the name's next opener, who may know of less, finds what the first one said."""
    clock = HandClock()
    runtime = Runtime(clock=clock, random=random.Random(1), threads=False)
    async with LogLake(MemoryStore(clock=clock), runtime=runtime) as lake:
        await lake.create_topic("t", TopicSettings(queues=1))
        producer = await lake.producer("t", name="copier", options=AT_ONCE)
        await producer.send_copies(copies(8))
        other = await lake.producer("t", options=AT_ONCE)
        for _ in range(days):  # the store time moves by a day at most with every entry
            clock.advance(hours=24)
            await other.send_batch(pa.table({"body": [b"a day"]}))
        opened = await lake.producer("t", name="copier", options=AT_ONCE, known_sequence=40)
        assert opened.last_sequence == expected
        assert (await lake.producer("t", name="copier", options=AT_ONCE, known_sequence=5)).last_sequence == expected
        assert clock.now_ms - START_MS >= days * 86_400_000
        assert (days * 86_400_000 > NAMED_ROW_MS) == (expected == 40)


def test_an_opening_that_knows_nothing_begins_at_nothing() -> None:
    async def script(lake: LogLake) -> None:
        assert (await lake.producer("t", name="a", options=AT_ONCE)).last_sequence == -1
        assert (await lake.producer("t", name="b", options=AT_ONCE, known_sequence=7)).last_sequence == 7

    play(script)
