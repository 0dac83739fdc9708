"""What `penstock maintain` shows of the delayed messages that it lets go, and of transactions."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from penstock import Message, TransactionResolution
from penstock.aio import Lake, connect
from penstock.consumers.metrics import MemoryMetrics
from penstock.consumers.statistics import LAG_MESSAGES, OPEN_TRANSACTIONS, TIMERS_FIRED, TIMING_MESSAGES
from penstock.infra.cli.lake.maintenance import maintain_forever
from penstock.log import MessageType, TopicSettings
from penstock.log.stores.memory import MemoryStore
from tests.waiting import wait_until


async def test_who_maintains_shows_what_waits_what_went_and_what_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.aio.maintenance.is_young", lambda *_: False)  # or the sender lets the message go
    metrics = MemoryMetrics()

    def all_are_shown() -> bool:
        timers = [metrics.value(one, topic="reminders") for one in (TIMERS_FIRED, TIMING_MESSAGES)]
        lag = metrics.value(LAG_MESSAGES, topic="paid", consumer_group="audit", queue="0")
        return [*timers, metrics.value(OPEN_TRANSACTIONS, producer_group="pay"), lag] == [1, 1, 1, 0]

    async def sent(lake: Lake) -> None:
        for topic, kind in (("reminders", MessageType.DELAY), ("paid", MessageType.TRANSACTION)):
            await lake.create_topic(topic, TopicSettings(queues=1, message_type=kind))
        producer = await lake.producer("reminders")
        for delay in (timedelta(milliseconds=1), timedelta(hours=1)):
            producer.send(Message(b"x", delay=delay))
        await producer.close()
        await lake.create_group("audit")
        await lake.reset_offsets("audit", "paid", "earliest")
        transaction = lake.transaction(producer_group="pay", checker=lambda _: TransactionResolution.UNKNOWN)
        await transaction.send("paid", Message(b"x"))

    store = MemoryStore()
    async with connect(store=store, maintenance=False) as sender:
        await sent(sender)
    stop = asyncio.Event()
    async with connect(store=store, maintenance=False) as lake:
        second = timedelta(seconds=1)
        maintained = maintain_forever(
            lake, (), lambda *_: None, stop, publish_interval=second, metrics=metrics, look_interval=second
        )
        playing = asyncio.ensure_future(maintained)
        await asyncio.to_thread(wait_until, all_are_shown, "one went, one waits, and one is open")
        stop.set()
        await playing
