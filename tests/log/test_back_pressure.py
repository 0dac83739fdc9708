"""A producer whose memory is full, by the public API: it refuses or blocks, and nobody waits for ever."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pyarrow as pa
import pytest

import penstock
from penstock.log import ProducerOptions
from penstock.log.lake import LogLake as AsyncLake
from penstock.log.stores import MemoryStore
from penstock.log.topic.settings import TopicSettings
from tests.lakes import TIMEOUT_S, Gate, bodies, is_entry
from tests.waiting import wait_until

Message = penstock.Message
LONG = timedelta(hours=1)


def stalled() -> tuple[Gate, penstock.Lake]:
    gate = Gate(MemoryStore(), is_entry)
    lake = penstock.connect(store=gate)
    lake.create_topic("orders", message_type="FIFO", queues=4)
    gate.closed = True
    return gate, lake


def fill(producer: penstock.Producer) -> None:
    for _ in range(100):
        producer.send(Message(b"x" * 1000, message_group="g"))


def test_a_full_producer_refuses_when_told_to() -> None:
    gate, lake = stalled()
    with lake, lake.producer("orders", memory_bytes=10_000, on_full="raise", linger=timedelta(0)) as producer:
        with pytest.raises(penstock.BackPressureError, match=r"too much waits.*below 10000 bytes.*\d+ bytes.*memory_bytes"):
            fill(producer)
        assert producer.statistics().bytes_waiting < 12_000
        gate.open()
        producer.flush()
        producer.send(Message(b"again", message_group="g"))


def test_a_full_producer_blocks_no_longer_than_its_time_out() -> None:
    gate, lake = stalled()
    short = timedelta(milliseconds=20)
    with lake, lake.producer("orders", memory_bytes=10_000, linger=timedelta(0), block_timeout=short) as producer:
        with pytest.raises(penstock.BackPressureError, match="too much waits"):
            fill(producer)
        gate.open()


@pytest.mark.parametrize("way", ["room", "close", "lake"])
def test_a_blocked_sender_goes_on_when_there_is_room_and_ends_when_the_producer_does(way: str) -> None:
    gate, lake = stalled()
    producer = lake.producer("orders", memory_bytes=10_000, linger=timedelta(0))
    sent: list[bytes] = []
    ends: list[BaseException | None] = []

    def send() -> None:
        try:
            for n in range(50):
                producer.send(Message(b"%04d" % n * 250, message_group="g"))
                sent.append(b"%04d" % n)
            ends.append(None)
        except penstock.PenstockError as error:
            ends.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    wait_until(lambda: producer.statistics().bytes_waiting >= 10_000, "the producer is full")
    closer = threading.Thread(target={"room": gate.open, "close": producer.close, "lake": lake.close}[way])
    closer.start()
    if way != "room":
        wait_until(lambda: ends, "the sender ends")
        assert isinstance(ends[0], penstock.ClosedError)
    gate.open()
    closer.join(TIMEOUT_S)
    thread.join(TIMEOUT_S)
    if way == "room":
        assert ends == [None]
        assert len(sent) == 50
        producer.close()
    if way != "lake":
        assert [body[:4] for body in bodies(lake)] == sent, "close wrote all that was taken over"
        lake.close()


def test_a_waiter_that_gives_up_disturbs_nobody() -> None:
    gate, lake = stalled()
    with lake:
        producer = lake.producer("orders", linger=timedelta(0))
        mine, yours = (producer.send(Message(body, message_group="g")) for body in (b"1", b"2"))
        with pytest.raises(penstock.StoreUnavailable, match=r"not durable yet.*within 0.01 s.*ask the receipt again"):
            mine.result(timeout=0.01)
        gate.open()
        assert [mine.result(timeout=TIMEOUT_S).offset, yours.result(timeout=TIMEOUT_S).offset] == [0, 1]
        producer.close()


async def test_who_waits_for_room_hears_that_the_producer_was_stopped() -> None:
    gate = Gate(MemoryStore(), is_entry)
    lake = AsyncLake(gate)
    await lake.create_topic("orders", TopicSettings(queues=1))
    producer = await lake.producer("orders", options=ProducerOptions(linger=timedelta(0), memory_bytes=1000))
    gate.closed = True
    producer.send(Message(b"x" * 1000))
    waiting = asyncio.ensure_future(producer.wait_for_room())
    closing = asyncio.ensure_future(producer.close())
    assert await asyncio.to_thread(gate.held.wait, TIMEOUT_S)
    assert not waiting.done()
    closing.cancel()
    async with asyncio.timeout(TIMEOUT_S):
        await waiting
    with pytest.raises(penstock.ClosedError):
        producer.send(Message(b"y"))
    gate.open()
    await lake.close()


def test_a_slice_counts_as_what_it_has_and_not_as_what_it_was_cut_from() -> None:
    large = pa.table({"body": [b"x" * 1000] * 10_000, "message_group": ["g"] * 10_000})
    gate, lake = stalled()
    with lake, lake.producer("orders", linger=LONG, on_full="raise", memory_bytes=100_000) as producer:
        for start in (0, 10):
            producer.send_batch(large.slice(start, 10))
        assert 20_000 < producer.statistics().bytes_waiting < 80_000
        gate.open()
