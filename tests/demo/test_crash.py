"""The moment at which the demo kills a producer: durable in the log, unheard of by its producer."""

from __future__ import annotations

import asyncio

import pytest

from examples.demo.processes.crash import Deafened, Unheard
from examples.demo.processes.reports import Done, Failed, Ready, Report, Sent, Stuck, decode_report, encode_report
from penstock import Message, aio
from penstock.log import LogLake, MessageType, TopicSettings
from penstock.log.paths import TopicPaths
from penstock.log.stores import MemoryStore, StoreStatistics, VerbStatistics
from tests.lakes import TIMEOUT_S

PATHS = TopicPaths.of("shop")


async def send(lake: LogLake, name: str, sequences: range) -> None:
    producer = await lake.producer("shop", name=name)
    for sequence in sequences:
        producer.send(Message(b"paid", message_group="orders-1"), sequence=sequence)
    await producer.flush()


async def new_topic(store: MemoryStore) -> None:
    async with aio.connect(store=store) as lake:
        await lake.create_topic("shop", TopicSettings(message_type=MessageType.FIFO))


async def test_a_producer_never_hears_of_the_batch_that_reaches_the_sequence_and_finds_it_when_it_comes_back() -> None:
    store = MemoryStore()
    await new_topic(store)
    heard: asyncio.Queue[Unheard] = asyncio.Queue()
    deaf = aio.connect(store=Deafened(store, PATHS, producer="till", sequence=7, heard=heard.put_nowait))
    await send(deaf, "till", range(5))
    sending = asyncio.ensure_future(send(deaf, "till", range(5, 10)))
    unheard = await asyncio.wait_for(heard.get(), TIMEOUT_S)
    assert (unheard.own_entry, unheard.events, unheard.previous, unheard.last) == (True, 5, 4, 9)
    assert not sending.done()
    await store.get(PATHS.entry(unheard.entry))
    sending.cancel()
    async with aio.connect(store=store) as back:
        producer = await back.producer("shop", name="till")
        assert producer.last_sequence == 9


async def test_a_batch_that_another_appended_is_not_heard_of_either() -> None:
    store = MemoryStore()
    await new_topic(store)
    async with aio.connect(store=store) as lake:
        await send(lake, "till", range(3))
        await send(lake, "other", range(3))
        entries = (await lake.topic("shop")).tail.state.entry
    heard: asyncio.Future[Unheard] = asyncio.get_running_loop().create_future()
    deaf = Deafened(store, PATHS, producer="till", sequence=2, heard=heard.set_result)
    reads = {entry: asyncio.ensure_future(deaf.get(PATHS.entry(entry))) for entry in range(1, entries + 1)}
    unheard = await asyncio.wait_for(heard, TIMEOUT_S)
    assert (unheard.own_entry, unheard.events, unheard.previous, unheard.last) == (False, 3, -1, 2)
    held = reads.pop(unheard.entry)
    await asyncio.wait_for(asyncio.gather(*reads.values()), TIMEOUT_S)
    assert not held.done()


@pytest.mark.parametrize(
    "report",
    [
        Ready(3),
        Sent(2),
        Stuck(Unheard(17, True, 5, 4, 9), 5, 5, StoreStatistics(put=VerbStatistics(requests=1, failed=0, bytes=9))),
        Done(10, StoreStatistics()),
        Failed("no “luck”\nat all"),
    ],
)
def test_reports_are_read_as_they_were_told(report: Report) -> None:
    line = encode_report(report)
    assert "\n" not in line
    assert decode_report(line.encode()) == report
