"""One message: its life as a line in time, how it stands in each consumer group and why, and what it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ....aio import Lake
from ....consumers.trace.trace import GroupTrace, StoredTrace, Trace
from ....coordinator.transactions.tracing import TransactionTrace
from ....log.errors import InvalidArgument, TopicNotFound
from ....log.topic.records import topic_names
from ...operating.bodies import BodyExcerpt, body_of
from ...operating.life import DELAYS, delivery_state_text, events_of, redrive_text
from ..faults import PagePart
from .page import Breadcrumb, PageContext, PageDefinition, PageRequest, QueryParameter

BODY_BYTES = 64 * 1024
"""The most bytes of a body on the page."""
TOPICS_MAX = 16
"""The number of topics up to which all are looked through: each costs some requests."""
_HEADER_BYTES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeEventRow:
    """Something that happened to the message, or is to happen."""

    time: datetime
    what: str
    why: str | None
    """The reason, as a consumer told it."""
    is_ahead: bool
    """Whether it is still to come."""
    since: timedelta | None
    """The time since the event before; None: it is the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDelivery:
    """How the message stands in a consumer group now."""

    group: str
    fate: str
    """The code for programs: what `penstock trace` calls it."""
    what: str
    """The same in words."""
    due: datetime | None
    """When it is run again, or comes back if it is not acknowledged before."""
    attempts: int | None
    """Deliveries so far, the one under way included; None: not kept, as for all settled messages."""
    strikes: int | None
    """The failures among them that count."""
    owner: str | None
    epoch: int
    is_parked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDelivery:
    """A member of a broadcasting group, and whether it had the message."""

    group: str
    member: str
    delivered: bool
    next_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFacts:
    """What a dead letter says."""

    group: str
    topic: str
    queue: int
    offset: int
    redeliveries: int
    reason: str
    redrive: str
    """What became of it since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderRow:
    """A header, with the beginning of its value."""

    name: str
    value: BodyExcerpt


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageCopy:
    """One place where the message is stored."""

    topic: str
    queue: int
    offset: int
    message_group: str | None
    tag: str | None
    keys: tuple[str, ...]
    producer: str
    sent: datetime
    stored: datetime
    due: datetime | None
    entry: int | None
    """The entry of the log. None: it is trimmed; the table has the message."""
    published: str | None
    """Its file in the topic's table; None: it is in the log only."""
    delay: str | None
    """What becomes of it, where it is delayed."""
    transaction: str | None
    redriven_from: int | None
    """The offset of the dead letter from which it was sent back here."""
    letter: DeadLetterFacts | None
    groups: tuple[GroupDelivery, ...]
    members: tuple[MemberDelivery, ...]
    properties: dict[str, str]
    headers: tuple[HeaderRow, ...]
    binary_key: BodyExcerpt | None
    body: BodyExcerpt


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLife:
    """All that is stored of the message."""

    events: tuple[LifeEventRow, ...]
    places: tuple[MessageCopy, ...]
    transaction: str | None
    """The transaction in which it was sent, while nobody sees it."""
    waits_for: str | None
    """The topic for which it waits, when it is only among delayed messages."""
    topics_looked: int
    unread: tuple[str, ...]
    """What could not be read. There may be more of the message there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePage:
    """What the page shows."""

    message_id: str
    topic: str | None
    """The topic that was looked through; None: all."""
    topics: tuple[str, ...]
    """The topics of the lake, where one must be chosen."""
    life: PagePart[MessageLife] | None
    """None: there are too many topics to look through all."""


async def gather(scene: PageContext, asked: PageRequest) -> MessagePage:
    message_id, topic = asked["message_id"], asked.text("topic")
    topics: tuple[str, ...] = ()
    if topic is None:
        topics = tuple(await scene.using(lambda lake: topic_names(lake.store)))
        if len(topics) > TOPICS_MAX and asked.text("everywhere") is None:
            return MessagePage(message_id=message_id, topic=None, topics=topics, life=None)

    async def life(lake: Lake) -> MessageLife:
        return life_of(await lake.trace(message_id, topic=topic), scene.now)

    found = await scene.part(life, fatal=(TopicNotFound, InvalidArgument))
    return MessagePage(message_id=message_id, topic=topic, topics=(), life=found)


def life_of(found: Trace, now: datetime) -> MessageLife:
    """A trace as the page shows it."""
    events = events_of(found)
    times = [one.time for one in events]
    return MessageLife(
        events=tuple(
            LifeEventRow(
                time=one.time,
                what=one.what,
                why=one.why or None,
                is_ahead=one.time > now,
                since=None if at is None else one.time - at,
            )
            for one, at in zip(events, [None, *times], strict=False)
        ),
        places=tuple(map(_place, found.places)),
        transaction=_transaction(found.transaction),
        waits_for=None if found.gathered is None else found.gathered.topic,
        topics_looked=len(found.topics),
        unread=found.unread,
    )


def _place(one: StoredTrace) -> MessageCopy:
    message = one.message
    is_tombstone = message.body is None and message.value is None
    return MessageCopy(
        topic=message.topic,
        queue=message.queue,
        offset=message.offset,
        message_group=message.message_group,
        tag=message.tag,
        keys=message.keys,
        producer=message.producer,
        sent=message.born_timestamp,
        stored=message.store_timestamp,
        due=message.delivery_timestamp,
        entry=one.entry,
        published=None if one.published is None else one.published.path,
        delay=None if one.delay is None else DELAYS[one.delay.delay],
        transaction=_transaction(one.transaction),
        redriven_from=one.redriven_from,
        letter=_letter(one),
        groups=tuple(map(_in_group, one.groups)),
        members=tuple(
            MemberDelivery(group=each.group, member=each.member, delivered=each.delivered, next_offset=each.next_offset)
            for each in one.members
        ),
        properties=dict(message.properties),
        headers=tuple(HeaderRow(name=name, value=body_of(value, most=_HEADER_BYTES)) for name, value in message.headers),
        binary_key=None if message.key is None else body_of(message.key, most=_HEADER_BYTES),
        body=body_of(None if is_tombstone else message.content, most=BODY_BYTES),
    )


def _in_group(one: GroupTrace) -> GroupDelivery:
    return GroupDelivery(
        group=one.group,
        fate=one.fate.value,
        what=delivery_state_text(one),
        due=one.due,
        attempts=one.attempts,
        strikes=one.strikes,
        owner=one.owner or None,
        epoch=one.epoch,
        is_parked=one.fate.value == "parked",
    )


def _letter(one: StoredTrace) -> DeadLetterFacts | None:
    if one.dead_letter is None:
        return None
    origin = one.dead_letter.origin
    return DeadLetterFacts(
        group=one.dead_letter.group,
        topic=origin.topic,
        queue=origin.queue,
        offset=origin.offset,
        redeliveries=origin.reconsume_times,
        reason=origin.reason,
        redrive=redrive_text(one.dead_letter.redrive),
    )


def _transaction(one: TransactionTrace | None) -> str | None:
    if one is None:
        return None
    by = "" if one.by is None else f" by {one.by}"
    group = "" if one.producer_group is None else f" of producer group {one.producer_group}"
    return f"{one.id}{group}, {one.decision}{by}"


def _crumbs(asked: PageRequest) -> Sequence[Breadcrumb]:
    topic = asked.text("topic")
    if topic is None:
        return [Breadcrumb("Topics", "topics")]
    names = {"topic": topic}
    return [Breadcrumb("Topics", "topics"), Breadcrumb(f"Topic {topic}", "topic", names), Breadcrumb("Messages", "messages", names)]


def _command(asked: PageRequest) -> Sequence[str]:
    topic = asked.text("topic")
    return ["trace", asked["message_id"], *([] if topic is None else ["--topic", topic])]


PAGE = PageDefinition(
    name="message",
    path="/trace/{message_id:path}",
    title="Message {message_id}",
    about="The life of one message: where it is stored, how it stands in each consumer group and why, and what it holds.",
    shows=MessagePage,
    gather=gather,
    command=_command,
    parameters=(
        QueryParameter(name="topic", help="Look in this topic and the dead letters of its groups, not in all topics."),
        QueryParameter(name="everywhere", help="Look through all topics, however many there are.", choices=("yes",)),
    ),
    crumbs=_crumbs,
    is_kept=False,
)
