"""The timer log of a topic of type DELAY: a second topic beside it, in which messages wait for their delivery time.

It has one queue, so its offsets are the order of sending. Its record names its topic's incarnation, so no message comes out in a later topic of the
name.
"""

from __future__ import annotations

from datetime import timedelta

from ..errors import CallError, InvalidArgument, TopicNotFound
from ..message.message_type import MessageType
from ..paths import DLQ_PREFIX, TopicPaths, check_topic_name, is_timer_log, timer_log_name, topic_of
from ..runtime.runtime import Runtime
from ..stores.protocol import ObjectStore
from .records import not_found, read_record
from .settings import TopicRecord, TopicSettings
from .topics import create_topic, delete_topic

TIMER_LOG_SETTINGS = TopicSettings(queues=1, retention=timedelta(days=3))
"""The topic's settings limit what is sent. Messages that wait longer than the retention are in runs by then (docs/0013)."""


def check_own(topic: str, *, operation: str) -> None:
    """Raise `InvalidArgument` for a timer log, which Penstock itself writes."""
    if isinstance(topic, str) and is_timer_log(topic):
        raise InvalidArgument(
            "this is a topic's timer log, which comes, is written and goes with its topic",
            operation=operation,
            object=topic,
            expected="a topic",
            hint=f"name the topic: {topic_of(topic)}",
        )


def check_dead_letter_topic(name: str, settings: TopicSettings) -> None:
    """Raise `InvalidArgument` for settings other than a dead letter's."""
    check_topic_name(name)
    if name.startswith(DLQ_PREFIX) and (settings.message_type, settings.queues) != (MessageType.NORMAL, 1):
        raise InvalidArgument(
            "a dead-letter queue takes messages of any group, in one queue",
            operation="create_topic",
            object=name,
            expected="message_type NORMAL and queues 1",
            observed=f"message_type {settings.message_type} and queues {settings.queues}",
        )


def check_delay_topic_name(name: str) -> None:
    """Raise unless a topic of type DELAY, and so its timer log, can have this name."""
    check_topic_name(name)
    if name.startswith("%"):
        raise InvalidArgument("a dead-letter topic cannot be of type DELAY", object=name)


def delays(record: TopicRecord) -> bool:
    return record.settings.message_type is MessageType.DELAY


async def make_timer_log(store: ObjectStore, runtime: Runtime, topic: str) -> TopicRecord:
    """The record of the timer log of the topic's present life, made if missing; an earlier life's is deleted. Raises `TopicNotFound` without such a
    topic of type DELAY.
    """
    name = timer_log_name(topic)
    while True:
        stands = await read_record(store, TopicPaths.of(name))
        # This record is read after the other one. So a timer log's life that is not the topic's is one that has ended, not a newer one
        # that this process does not know of yet.
        served = await read_record(store, TopicPaths.of(topic))
        if served is None or served[0].deleted or not delays(served[0]):
            raise not_found(topic)
        if stands is not None and not stands[0].deleted:
            if stands[0].of == served[0].incarnation:
                return stands[0]
            await end_timer_log(store, runtime, stands[0], topic)
        await create_topic(store, runtime, name, TIMER_LOG_SETTINGS, of=served[0].incarnation)


async def end_timer_log(store: ObjectStore, runtime: Runtime, record: TopicRecord, topic: str) -> None:
    try:
        await delete_topic(store, runtime, timer_log_name(topic), only=record.incarnation)
    except TopicNotFound:
        return  # somebody else deleted it


async def end_orphan(store: ObjectStore, runtime: Runtime, topic: str) -> bool:
    """Delete the timer log of a topic that is gone or was remade."""
    try:
        check_delay_topic_name(topic)
    except CallError:
        return False  # nothing of that name ever had one
    stands = await read_record(store, TopicPaths.of(timer_log_name(topic)))
    if stands is None or stands[0].deleted:
        return False
    served = await read_record(store, TopicPaths.of(topic))
    if served is not None and not served[0].deleted and served[0].incarnation == stands[0].of:
        return False
    await end_timer_log(store, runtime, stands[0], topic)
    return True
