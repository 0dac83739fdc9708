"""A consumer's place in its group: topics, beginnings, and the queues that come and go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from ..coordinator.coordination import Coordination
from ..coordinator.groups.record import GroupDeleted, GroupNotFound, GroupRecord
from ..coordinator.queues.keeper import QueueKeeper
from ..coordinator.rebalance.assignment import Assignment
from ..coordinator.rebalance.balance import Queue
from ..coordinator.rebalance.member_context import GroupRecords, MemberContext
from ..coordinator.rebalance.ownership import Ownership
from ..coordinator.registry.groups import check_life
from ..coordinator.workers.lease import MemberWork
from ..coordinator.workers.session import LeaseLost
from ..coordinator.workers.worker import SessionMember
from ..log.errors import InvalidArgument, LimitExceeded, PenstockError, RetryError, UnknownOutcome
from ..log.filter.filters import check_filter, parse_filter
from ..log.lake import LogLake
from ..log.paths import check_group_name
from ..log.read.reader import Position, Reader
from ..log.runtime.backoff import Backoff
from ..log.topic.topics import Topic
from .feed.feed import Feed

log = logging.getLogger("penstock.consumers")

_TROUBLE_S = 0.2


@dataclass(frozen=True, slots=True)
class Subscription:
    """A consumer's subscription to a topic."""

    filter: str | None = None
    """Tags; None: all that the group takes."""
    start: Position = "earliest"
    """The group's beginning if it has not consumed the topic before."""


async def check_subscribed(topic: Topic, filter: str | None) -> None:
    """Raise `InvalidArgument` for a filter on a missing field."""
    keep = parse_filter(filter)
    try:
        check_filter(keep, topic.tail.state.schema)
    except InvalidArgument:
        await topic.tail.catch_up()  # a later version of the schema may have it
        check_filter(keep, topic.tail.state.schema)


@dataclass(frozen=True, slots=True)
class MembershipChange:
    """The result of a round."""

    record: GroupRecord
    taken: Mapping[Queue, QueueKeeper] = field(default_factory=dict)
    drain: tuple[Queue, ...] = ()
    may_leave: bool = False


class Membership:
    """A consumer's place in its group, rejoined after a lost lease."""

    def __init__(
        self,
        lake: LogLake,
        coordination: Coordination,
        *,
        group: str,
        subscriptions: Mapping[str, Subscription],
        stated: Mapping[str, object],
        assigned: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        """``assigned``: only these queues, by topic, instead of an even share."""
        check_group_name(group)
        self._assigned = assigned
        self._lake = lake
        self._coordination = coordination
        self._group = group
        self._subscriptions = dict(subscriptions)
        self._stated = dict(stated)
        filters = {topic: one.filter for topic, one in subscriptions.items() if one.filter is not None}
        if filters:
            self._stated["filters"] = filters
        self._topics: dict[str, Topic] = {}
        self._feeds: dict[str, Feed] = {}
        self._begun: dict[str, tuple[int, ...]] = {}
        """The group's first offsets on each topic, as this member found them: the table may lose them."""
        self._joined: _Joined | None = None
        self._record: GroupRecord | None = None
        self._member: SessionMember | None = None
        self._loop: asyncio.Future[None] | None = None
        self._ownership: Ownership | Assignment | None = None
        self._awaited: dict[Queue, asyncio.Task[None]] = {}
        """Queues that this member may own soon, whose new rows are kept."""
        self._failure: PenstockError | None = None
        self.leaving = False
        self._work: Callable[[int], MemberWork] | None = None
        self._pause = Backoff(_TROUBLE_S)

    @property
    def member(self) -> SessionMember:
        assert self._member is not None, "it has begun"
        return self._member

    def generation(self, topic: str, queue: int) -> int:
        """The generation of the group's position on a queue; 0 without one."""
        position = None if self._record is None else self._record.positions.get(topic)
        return 0 if position is None or queue >= len(position.generations) else position.generations[queue]

    @property
    def refused_s(self) -> float:
        """The seconds for which the store or the table has refused what it allowed before, or 0."""
        return max(self._lake.refusals.refusing_s, self._coordination.refusals.refusing_s)

    @property
    def queues(self) -> dict[str, int]:
        return {name: topic.settings.queues for name, topic in self._topics.items()}

    @property
    def record(self) -> GroupRecord:
        assert self._record is not None, "it has begun"
        return self._record

    def feed(self, topic: str) -> Feed:
        return self._feeds[topic]

    async def open(self) -> None:
        """Open the topics, whose later lives do not count. Raises `InvalidArgument` for a filter on a missing field."""
        for name, subscribed in self._subscriptions.items():
            topic = await self._lake.topic(name)
            await check_subscribed(topic, subscribed.filter)
            self._topics[name] = topic

    async def begin(self) -> GroupRecord:
        """Open the topics, ensure group and positions, and join. Raises when settings do not fit, `ClockSkewError`, and `GroupDeleted` in every call
        after the group's deletion, even when it was remade.
        """
        if not self._topics:
            await self.open()
        await self._lake.agree_on_time("join a consumer group")  # due times are for all, and dead letters are to be written
        record = await self._coordination.groups.ensure(self._group, self._stated)
        lives = {name: topic.life for name, topic in self._topics.items()}
        self._joined = _Joined(self._coordination.groups, record.lives, lives)
        for name, topic in self._topics.items():
            record = self._joined.check(self._group, await self._begin_topic(name, topic))
            self._begun[name] = record.positions[name].offsets
            self._feeds[name] = Feed(topic)
        self._record = record
        await self._join()
        return record

    async def update(self, change: Callable[[GroupRecord], GroupRecord]) -> GroupRecord:
        """Change the record. Raises `GroupDeleted` or `TopicDeleted` for another life of group or topics."""
        assert self._joined is not None, "it has begun"
        return await self._joined.update(self._group, change)

    def follow(self, loop: asyncio.Future[None]) -> None:
        """End when ``loop``, which does the rounds, ends."""
        self._loop = loop
        self.member.follow(loop)

    def tell(self, work: Callable[[int], MemberWork]) -> None:
        """Tell operators of the member's work with each heartbeat; ``work`` is given the member's number."""
        self._work = self.member.work = work

    async def _begin_topic(self, name: str, topic: Topic) -> GroupRecord:
        async def resolve() -> tuple[int, ...]:
            offsets = await Reader(topic).resolve(self._subscriptions[name].start)
            return tuple(offset for _, offset in sorted(offsets.items()))

        return await self._coordination.groups.begin(self._group, name, topic.life, resolve, queues=topic.settings.queues)

    async def _join(self) -> None:
        coordination = self._coordination
        shared = () if self._assigned is not None else tuple(self._topics)
        self._member = await coordination.worker.join(self._group, shared)
        self._member.busy = True
        self._member.work = self._work
        if self._loop is not None:
            self._member.follow(self._loop)
        self._ownership = self._ownership_of(self._member)
        if self.leaving:
            await self._ownership.give_up()

    def _ownership_of(self, member: SessionMember) -> Ownership | Assignment:
        assert self._joined is not None, "it has begun"
        context = MemberContext(
            cells=self._coordination.cells,
            groups=self._joined,
            watch=self._coordination.watch,
            member=member,
            clock=self._lake.runtime.clock,
            group=self._group,
            lease_s=self._coordination.worker.lease_s,
        )
        if self._assigned is None:
            return Ownership(context, self.queues)
        return Assignment(context, [(topic, queue) for topic, numbers in self._assigned.items() for queue in numbers])

    async def round(self) -> MembershipChange | None:
        """Look around once. None: to be tried again. Raises permanent errors."""
        if self._failure is not None:
            raise self._failure
        try:
            if self._ownership is None:
                await self._join()
            assert self._ownership is not None, "it joined"
            self.member.progressed()
            await self._await_queues(self._ownership.expected)  # those that were taken have feeds of their own by now
            await self._grow()
            self._ownership.consume(self.queues)
            found = await self._ownership.round()
            await self._await_queues(self._ownership.expected | self._awaited.keys() & found.taken.keys())
        except LeaseLost as error:
            self._ownership = None
            if self.leaving and self._record is not None:
                log.warning(
                    "group %s: the lease was lost as it left, so others run what was not settled: %s",
                    self._group,
                    error.__cause__ or error,
                )
                return MembershipChange(self._record, may_leave=True)
            log.warning("group %s: the lease was lost, and is taken anew: %s", self._group, error.__cause__ or error)
        except (RetryError, UnknownOutcome, LimitExceeded) as error:  # a full group has room once others leave
            log.warning("group %s: %s", self._group, error)
        else:
            self._pause = Backoff(_TROUBLE_S)
            self._record = found.record
            return MembershipChange(found.record, found.taken, found.drain, may_leave=self.leaving and not self._ownership.keepers)
        await asyncio.sleep(self._pause.next_s())
        return None

    async def _grow(self) -> None:
        """Know of the queues for which the group has positions, and let it have positions for all that are known, as a standby of the table's
        server may have none.
        """
        stood = {name: position for name, position in self.record.positions.items() if name in self._topics}
        for name, position in stood.items():
            if len(position.offsets) > (topic := self._topics[name]).settings.queues and position.life == topic.life:
                await topic.tail.catch_up()
        if self._extended(self.record) is not self.record:
            if lost := sorted(self._topics.keys() - self.record.positions.keys()):
                log.warning(
                    "group %s: the table has lost where it had begun on %s: it begins there again", self._group, ", ".join(lost)
                )
            try:
                self._record = await self.update(self._extended)
            except LimitExceeded as error:  # the queues that have positions go on
                log.error("group %s: %s", self._group, error)  # noqa: TRY400 - it says all

    def _extended(self, record: GroupRecord) -> GroupRecord:
        for name, topic in self._topics.items():
            if name not in record.positions:
                record = record.begun(name, self._begun[name], topic.life)
            if record.positions[name].life == topic.life:
                record = record.extended(name, topic.settings.queues)
        return record

    async def _await_queues(self, expected: Collection[Queue]) -> None:
        for queue in [queue for queue in self._awaited if queue not in expected]:
            following = self._awaited.pop(queue)
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await self._feeds[queue[0]].detach(queue[1])
        for queue in sorted(expected):
            if queue not in self._awaited:
                self._feeds[queue[0]].attach(queue[1])
                self._awaited[queue] = asyncio.ensure_future(_follow(self._feeds[queue[0]], queue[1]))

    async def rest(self, lives: Collection[asyncio.Task[None]]) -> None:
        """Wait until a round may bring something, or one of these has ended."""
        if self._ownership is None:
            return
        resting = asyncio.ensure_future(self._ownership.rest())
        try:
            await asyncio.wait([resting, *lives], return_when=asyncio.FIRST_COMPLETED)
            if resting.done():
                with suppress(RetryError, UnknownOutcome):
                    resting.result()
        finally:
            resting.cancel()
            await asyncio.gather(resting, return_exceptions=True)

    async def give_up(self) -> None:
        """Take nothing more, and drain."""
        self.leaving = True
        ownership = self._ownership
        if ownership is not None:
            with suppress(RetryError, UnknownOutcome, LeaseLost):
                await ownership.give_up()
            ownership.wake()

    def fail(self, error: PenstockError) -> None:
        self._failure = error
        if self._ownership is not None:
            self._ownership.wake()

    async def end(self) -> None:
        await self._await_queues(())
        if self._ownership is not None:
            await self._ownership.leave()
        elif self._member is not None:
            await self._member.leave()
        for feed in self._feeds.values():
            await feed.close()


async def _follow(feed: Feed, queue: int) -> None:
    with suppress(PenstockError):
        while True:
            await feed.arrived(queue, feed.next_offset(queue))


class _Joined:
    """The group that a member joined, and the topics that it opened. A remade group or topic is another one."""

    def __init__(self, groups: GroupRecords, lives: int, topics: Mapping[str, int]) -> None:
        """``topics``: the life of each."""
        self._groups = groups
        self._lives = lives
        self._topics = topics

    async def get(self, group: str) -> GroupRecord:
        try:
            return self.check(group, await self._groups.get(group))
        except GroupNotFound as error:
            raise _deleted(group) from error

    async def update(self, group: str, change: Callable[[GroupRecord], GroupRecord]) -> GroupRecord:
        try:
            return await self._groups.update(group, lambda before: change(self.check(group, before)))
        except GroupNotFound as error:
            raise _deleted(group) from error

    def check(self, group: str, record: GroupRecord) -> GroupRecord:
        """Raises unless the record is of the joined group, on the opened topics."""
        if record.lives != self._lives:
            raise _deleted(group)
        for topic, life in self._topics.items():
            position = record.positions.get(topic)
            if position is not None:
                check_life(topic, known=position.life, life=life)
        return record


def _deleted(group: str) -> GroupDeleted:
    return GroupDeleted(
        "the consumer group was deleted after this member had joined it",
        operation="consume",
        object=group,
        hint="start the consumer anew: it joins the group as it is now, or makes it",
    )
