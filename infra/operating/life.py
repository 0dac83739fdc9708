"""The life of a message in words and in time, for every output. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from ...consumers.trace.status import DeliveryState
from ...consumers.trace.trace import DeadLetterTrace, GroupTrace, MemberTrace, StoredTrace, Trace
from ...coordinator.registry.failures import LastFailure
from ...coordinator.timers.tracing import DelayState, DelayTrace
from ...coordinator.transactions.tracing import TransactionTrace
from ...log.read.places import PublishedRow
from .bodies import BodyExcerpt, body_of, body_of_message
from .letters import LetterOrigin

_BODY_BYTES = 64 * 1024
_HEADER_BYTES = 1024


class _Event(NamedTuple):
    time: datetime
    what: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeEvent:
    """An event of the message, past or to come."""

    time: datetime
    what: str
    why: str | None
    is_ahead: bool
    since: timedelta | None
    """Time since the event before; None: the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDelivery(GroupTrace):
    """The state of the message in a consumer group."""

    what: str

    @property
    def is_parked(self) -> bool:
        return self.fate is DeliveryState.PARKED


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfMessagePlace:
    """The destination of an invisible message."""

    topic: str
    queue: int
    body_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageTransaction:
    """The message's transaction."""

    transaction: str
    producer_group: str | None
    """None, like the fields below: nothing but the message is left of the transaction."""
    state: str
    """open, committed, rolled_back."""
    begun: datetime | None
    finished: datetime | None
    """When the decision was carried out."""
    decided_by: str | None
    """owner, checker, operator, checks (too many of them), age or acks."""
    checks: int | None
    next_check: datetime | None
    half: HalfMessagePlace | None

    def __str__(self) -> str:
        by = "" if self.decided_by is None else f" by {self.decided_by}"
        group = "" if self.producer_group is None else f" of producer group {self.producer_group}"
        return f"{self.transaction}{group}, {self.state.replace('_', ' ')}{by}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterRecord(LetterOrigin):
    """A dead letter's origin, and whether it was sent back."""

    group: str
    redrive: str
    """no, on its way, sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderExcerpt:
    """A header, with the beginning of its value."""

    name: str
    value: BodyExcerpt


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageCopy:
    """A stored copy of the message."""

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
    """None: the log is trimmed, and the table has the message."""
    published: PublishedRow | None
    """None: in the log only."""
    delay: DelayTrace | None
    transaction: MessageTransaction | None
    redriven_from: int | None
    """The offset of its dead letter."""
    dead_letter: LetterRecord | None
    groups: tuple[GroupDelivery, ...]
    members: tuple[MemberTrace, ...]
    properties: dict[str, str]
    headers: tuple[HeaderExcerpt, ...]
    binary_key: BodyExcerpt | None
    body: BodyExcerpt


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLife:
    """All that is stored of the message."""

    message_id: str
    events: tuple[LifeEvent, ...]
    places: tuple[MessageCopy, ...]
    transaction: MessageTransaction | None
    """The transaction while it is undecided."""
    gathered: DelayTrace | None
    """The delay of a message that is only in a timer log."""
    topics: tuple[str, ...]
    unread: tuple[str, ...]
    """Unreadable places, which may have more of the message."""


def life_of(found: Trace, now: datetime) -> MessageLife:
    events = events_of(found)
    times = [one.time for one in events]
    return MessageLife(
        message_id=found.message_id,
        events=tuple(
            LifeEvent(
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
        gathered=found.gathered,
        topics=found.topics,
        unread=found.unread,
    )


def _place(one: StoredTrace) -> MessageCopy:
    message = one.message
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
        published=one.published,
        delay=one.delay,
        transaction=_transaction(one.transaction),
        redriven_from=one.redriven_from,
        dead_letter=_dead_letter(one.dead_letter),
        groups=tuple(_delivery(each) for each in one.groups),
        members=one.members,
        properties=dict(message.properties),
        headers=tuple(HeaderExcerpt(name=name, value=body_of(value, most=_HEADER_BYTES)) for name, value in message.headers),
        binary_key=None if message.key is None else body_of(message.key, most=_HEADER_BYTES),
        body=body_of_message(message, most=_BODY_BYTES),
    )


def _delivery(one: GroupTrace) -> GroupDelivery:
    return GroupDelivery(**{each.name: getattr(one, each.name) for each in fields(one)}, what=delivery_state_text(one))


def _dead_letter(one: DeadLetterTrace | None) -> LetterRecord | None:
    return None if one is None else LetterRecord(group=one.group, redrive=one.redrive, **one.origin._asdict())


def _transaction(one: TransactionTrace | None) -> MessageTransaction | None:
    if one is None:
        return None
    half = one.half
    return MessageTransaction(
        transaction=one.id,
        producer_group=one.producer_group,
        state=one.decision,
        begun=one.begun,
        finished=one.finished,
        decided_by=one.by,
        checks=one.checks,
        next_check=one.next_check,
        half=None if half is None else HalfMessagePlace(topic=half.topic, queue=half.queue, body_bytes=len(half.content)),
    )


def events_of(found: Trace) -> list[_Event]:
    """The known events of a message, past and to come, the earliest first."""
    return sorted(dict.fromkeys(_events(found)))


def _events(found: Trace) -> Iterator[_Event]:
    transactions = [found.transaction, *(one.transaction for one in found.places)]
    for transaction in transactions:
        if transaction is None:
            continue
        if transaction.begun is not None:
            yield _Event(transaction.begun, f"transaction {transaction.id} was begun")
        if transaction.half is not None:
            yield _Event(transaction.half.born_timestamp, "sent")
        if transaction.next_check is not None:
            yield _Event(transaction.next_check, "a checker is asked about its transaction")
    for one in found.places:
        yield from _of_place(one)
    for delay in (found.gathered, *(one.delay for one in found.places)):
        if delay is not None:
            yield _Event(delay.due, f"due in {delay.topic}")


def _of_place(one: StoredTrace) -> Iterator[_Event]:
    message = one.message
    place = f"{message.topic}, queue {message.queue}, offset {message.offset:,}"
    yield _Event(message.born_timestamp, "sent")
    if one.dead_letter is not None:
        yield _Event(message.store_timestamp, f"given up by {one.dead_letter.group}: {place}", one.dead_letter.origin.reason or "")
    elif one.redriven_from is not None:
        yield _Event(message.store_timestamp, f"sent back: {place}")
    else:
        yield _Event(message.store_timestamp, f"stored: {place}")
    for group in one.groups:
        if (failed := group.failure) is not None and failed.offset == message.offset:
            yield _Event(failed.time, f"attempt {failed.attempt} of {group.group} failed", failed.text)
        if group.due is not None:
            yield _Event(group.due, f"comes back to {group.group}")


def delivery_state_text(one: GroupTrace) -> str:
    return _FATES[one.fate](one)


def failure_text(one: LastFailure, offset: int) -> str:
    """Why a message failed last, where and when; ``offset`` is the message that is asked about."""
    which = "" if one.offset == offset else f" of offset {one.offset:,}"
    return f"attempt {one.attempt}{which} failed {_second(one.time)} in {one.process or one.worker}: {one.text}"


def _second(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


_FATES: dict[DeliveryState, Callable[[GroupTrace], str]] = {
    DeliveryState.FRESH: lambda one: "not handed out yet",
    DeliveryState.IN_FLIGHT: lambda one: "in flight",
    DeliveryState.RECEIVED: lambda one: "received, not acknowledged",
    DeliveryState.WAITING: lambda one: "failed, waits to be run again",
    DeliveryState.SUSPECT: lambda one: "in flight when its worker died, to be run again",
    DeliveryState.BEHIND: lambda one: (
        f"held up by offset {one.behind:,} of its message group" if one.behind is not None else "held up"
    ),
    DeliveryState.FORMER_QUEUE: lambda one: (
        f"waits for its message group's earlier messages in queue {one.former_queue}" if one.former_queue is not None else "waits"
    ),
    DeliveryState.PARKED: lambda one: "parked until an operator releases or skips it",
    DeliveryState.GIVEN_UP: lambda one: "given up, its dead letter is being written",
    DeliveryState.DEAD_LETTER: lambda one: f"dead letter {one.dead_letter:,}",
    DeliveryState.SETTLED: lambda one: "settled",
    DeliveryState.UNCOMMITTED: lambda one: "behind the committed offset",
    DeliveryState.LEFT_OUT: lambda one: "left out by the group's filter",
    DeliveryState.PASSED_OVER: lambda one: "before where the group began, or was reset to",
}

DELAYS = {
    DelayState.WAITING: "it waits",
    DelayState.ON_ITS_WAY: "it is on its way into its topic",
    DelayState.RECALLED: "it was called back",
    DelayState.DELIVERED: "it was delivered",
    DelayState.OVER: "its time is over: it was called back before, or delivered, and its topic keeps it no more",
}


def redrive_text(redrive: str) -> str:
    return {"no": "it was not sent back", "sent": "it was sent back"}.get(redrive, "it is on its way back")


def times_text(count: int) -> str:
    return {0: "never", 1: "once"}.get(count, f"{count:,} times")
