"""What comes after a silence of days is kept as long as anything else: store times lag then, by design, and retention does not follow them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from penstock import Message, aio
from penstock.infra.cli.lake.maintenance import maintain_once
from penstock.log.message.message_type import MessageType
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores import MemoryStore
from penstock.log.topic.settings import TopicSettings
from penstock.testing import HandClock

RETENTION = timedelta(days=3)


@pytest.mark.parametrize(("topic", "message_type"), [("orders", MessageType.NORMAL), ("reminders", MessageType.DELAY)])
@pytest.mark.parametrize("silence", [timedelta(days=3), timedelta(days=5), timedelta(days=30)])
async def test_retention_counts_from_when_a_message_came_into_its_topic(
    topic: str, message_type: MessageType, silence: timedelta
) -> None:
    is_delayed = message_type is MessageType.DELAY

    async def bodies(lake: aio.Lake) -> list[bytes]:
        await maintain_once(lake, [topic], lambda *_: None)
        reader = await lake.reader(topic)
        return [message.body async for message in reader.messages()]

    clock = HandClock()
    store = MemoryStore(clock=clock)
    async with aio.connect(store=store, runtime=Runtime(clock=clock), maintenance=False) as lake:
        await lake.create_topic(topic, TopicSettings(message_type=message_type, queues=1, retention=RETENTION))
        producer = await lake.producer(topic)
        await producer.send(Message(b"first", delay=timedelta(0) if is_delayed else None))
        assert await bodies(lake) == [b"first"]
        if is_delayed:
            await producer.send(Message(b"second", delay=silence))
        clock.advance(silence)
        if not is_delayed:
            await producer.send(Message(b"second"))
        await producer.close()
        assert b"second" in await bodies(lake)
        clock.advance(RETENTION - timedelta(minutes=1))
        assert b"second" in await bodies(lake)
        clock.advance(RETENTION)
        assert await bodies(lake) == []
