"""The two ends of a lake: closing it, also while somebody else does or still opens something, and an event loop that cannot start."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest

import penstock
from penstock.log.lake import LogLake
from penstock.log.stores import MemoryStore
from penstock.log.topic.settings import TopicSettings
from tests.lakes import TIMEOUT_S, Gate, is_entry

Message = penstock.Message


def test_whoever_closes_a_lake_that_is_closing_waits_for_the_same_end() -> None:
    """A second close must not cut off the first, which still writes what was sent."""
    gate = Gate(MemoryStore(), is_entry)
    lake = penstock.connect(store=gate)
    lake.create_topic("orders", queues=1)
    producer = lake.producer("orders", linger=timedelta(0))
    gate.closed = True
    receipt = producer.send(Message(b"x"))
    ends: list[BaseException | None] = []

    def close() -> None:
        try:
            lake.close()
            ends.append(None)
        except penstock.PenstockError as error:
            ends.append(error)

    closers = [threading.Thread(target=close) for _ in range(3)]
    closers[0].start()
    assert gate.held.wait(TIMEOUT_S)
    for closer in closers[1:]:
        closer.start()
        closer.join(0.3)  # it gets its chance to do harm
    assert not ends
    gate.open()
    for closer in closers:
        closer.join(TIMEOUT_S)
    assert ends == [None, None, None]
    assert receipt.result(timeout=0).offset == 0
    lake.close()


@pytest.mark.parametrize("held", ["topic.json", ".probe"])
@pytest.mark.parametrize("name", [None, "loader"])
async def test_a_lake_that_closes_meanwhile_hands_out_nothing(held: str, name: str | None) -> None:
    """Whether the topic is being opened or the store being checked."""
    gate = Gate(MemoryStore(), lambda call: held in call.key)
    async with LogLake(gate) as first:
        await first.create_topic("orders", TopicSettings(queues=1))
    lake = LogLake(gate)
    gate.closed = True
    producing = asyncio.ensure_future(lake.producer("orders", name=name))
    assert await asyncio.to_thread(gate.held.wait, TIMEOUT_S)
    closing = asyncio.ensure_future(lake.close())
    await asyncio.sleep(0)
    gate.open()
    async with asyncio.timeout(TIMEOUT_S):
        with pytest.raises(penstock.ClosedError, match="the lake is closed"):
            await producing
        await closing


async def test_giving_up_waiting_for_the_end_of_a_lake_does_not_stop_it() -> None:
    gate = Gate(MemoryStore(), is_entry)
    lake = LogLake(gate)
    await lake.create_topic("orders", TopicSettings(queues=1))
    producer = await lake.producer("orders")
    gate.closed = True
    receipt = producer.send(Message(b"x"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await lake.close()
    gate.open()
    async with asyncio.timeout(TIMEOUT_S):
        await lake.close()
    assert (await receipt).offset == 0


def test_a_loop_that_cannot_start_is_told_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = penstock.connect("memory://")

    def refuse() -> None:
        raise OSError(24, "Too many open files")

    def ask() -> None:
        try:
            lake.topics()
        except penstock.RetryError as error:
            ends.append(str(error))

    ends: list[str] = []
    monkeypatch.setattr(asyncio.events, "new_event_loop", refuse)
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(TIMEOUT_S)
    assert "could not be started" in ends[0]
    assert "Too many open files" in ends[0]
    monkeypatch.undo()
    assert lake.topics() == {}
    lake.close()
