"""A topic that is deleted and made again, with other queues, while somebody opens a producer: no message goes by the old queues."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from penstock.log import LogLake, Message, MessageType, Producer, TopicDeleted, TopicSettings, UnknownOutcome
from penstock.log.message.routing import queue_of
from penstock.log.stores import MemoryStore
from penstock.log.topic.topics import Topic

OLD, NEW = (TopicSettings(queues=queues, message_type=MessageType.FIFO) for queues in (16, 2))


async def made_again(store: MemoryStore) -> None:
    """By another process."""
    async with LogLake(store) as admin:
        await admin.delete_topic("orders")
        await admin.create_topic("orders", NEW)


async def opened_meanwhile(store: MemoryStore, lake: LogLake) -> Topic:
    """The topic as it was before it was made again, open for reading only."""
    await lake.create_topic("orders", OLD)
    topic = await lake.topic("orders")
    await made_again(store)
    return topic


def after(work: Callable[..., Awaitable[object]], then: Callable[[], Awaitable[object]]) -> Callable[..., Awaitable[object]]:
    async def both(*args: object, **options: object) -> object:
        found = await work(*args, **options)
        await then()
        return found

    return both


async def sent_well(producer: Producer) -> None:
    for number in range(20):
        group = f"user-{number}"
        receipt = await producer.send(Message(b"x", message_group=group))
        assert receipt.queue == queue_of(group, NEW.queues)


@pytest.mark.parametrize("name", [None, "nightly"])
async def test_the_log_is_read_on_while_the_topic_is_made_fit_for_writing(
    name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    async with LogLake(store) as lake:
        topic = await opened_meanwhile(store, lake)
        monkeypatch.setattr(topic, "allow_writing", after(topic.allow_writing, topic.tail.catch_up))
        await sent_well(await lake.producer("orders", name=name))


async def test_the_log_is_read_on_while_the_name_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    async with LogLake(store) as lake:
        await lake.create_topic("orders", OLD)
        topic = await lake.topic("orders", writable=True)

        async def ended() -> None:
            await made_again(store)
            await topic.tail.catch_up()

        monkeypatch.setattr(topic.appender, "append_opening", after(topic.appender.append_opening, ended))
        producer = await lake.producer("orders", name="nightly")
        with pytest.raises(TopicDeleted):
            await producer.send(Message(b"x", message_group="user-1"))
        await sent_well(await lake.producer("orders", name="nightly"))


async def test_a_name_is_not_opened_in_a_topic_by_the_settings_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """What became of the first try is not known, and the second one finds another topic."""
    store = MemoryStore()
    async with LogLake(store) as lake:
        await lake.create_topic("orders", OLD)
        topic = await lake.topic("orders", writable=True)
        append, tries = topic.appender.append_opening, list[object]()

        async def unknown_at_first(*args: object, **options: object) -> object:
            tries.append(args)
            if len(tries) > 1:
                return await append(*args, **options)  # type: ignore[arg-type]
            await made_again(store)
            await topic.tail.catch_up()
            return UnknownOutcome("no answer")

        monkeypatch.setattr(topic.appender, "append_opening", unknown_at_first)
        with pytest.raises(TopicDeleted):
            await lake.producer("orders", name="nightly")
        await sent_well(await lake.producer("orders", name="nightly"))
