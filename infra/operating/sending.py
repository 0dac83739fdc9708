"""One message that a person writes by hand: checked, and sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from ...log.errors import FencedError, InvalidArgument, TopicDeleted, TopicNotFound
from ...log.message.message import Message, check_message
from ...log.message.message_type import MessageType
from ...log.paths import AUDIT_TOPIC
from ...log.produce.accumulator import ProducerOptions
from ...log.read.reader import Reader
from .row_records import row_of

if TYPE_CHECKING:
    from ...aio import Lake
    from ...log.produce.receipts import SendResult
    from ...log.topic.settings import TopicSettings
    from ...log.topic.topics import Topic

SENDER = "penstock-console"
"""The producer's name of messages that are sent once for each preview."""
_AT_ONCE = ProducerOptions(linger=timedelta(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDraft:
    """A message as it is written by hand."""

    topic: str
    body: str = ""
    message_group: str | None = None
    tag: str | None = None
    keys: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    delay: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SendPlace:
    """Where a message goes if nobody is faster: under one place one message is sent, however often it is tried."""

    life: int
    """The entry that created the topic."""
    last_sequence: int
    """The sender's last sequence there; -1: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedMessage:
    """A draft that its topic takes, and its place."""

    message: Message
    settings: TopicSettings
    place: SendPlace


async def checked(lake: Lake, draft: MessageDraft) -> CheckedMessage:
    """Raises `TopicNotFound`, and what sending raises for a message that its topic does not take."""
    if draft.topic == AUDIT_TOPIC:
        raise InvalidArgument(
            "the audit topic says who did what by the console, which alone writes it",
            operation="send",
            object=draft.topic,
            hint="send to another topic",
        )
    topic = await present_topic(lake, draft.topic)
    return CheckedMessage(message=_message_of(draft, topic), settings=topic.settings, place=await _place(lake, topic))


async def present_topic(lake: Lake, name: str) -> Topic:
    """The topic as it stands now. It may be another than the one of a moment ago, with another schema. Raises `TopicNotFound`."""
    topic = await lake.topic(name)
    try:
        await Reader(topic).offsets()
    except TopicDeleted:  # and perhaps made anew
        topic = await lake.topic(name)
        await Reader(topic).offsets()
    return topic


async def send(lake: Lake, message: Message, topic: str, *, place: SendPlace | None = None) -> SendResult:
    """The message's place, once it is durable. With a ``place`` raises `InvalidArgument` unless it is still free."""
    producer = await lake.producer(topic, name=None if place is None else SENDER, options=_AT_ONCE)
    try:
        if place is None:
            return await producer.send(message)
        found = SendPlace(life=(await lake.topic(topic)).life, last_sequence=producer.last_sequence)
        if found != place:
            raise _meanwhile(topic)
        return await producer.send(message, sequence=place.last_sequence + 1)
    except FencedError as error:
        raise _meanwhile(topic) from error
    finally:
        await producer.close()


def _message_of(draft: MessageDraft, topic: Topic) -> Message:
    settings = topic.settings
    body: bytes | None = draft.body.encode("utf-8", "replace")
    value: object = None
    if settings.schema is not None:
        value, body = row_of(body or b"", topic.schema, as_texts=False), None
    labels = draft.message_group, draft.tag, draft.keys, draft.properties
    message = Message(body, *labels, delay=draft.delay, value=value)
    check_message(message, settings.message_type, settings.limits, derives_group=settings.message_group is not None)
    return message


async def _place(lake: Lake, topic: Topic) -> SendPlace:
    log = topic
    if topic.settings.message_type is MessageType.DELAY:
        try:
            _, log = await lake.timer_log(topic.paths.topic)
            await Reader(log).offsets()
        except TopicNotFound:
            return SendPlace(life=topic.life, last_sequence=-1)
    known = log.tail.state.named.get(SENDER)
    return SendPlace(life=topic.life, last_sequence=-1 if known is None else known.last)


def _meanwhile(topic: str) -> InvalidArgument:
    return InvalidArgument(
        "another message was sent by hand at the same moment, or the topic was made anew",
        operation="send",
        object=topic,
        hint="look at the preview again",
    )
