"""The life of one message: found by its id, then looked up in the cells of every consumer group. Settled messages leave no history."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

import pyarrow as pa

from ...coordinator.cells.keys import MEMBERS, member_key
from ...coordinator.coordination import Coordination
from ...coordinator.groups.record import GroupProtocol, GroupRecord
from ...coordinator.operators.classic_queues import read_classic
from ...coordinator.operators.operators import read_cell
from ...coordinator.registry.broadcast_progress import read_progress
from ...coordinator.registry.failures import LastFailure, read_queue_failures
from ...coordinator.registry.former_work import left_before
from ...coordinator.registry.spill_objects import SpillObjects
from ...coordinator.timers.cell.cell import timer_cells
from ...coordinator.timers.tracing import DelayState, DelayTrace, delay_of
from ...coordinator.timers.waiting_messages import waiting
from ...coordinator.transactions.errors import HalfMessagesMissing
from ...coordinator.transactions.service import Transactions
from ...coordinator.transactions.tracing import TransactionTrace, transaction_of_half, transaction_of_visible
from ...log.errors import DataDamaged, InvalidArgument, NewerFormatError, TopicDeleted, TopicNotFound
from ...log.filter.tags import is_unicode
from ...log.format.stored_json import whole_number
from ...log.lake import LogLake
from ...log.message.message import MESSAGE_SCHEMA, VALUE, MessageView, from_ms, views
from ...log.message.message_type import MessageType
from ...log.paths import dead_letter_group, dead_letter_topic, group_name, is_timer_log, timer_log_name, topic_of
from ...log.read.places import PublishedRow, entry_of, published_in
from ...log.read.reader import Reader
from ...log.schema.stored_columns import shown_value
from ...log.schema.topic_schema import TopicSchema
from ...log.schema.values import convert
from ...log.topic.records import topic_names
from ...log.topic.topics import Topic
from ..dead_letters.group_filter import filter_of_group
from ..dead_letters.redrive_cell import RedriveStates
from ..dead_letters.writer import REDRIVE_OFFSET, Origin, is_redriven, origin_of
from ..feed.rows import group_hash
from .status import DeliveryState, after_former_queues, committed_status, status_of

T = TypeVar("T")

_TOPICS_AT_ONCE = 4
_GROUPS_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTrace:
    """A message in a consumer group, by the cell of its queue."""

    group: str
    fate: DeliveryState
    owner: str
    """The member that holds the queue, perhaps dead; empty: none."""
    epoch: int
    committed_offset: int
    """All messages below this offset are settled or listed."""
    attempts: int | None = None
    """Deliveries so far, the present one included; None: not kept, as for settled messages."""
    failed_attempts: int | None = None
    """The failed deliveries that count; None: not kept."""
    due: datetime | None = None
    """WAITING: when it is run again. RECEIVED: when it comes back."""
    behind: int | None = None
    """BEHIND: the offset that its message group stands at."""
    former_queue: int | None = None
    """FORMER_QUEUE: the queue that its message group had before, with earlier messages that are not settled."""
    dead_letter: int | None = None
    """DEAD_LETTER: its offset in the group's dead-letter queue."""
    failure: LastFailure | None = None
    """Why it failed last, or BEHIND the message that holds it up. None: it did not, or that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberTrace:
    """A message and a broadcasting group's member."""

    group: str
    member: str
    next_offset: int
    """The saved next offset in the message's queue."""
    delivered: bool
    """Whether the message lies before that: handed out, filtered, or before the beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterTrace:
    """A dead letter's record, and whether it went back."""

    group: str
    origin: Origin
    redrive: str
    """``no``; ``on its way``: it has its place among redriven letters; ``sent``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTrace:
    """One place where the message is stored."""

    message: MessageView
    entry: int | None
    """The entry of the log. None: the log is trimmed there."""
    published: PublishedRow | None
    """Its place in the topic's Delta table; None: not yet published."""
    groups: tuple[GroupTrace, ...] = ()
    """All groups that have begun on the topic, by name."""
    members: tuple[MemberTrace, ...] = ()
    """The members of broadcasting groups."""
    dead_letter: DeadLetterTrace | None = None
    """Set when this is a dead letter."""
    delay: DelayTrace | None = None
    """Set when this is the timer log, where delayed messages wait."""
    transaction: TransactionTrace | None = None
    """The transaction in which it was sent here."""
    redriven_from: int | None = None
    """The offset of the dead letter that was redriven as this message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """All that is stored of one message."""

    message_id: str
    places: tuple[StoredTrace, ...]
    """The places by store time."""
    transaction: TransactionTrace | None = None
    """Its transaction, while it is invisible."""
    gathered: DelayTrace | None = None
    """Set when its row has left the timer log for a run."""
    topics: tuple[str, ...]
    """The searched topics."""
    unread: tuple[str, ...] = ()
    """The unreadable parts, which may have more of the message, and why."""


async def trace(
    lake: LogLake,
    coordination: Coordination,
    message_id: str,
    *,
    topic: str | None = None,
    progress: Callable[[int, int], None] = lambda done, topics: None,
) -> Trace:
    """Look for a message in one topic with its timer log and the dead-letter queues of its groups, or in all topics, four at a time.

    Bloom filters and the unpublished log keep the reads few. Last come half messages and waiting messages. ``progress`` is given the numbers of
    finished and of all topics. Raises `InvalidArgument` for what cannot be an id, and `TopicNotFound`.
    """
    if not is_unicode(message_id) or not message_id:
        raise InvalidArgument("a message id is a text", operation="trace", observed=repr(message_id))
    tracing = _Tracing(lake, coordination, message_id)
    try:
        return await tracing.run(topic, progress)
    finally:
        await tracing.close()


class _Tracing:
    def __init__(self, lake: LogLake, coordination: Coordination, message_id: str) -> None:
        self._lake = lake
        self._cells = coordination.cells
        self._groups = coordination.groups
        self._transactions = Transactions(lake, coordination)
        self._id = message_id
        self._unread: list[str] = []
        self._records: dict[str, GroupRecord] = {}
        self._seen_in: set[str] = set()
        self._gone: set[str] = set()

    async def run(self, topic: str | None, progress: Callable[[int, int], None]) -> Trace:
        self._records = await self._groups.all()
        names = await self._topics(topic)
        limit, done = asyncio.Semaphore(_TOPICS_AT_ONCE), 0

        async def look(name: str) -> list[tuple[Topic, MessageView]]:
            nonlocal done
            async with limit:
                found = await self._readable(self._look_up(name)) or []
            done += 1
            progress(done, len(names))
            return found

        found = [one for some in await asyncio.gather(*map(look, names)) for one in some]
        found.sort(key=lambda one: (one[1].store_timestamp, one[1].topic, one[1].offset))
        letters = {place: one.offset for _, one in found if (place := _dead_letter_key(one)) is not None}
        members = await self._members() if found else []
        self._seen_in = {one.topic for _, one in found}
        places = await asyncio.gather(*(self._place(*one, letters, members) for one in found))
        return Trace(
            message_id=self._id,
            places=tuple(places),
            transaction=None if found else await self._readable(transaction_of_half(self._transactions, self._id)),
            gathered=None if found else await self._gathered(names),
            topics=tuple(name for name in names if name not in self._gone),
            unread=tuple(self._unread),
        )

    async def close(self) -> None:
        await self._transactions.close()

    async def _readable(self, work: Awaitable[T]) -> T | None:
        """The result; None where unreadable, which is noted."""
        try:
            return await work
        except (DataDamaged, NewerFormatError, HalfMessagesMissing) as error:
            self._unread.append(str(error))
        except (TopicNotFound, TopicDeleted):
            return None  # the topic was deleted meanwhile, with all that was in it
        return None

    async def _topics(self, only: str | None) -> Collection[str]:
        """Deleted topics' names too."""
        if only is None:
            return await topic_names(self._lake.store)
        await self._lake.topic(only)
        groups = [group for group, record in self._records.items() if only in record.positions]
        own = {timer_log_name(only), *(dead_letter_topic(group) for group in groups)}
        return [only, *sorted((own & {*await topic_names(self._lake.store)}) - {only})]

    async def _look_up(self, name: str) -> list[tuple[Topic, MessageView]]:
        try:
            topic = await self._lake.topic(name)
        except TopicNotFound:
            self._gone.add(name)
            raise
        return [(topic, one) for one in await Reader(topic).lookup(message_id=self._id)]

    async def _gathered(self, names: Collection[str]) -> DelayTrace | None:
        """The delay of a message that has left the timer log, from all runs."""
        for name in filter(is_timer_log, names):
            topic = topic_of(name)
            rows = await self._readable(waiting(self._lake, timer_cells(self._lake), topic, message_id=self._id))
            for message in () if rows is None else views(name, rows):
                if message.delivery_timestamp is not None:
                    return DelayTrace(topic=topic, due=message.delivery_timestamp, delay=DelayState.WAITING)
        return None

    # --- One place --------------------------------------------------------------------------------------------------------------

    async def _place(
        self, topic: Topic, message: MessageView, letters: Mapping[_DeadLetterKey, int], members: Sequence[tuple[str, str, str]]
    ) -> StoredTrace:
        place = message.queue, message.offset
        limit = asyncio.Semaphore(_GROUPS_AT_ONCE)

        async def in_group(group: str, record: GroupRecord) -> GroupTrace | None:
            async with limit:
                return await self._readable(self._group(group, record, topic, message, letters))

        begun = [(group, record) for group, record in sorted(self._records.items()) if message.topic in record.positions]
        groups = await asyncio.gather(*(in_group(group, record) for group, record in begun))
        heard = [
            await self._readable(self._member(group, member, key, topic, message))
            for group, member, key in members
            if key == member_key(group, message.topic, member)
        ]
        return StoredTrace(
            message=message,
            entry=await self._readable(entry_of(topic, *place)),
            published=await self._readable(published_in(topic, *place)),
            groups=_there(groups),
            members=_there(heard),
            dead_letter=await self._dead_letter(topic, message),
            delay=await self._delay(topic, message),
            transaction=await self._transaction(topic, message),
            redriven_from=whole_number(message.properties[REDRIVE_OFFSET]) if is_redriven(message) else None,
        )

    async def _group(
        self, group: str, record: GroupRecord, topic: Topic, message: MessageView, letters: Mapping[_DeadLetterKey, int]
    ) -> GroupTrace | None:
        name = message.topic
        record = record.following(name, topic.life, topic.settings.queues)
        if record.protocol is GroupProtocol.KAFKA:
            return await self._kafka_group(group, record, message)
        spilled = SpillObjects(self._lake.store, self._lake.runtime, group, name, message.queue)
        cell = await spilled.whole(await read_cell(self._cells, group, record, name, message.queue))
        schema, lane = topic.tail.state.schema, group_hash(message.message_group, record.secret)
        found = status_of(
            cell,
            message.offset,
            lane=lane,
            begun_at=record.positions[name].offsets[message.queue],
            passes=filter_of_group(group, record.settings, name).apply(_row(message, schema), schema).num_rows == 1,
        )
        found = after_former_queues(found, await left_before(self._cells, group, record, topic, message.queue), lane=lane)
        letter = letters.get((group, name, message.queue, message.offset))
        at = message.offset if found.behind is None else found.behind
        failures = await read_queue_failures(self._cells, group, name, message.queue, cell)
        return GroupTrace(
            group=group,
            fate=DeliveryState.DEAD_LETTER if letter is not None and found.fate is DeliveryState.SETTLED else found.fate,
            owner=cell.owner,
            epoch=cell.epoch,
            committed_offset=cell.settled.floor,
            attempts=found.attempts,
            failed_attempts=found.failed_attempts,
            due=None if found.due_ms is None else from_ms(found.due_ms),
            behind=found.behind,
            former_queue=found.former_queue,
            dead_letter=letter,
            failure=failures.get(at),
        )

    async def _kafka_group(self, group: str, record: GroupRecord, message: MessageView) -> GroupTrace | None:
        """A group of Kafka's clients has a committed offset, and no more of a message. None: it has none on the queue."""
        look = await read_classic(self._cells, group, record)
        cell = look.queues(record, message.topic).get(message.queue)
        if cell is None:
            return None
        return GroupTrace(
            group=group,
            fate=committed_status(cell, message.offset).fate,
            owner=cell.owner,
            epoch=cell.epoch,
            committed_offset=cell.settled.floor,
        )

    async def _members(self) -> list[tuple[str, str, str]]:
        """Group, member and key."""
        keys = await self._cells.keys(MEMBERS)
        parts = [key.removeprefix(MEMBERS).split("/") for key in keys]
        return sorted((group_name(group), member, key) for key, (group, _, member) in zip(keys, parts, strict=True))

    async def _member(self, group: str, member: str, key: str, topic: Topic, message: MessageView) -> MemberTrace | None:
        progress = await read_progress(self._cells, key)
        if progress is None or progress.life != topic.life:
            return None
        following = progress.of(message.queue)
        return MemberTrace(group=group, member=member, next_offset=following, delivered=message.offset < following)

    async def _delay(self, topic: Topic, message: MessageView) -> DelayTrace | None:
        if not is_timer_log(message.topic):
            return None
        delivered = topic_of(message.topic) in self._seen_in
        return await self._readable(delay_of(self._lake, topic, message, delivered=delivered))

    async def _transaction(self, topic: Topic, message: MessageView) -> TransactionTrace | None:
        kind = topic.settings.message_type
        if MessageType.TRANSACTION not in kind.taken:
            return None
        certain = kind is MessageType.TRANSACTION
        return await self._readable(transaction_of_visible(self._transactions, message, certain=certain))

    async def _dead_letter(self, topic: Topic, message: MessageView) -> DeadLetterTrace | None:
        group, origin = dead_letter_group(message.topic), origin_of(message.properties)
        if group is None or origin is None:
            return None
        redrives = await self._readable(RedriveStates.read(self._lake, group, topic.life))
        redrive = "no" if redrives is None else redrives.of(message.offset)
        return DeadLetterTrace(group=group, origin=origin, redrive=redrive)


_DeadLetterKey = tuple[str, str, int, int]
"""Group, topic, queue and offset."""


def _dead_letter_key(message: MessageView) -> _DeadLetterKey | None:
    group, origin = dead_letter_group(message.topic), origin_of(message.properties)
    if group is None or origin is None:
        return None
    return group, origin.topic, origin.queue, origin.offset


def _row(message: MessageView, schema: TopicSchema | None) -> pa.RecordBatch:
    headers = [{"key": name, "value": value} for name, value in message.headers] or None
    row = {**message.stored(), "keys": list(message.keys), "properties": list(message.properties.items()), "headers": headers}
    found = pa.RecordBatch.from_pylist([{name: row[name] for name in MESSAGE_SCHEMA.names}], MESSAGE_SCHEMA)
    return found if schema is None else found.append_column(VALUE, shown_value(convert([message.value], schema).value, schema))


def _there(found: Iterable[T | None]) -> tuple[T, ...]:
    return tuple(one for one in found if one is not None)
