"""A topic that gets more queues while producers send to it and readers read it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from penstock.log import InvalidArgument, LimitExceeded, LogLake, Message, MessageType, ProducerOptions, TopicExists, TopicSettings
from penstock.log.message.routing import queue_of
from penstock.log.stores import MemoryStore
from penstock.log.topic.records import read_record
from penstock.log.topic.topics import Topic, note_queues

FIFO = TopicSettings(queues=2, message_type=MessageType.FIFO)
QUICK = ProducerOptions(linger=timedelta(milliseconds=1))
GROUPS = [f"user-{number}" for number in range(12)]


async def grow(store: MemoryStore, queues: int) -> None:
    """By another process."""
    async with LogLake(store) as admin:
        await admin.alter_topic("orders", queues=queues)


async def sent_in_order(lake: LogLake) -> dict[str, list[tuple[int, int, int]]]:
    """By message group, the (queue, offset, number) of its messages, in the order of their numbers."""
    found: dict[str, list[tuple[int, int, int]]] = {}
    async for message in (await lake.reader("orders")).messages():
        assert message.message_group is not None
        found.setdefault(message.message_group, []).append((message.queue, message.offset, int(message.body)))
    return {group: sorted(places, key=lambda place: place[2]) for group, places in found.items()}


@pytest.mark.parametrize("name", [None, "nightly"])
async def test_producers_route_anew_and_keep_the_order_of_every_message_group(name: str | None) -> None:
    store = MemoryStore()
    async with LogLake(store) as lake:
        await lake.create_topic("orders", FIFO)
        producer = await lake.producer("orders", name=name, options=QUICK)
        receipts = []
        for number in range(600):
            if number in (200, 400):
                await grow(store, 4 if number == 200 else 16)
            sequence = None if name is None else number
            receipts.append(producer.send(Message(b"%d" % number, message_group=GROUPS[number % 12]), sequence=sequence))
            if number % 20 == 19:
                await receipts[-1]
        places = [await receipt for receipt in receipts]
        stored = await sent_in_order(lake)
        growths = (await lake.topic("orders")).tail.state.growths
        assert [len(growth.marks) for growth in growths] == [2, 4]
        for group, of_group in stored.items():
            assert [number for _, _, number in of_group] == list(range(GROUPS.index(group), 600, 12))
            homes = [queue for queue, _, _ in of_group]
            assert sorted(set(homes), key=homes.index) == list(dict.fromkeys(queue_of(group, count) for count in (2, 4, 16)))
            for queue, offset, number in of_group:
                assert (places[number].queue, places[number].offset) == (queue, offset)


async def test_a_batch_on_its_way_is_routed_anew_and_what_named_its_queue_stays() -> None:
    store = MemoryStore()
    async with LogLake(store) as lake:
        await lake.create_topic("orders", FIFO)
        producer = await lake.producer("orders", options=ProducerOptions(linger=timedelta(seconds=30)))
        moved = next(group for group in GROUPS if queue_of(group, 4) == 3)
        receipts = [producer.send(Message(b"1", message_group=moved)), producer.send(Message(b"2", message_group=moved), queue=1)]
        await grow(store, 4)  # this process does not know yet
        await producer.flush()
        assert [(await receipt).queue for receipt in receipts] == [3, 1]


async def test_arrow_data_is_routed_anew_but_for_rows_that_name_their_queue() -> None:
    store = MemoryStore()
    async with LogLake(store) as lake:
        await lake.create_topic("orders", FIFO)
        producer = await lake.producer("orders")
        await grow(store, 4)
        rows = pa.table({"body": [b"x"] * 24, "message_group": GROUPS * 2, "queue": pa.array([None] * 12 + [1] * 12, pa.int32())})
        await producer.send_batch(rows)
        stored = [(one.message_group, one.queue) async for one in (await lake.reader("orders")).messages()]
        assert sorted(stored) == sorted([(group, queue_of(group, 4)) for group in GROUPS] + [(group, 1) for group in GROUPS])


async def test_a_large_batch_is_staged_anew() -> None:
    store = MemoryStore()
    async with LogLake(store) as lake:
        await lake.create_topic("orders", FIFO)
        producer = await lake.producer("orders")
        await grow(store, 4)
        rows = pa.table({"body": [b"x" * 1_000_000] * 12, "message_group": GROUPS})
        await producer.send_batch(rows)
        stored = {one.message_group: one.queue async for one in (await lake.reader("orders")).messages()}
        assert stored == {group: queue_of(group, 4) for group in GROUPS}


async def test_a_name_is_opened_across_a_growth() -> None:
    store = MemoryStore()
    async with LogLake(store) as lake, LogLake(store) as other:
        await lake.create_topic("orders", FIFO)
        await other.topic("orders", writable=True)
        await grow(store, 4)
        producer = await other.producer("orders", name="nightly")
        assert (await producer.send(Message(b"1", message_group="user-1"), sequence=7)).queue == queue_of("user-1", 4)
        assert producer.last_sequence == 7


async def test_a_reader_that_follows_goes_on_with_its_queues() -> None:
    store = MemoryStore()
    async with LogLake(store) as lake:
        await lake.create_topic("orders", FIFO)
        producer = await lake.producer("orders")
        reader = await lake.reader("orders")
        await producer.send(Message(b"1", message_group="a"), queue=0)
        messages = reader.messages(queue=0, follow=True)
        assert (await anext(messages)).body == b"1"
        await grow(store, 4)
        await producer.send(Message(b"2", message_group="a"), queue=0)
        assert (await anext(messages)).body == b"2"
        assert reader.queues == 4
        await messages.aclose()


async def test_two_growths_at_once_end_as_one_after_the_other() -> None:
    store = MemoryStore()
    async with LogLake(store) as lake:
        await lake.create_topic("orders", FIFO)
        outcomes = await asyncio.gather(grow(store, 4), grow(store, 8), grow(store, 4), return_exceptions=True)
        assert outcomes[1] is None
        assert all(isinstance(one, InvalidArgument) or one is None for one in outcomes)
        await lake.topic("orders")
        assert (await lake.topics())["orders"].settings.queues == 8


@pytest.mark.parametrize(
    ("queues", "error", "told"),
    [
        (3, InvalidArgument, "expected: 4 or 6, as it has 2"),
        (1, InvalidArgument, "expected: 4 or 6"),
        (9, InvalidArgument, "expected: 8 or 10"),
        (0, InvalidArgument, "positive"),
        (True, InvalidArgument, "positive"),
        ("4", InvalidArgument, "positive"),
        (5000, LimitExceeded, "at most 4096"),
    ],
)
async def test_a_number_that_a_topic_cannot_grow_to_changes_nothing(queues: Any, error: type[Exception], told: str) -> None:
    store = MemoryStore()
    async with LogLake(store) as lake:
        await lake.create_topic("orders", FIFO)
        before = await store.list("")
        with pytest.raises(error, match=told):
            await lake.alter_topic("orders", queues=queues, retention=timedelta(days=9))
        assert await store.list("") == before
        assert (await lake.topics())["orders"].settings == FIFO


async def test_a_dead_letter_queue_does_not_grow() -> None:
    async with LogLake(MemoryStore()) as lake:
        await lake.create_topic("%DLQ%billing", TopicSettings(queues=1))
        with pytest.raises(InvalidArgument, match="one queue"):
            await lake.alter_topic("%DLQ%billing", queues=2)


async def test_settings_that_were_not_written_are_written_by_the_next_opening(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    async with LogLake(store) as lake:
        await lake.create_topic("orders", FIFO)
        with monkeypatch.context() as patched:
            patched.setattr("penstock.log.lake.note_queues", _died)
            with pytest.raises(ConnectionError):
                await lake.alter_topic("orders", queues=4)
    async with LogLake(store) as lake:
        assert (await lake.topics())["orders"].settings.queues == 2
        assert (await lake.topic("orders", writable=True)).settings.queues == 4
        assert (await lake.topics())["orders"].settings.queues == 4


async def _died(*_: object) -> None:
    raise ConnectionError


async def test_settings_never_state_fewer_queues_again() -> None:
    store = MemoryStore()
    async with LogLake(store) as lake, LogLake(store) as late:
        await lake.create_topic("orders", FIFO)
        await late.alter_topic("orders", queues=4)
        behind = await late.topic("orders")
        known = behind.record
        await lake.alter_topic("orders", queues=8)
        await note_queues(behind, known)
        found = await read_record(store, behind.paths)
        assert found is not None
        assert found[0].settings.queues == 8


async def test_a_program_that_creates_its_topic_as_ever_finds_the_grown_one() -> None:
    async with LogLake(MemoryStore()) as lake:
        await lake.create_topic("orders", FIFO)
        await lake.alter_topic("orders", queues=8)
        for queues in (2, 8):
            await lake.create_topic("orders", TopicSettings(queues=queues, message_type=MessageType.FIFO))
        with pytest.raises(TopicExists):
            await lake.create_topic("orders", TopicSettings(queues=4, message_type=MessageType.FIFO))


async def test_a_topic_made_again_under_the_name_is_not_grown_for_the_former_one() -> None:
    store = MemoryStore()
    async with LogLake(store) as lake, LogLake(store) as other:
        await lake.create_topic("orders", FIFO)
        await lake.alter_topic("orders", queues=4)
        former: Topic = await lake.topic("orders")
        known = former.record
        await other.delete_topic("orders")
        await other.create_topic("orders", FIFO)
        await note_queues(former, known)
        assert (await other.topics())["orders"].settings.queues == 2
        assert (await other.topic("orders")).tail.state.growths == ()
