"""PullConsumer: reads the queues of a consumer group at the caller's pace, and commits its progress."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

import pyarrow as pa
from msgspec.structs import replace

from ..coordinator.coordination import Coordination
from ..coordinator.groups.record import GroupMixed, GroupRecord
from ..coordinator.queues.cell import QueueCell
from ..coordinator.queues.commands import caught_up
from ..coordinator.queues.keeper import OwnershipLost, QueueKeeper
from ..coordinator.queues.offsets import SettledOffsets
from ..coordinator.queues.restores import inconsistent, is_ahead, of_another_log, of_another_record, seen
from ..coordinator.rebalance.balance import Queue
from ..log.errors import DataDamaged, InvalidArgument, PenstockError, RetryError
from ..log.filter.filters import Filter
from ..log.lake import LogLake
from ..log.limits import MESSAGES_MAX as MAX_MESSAGES
from ..log.limits import MIB, WAIT_MAX, Duration, check_count, checked_duration, plain
from ..log.message.message import MessageView, views
from ..log.read.reader import Position, Reader
from .consumer import GroupMember
from .dead_letters.group_filter import filter_of_group
from .membership import Membership, Subscription

log = logging.getLogger("penstock.consumers")

MESSAGES_MAX = 500
_FETCH_BYTES_MAX = 16 * MIB


@dataclass(slots=True)
class _Owned:
    keeper: QueueKeeper
    position: int
    generation: int
    """The generation of ``position``, which a reset voids."""
    obeyed: GroupRecord
    keep: Filter
    uncommitted: bool = False
    """Whether some messages handed out are not committed."""


@dataclass(frozen=True, slots=True)
class _Part:
    queue: Queue
    owned: _Owned
    start: int
    end: int
    kept: pa.RecordBatch


class PullConsumer(GroupMember):
    """A member of a consumer group that asks for messages itself. ``lake.pull_consumer`` makes it.

    Within a queue messages come in order, from the group's committed offset on. `commit` settles what `poll` has handed out. Messages that were not
    committed come again after a crash, or to the next owner. Nothing is retried or dead-lettered: the caller goes back with `seek`. Queues are shared
    evenly among the members (subscribe), or given (assign). Use it in an ``async with`` block, or close it, which commits nothing.
    """

    _OPERATION: ClassVar[str] = "pull"

    def __init__(
        self,
        lake: LogLake,
        coordination: Coordination,
        *,
        group: str,
        subscriptions: Mapping[str, Subscription],
        stated: Mapping[str, object],
        queues: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        membership = Membership(lake, coordination, group=group, subscriptions=subscriptions, stated=stated, assigned=queues)
        super().__init__(membership, group=group)
        self._assigned = queues
        self._owned: dict[Queue, _Owned] = {}
        self._taken_away: set[Queue] = set()
        """Queues lost before their messages were committed, not yet reported."""
        self._ahead: dict[Queue, GroupRecord] = {}
        """Queues whose cells have a later generation than the record read before."""
        self._turn: deque[Queue] = deque()
        self._moved = asyncio.Event()
        self._committing = asyncio.Lock()

    # --- Its life ---------------------------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        await self._membership.open()
        self._check_assigned()
        await super()._begin()

    def _check_assigned(self) -> None:
        for topic, numbers in (self._assigned or {}).items():
            count = self._membership.queues[topic]
            if outside := [number for number in numbers if number >= count]:
                raise InvalidArgument(
                    "the topic has no such queue",
                    operation="pull",
                    object=topic,
                    expected=f"queues below {count}",
                    observed=", ".join(map(str, outside)),
                )

    async def _work(self) -> None:
        while True:
            change = await self._membership.round()
            if change is None:
                continue
            await self._follow(change.record, change.taken)
            for queue in change.drain:
                await self._give_back(queue)
            if self._membership.leaving and not self._owned and change.may_leave:
                return
            if not change.drain:
                await self._membership.rest(())

    async def _end(self) -> None:
        self._owned.clear()
        self._moved.set()
        await super()._end()

    async def _follow(self, record: GroupRecord, taken: Mapping[Queue, QueueKeeper]) -> None:
        for queue in [queue for queue, owned in self._owned.items() if owned.keeper.ended.is_set()]:
            await self._forget(queue)  # this must come before the queue is owned again
        for queue, keeper in taken.items():
            await self._own(queue, keeper, record)
        for queue in [queue for queue, owned in self._owned.items() if owned.obeyed is not record]:
            await self._obey(queue, self._owned[queue], record)

    async def _own(self, queue: Queue, keeper: QueueKeeper, record: GroupRecord) -> None:
        try:
            if not await self._fits(queue, keeper, record):
                await keeper.release()  # it is taken again later
                return
            tail = self._membership.feed(queue[0]).topic.tail
            keeper.seen = lambda: seen(tail.state, record.secret)
            cell = await keeper.change(lambda cell: caught_up(cell, record, *queue))
        except OwnershipLost:
            return
        self._check_plain(queue, cell)
        self._membership.feed(queue[0]).attach(queue[1])
        self._owned[queue] = _Owned(
            keeper, cell.settled.floor, cell.generation, record, filter_of_group(self.group, record.settings, queue[0])
        )
        self._turn.append(queue)
        self._moved.set()

    async def _fits(self, queue: Queue, keeper: QueueKeeper, record: GroupRecord) -> bool:
        """Whether log and record fit the cell, or the group was reset since. Raises `InconsistentRestore`."""
        (topic, number), cell, position = queue, keeper.cell, record.positions[queue[0]]
        if is_ahead(cell, position, number):
            if (known := self._ahead.get(queue)) is not None and known is not record:
                raise inconsistent("the group's record is older than the cell", group=self.group, topic=topic, queue=number)
            self._ahead[queue] = record
            return False
        self._ahead.pop(queue, None)
        why = of_another_record(cell, position, number, record.secret)
        try:
            why = why or await of_another_log(self._membership.feed(topic).topic, number, cell)
        except (RetryError, DataDamaged) as error:
            log.warning("group %s, %s queue %d: the log cannot be read: %s", self.group, topic, number, error)
            return False
        if why is None or cell.generation < position.generations[number]:
            return True
        raise inconsistent(why, group=self.group, topic=topic, queue=number)

    async def _obey(self, queue: Queue, owned: _Owned, record: GroupRecord) -> None:
        with suppress(OwnershipLost):
            cell = await owned.keeper.change(lambda cell: caught_up(cell, record, *queue))
            if cell.generation != owned.generation:
                owned.position, owned.generation = cell.settled.floor, cell.generation
                owned.uncommitted = False
                self._moved.set()
            owned.obeyed, owned.keep = record, filter_of_group(self.group, record.settings, queue[0])

    def _check_plain(self, queue: Queue, cell: QueueCell) -> None:
        if cell.tries or cell.spills or cell.markers or cell.granted or cell.settled.count_above:
            raise GroupMixed(
                "the consumer group has messages that wait, are in flight or parked, so it cannot be gone on with by offsets",
                operation="pull",
                object=f"{self.group}, {queue[0]} queue {queue[1]}",
                hint="let its push or simple consumers come to an end, reset the group, or use another one",
            )

    async def _give_back(self, queue: Queue) -> None:
        owned = self._owned.get(queue)
        if owned is not None:
            with suppress(OwnershipLost):
                await owned.keeper.release()
            await self._forget(queue)

    async def _forget(self, queue: Queue) -> None:
        if self._owned.pop(queue).uncommitted:
            self._taken_away.add(queue)
        self._turn.remove(queue)
        await self._membership.feed(queue[0]).detach(queue[1])

    # --- What callers do --------------------------------------------------------------------------------------------------------

    @property
    def assignment(self) -> list[tuple[str, int]]:
        """The (topic, queue) that it reads now."""
        return sorted(self._owned)

    async def poll(self, max_messages: int = MESSAGES_MAX, *, timeout: Duration = timedelta(seconds=1)) -> list[MessageView]:
        """The next messages, of one or several queues; an empty list after ``timeout`` (a `timedelta` or seconds).

        Raises `InvalidArgument` for a bad number, `ClosedError`, `OffsetOutOfRange` when retention removed the next messages (seek
        on), errors that made reading impossible, and the error that ended the consumer by itself.
        """
        parts = await self._parts(max_messages, timeout)
        return [one for part in parts for one in views(part.queue[0], part.kept, epoch=part.owned.keeper.epoch)]

    async def poll_arrow(
        self, max_messages: int = MESSAGES_MAX, *, timeout: Duration = timedelta(seconds=1)
    ) -> list[tuple[str, pa.RecordBatch]]:
        """`poll` as (topic, batch with `MESSAGE_SCHEMA`), each of one queue."""
        return [(part.queue[0], part.kept) for part in await self._parts(max_messages, timeout)]

    async def _parts(self, max_messages: int, timeout: Duration) -> list[_Part]:
        check_count("max_messages", max_messages, most=MAX_MESSAGES, operation="poll")
        wait = checked_duration("timeout", timeout, most=WAIT_MAX, operation="poll")
        until_s = asyncio.get_running_loop().time() + wait.total_seconds()
        await asyncio.sleep(0)  # a caller that polls in a loop lets the lease be renewed, even when all messages come from memory
        while True:
            self._check_open("poll")
            self._moved.clear()
            if found := self._handed_out(await self._look(max_messages)):
                return found
            left_s = until_s - asyncio.get_running_loop().time()
            if left_s <= 0 or not await self._wait(left_s):
                return []

    async def _look(self, left: int) -> list[_Part]:
        found: list[_Part] = []
        for _ in range(len(self._turn)):
            if left <= 0 or not self._turn:
                break
            queue = self._turn[0]
            self._turn.rotate(-1)
            owned = self._owned[queue]
            start, feed = owned.position, self._membership.feed(queue[0])
            if owned.keeper.ended.is_set() or feed.next_offset(queue[1]) <= start:
                continue
            try:
                rows = await feed.fetch(queue[1], start, rows_max=left, bytes_max=_FETCH_BYTES_MAX)
            except PenstockError:
                if self._owned.get(queue) is not owned:
                    continue  # the queue went to another owner meanwhile
                if not found:
                    raise
                self._turn.rotate(1)  # the rows found are handed out first, and the next poll raises this at once
                break
            if rows is not None:
                kept = owned.keep.apply(rows, feed.schema)
                found.append(_Part(queue, owned, start, start + rows.num_rows, kept))
                left -= kept.num_rows
        return found

    def _handed_out(self, found: list[_Part]) -> list[_Part]:
        """The parts that `commit` settles from here on."""
        handed = []
        for part in found:
            owned = part.owned
            if self._owned.get(part.queue) is owned and owned.position == part.start and not owned.keeper.ended.is_set():
                owned.position = part.end
                if part.kept.num_rows:
                    owned.uncommitted = True
                    handed.append(part)
        return handed

    async def _wait(self, seconds: float) -> bool:
        waiting: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._moved.wait())]
        for (topic, queue), owned in self._owned.items():
            waiting.append(asyncio.ensure_future(self._membership.feed(topic).arrived(queue, owned.position)))
        try:
            done, _ = await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
            return bool(done)
        finally:
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    def position(self, topic: str, queue: int) -> int:
        """The offset that `poll` hands out next. Raises `InvalidArgument` for a queue of others."""
        return self._own_queue(topic, queue).position

    def committed(self, topic: str, queue: int) -> int:
        """The offset up to which the group has settled a queue. Raises as `position`."""
        return self._own_queue(topic, queue).keeper.cell.settled.floor

    async def seek(self, topic: str, queue: int, to: Position) -> int:
        """Go on at an offset, a store time, ``"earliest"`` or ``"latest"``. Returns the offset. Commits nothing. Raises `InvalidArgument` for a queue
        of others, `OffsetOutOfRange` for an offset that is not kept.
        """
        self._own_queue(topic, queue)
        offset = (await Reader(self._membership.feed(topic).topic).resolve(to, queues=[queue]))[queue]
        self._own_queue(topic, queue).position = offset
        self._moved.set()
        return offset

    async def commit(self) -> None:
        """Settle all messages handed out; they are durable when this returns. After a `seek` back, the group goes back as by a
        reset.

        Messages handed out before an operator's reset are not settled. Raises `OwnershipLost` when some queues have another owner,
        and `GroupDeleted` or `TopicDeleted` for a seek back.
        """
        self._check_open("commit")
        async with self._committing:
            owned_now = list(self._owned.items())
            ends = await asyncio.gather(*(self._commit(queue, owned) for queue, owned in owned_now), return_exceptions=True)
        for end in ends:
            if end is not None:
                raise end
        if taken_away := sorted(self._taken_away):
            self._taken_away.clear()
            raise OwnershipLost(
                "queues went to another member before what was handed out of them was committed",
                operation="commit",
                object=", ".join(f"{topic} queue {queue}" for topic, queue in taken_away),
                hint="it comes again, there; what was handed out of the others is settled",
            )

    async def _commit(self, queue: Queue, owned: _Owned) -> None:
        position = owned.position
        await self._settle(queue, owned)
        if owned.position == position:
            owned.uncommitted = False

    async def _settle(self, queue: Queue, owned: _Owned) -> None:
        position, generation, cell = owned.position, owned.generation, owned.keeper.cell
        if cell.generation != generation or position == cell.settled.floor:
            return
        if position > cell.settled.floor:
            await owned.keeper.change(lambda cell: _settled(cell, generation, position))
            return
        tried: list[GroupRecord] = []

        def gone_back(before: GroupRecord) -> GroupRecord:
            # Nothing goes back if the group was moved or made anew since: that place does not depend on these handed-out messages.
            stands = before.positions[queue[0]].generations[queue[1]] == generation
            tried[:] = [before.reset(queue[0], {queue[1]: position})] if stands else []
            return tried[0] if tried else before

        record = await self._membership.update(gone_back)
        if not tried:
            await self._obey(queue, owned, record)
            return
        owned.generation = record.positions[queue[0]].generations[queue[1]]
        await owned.keeper.change(lambda cell: caught_up(cell, record, *queue))

    def _own_queue(self, topic: str, queue: int) -> _Owned:
        self._check_open("pull")
        if not isinstance(topic, str) or not isinstance(queue, int) or isinstance(queue, bool):
            raise InvalidArgument(
                "a queue is named by its topic and number", operation="pull", expected="(str, int)", observed=plain((topic, queue))
            )
        owned = self._owned.get((topic, queue))
        if owned is None or owned.keeper.ended.is_set():
            raise InvalidArgument(
                "the queue is not this consumer's",
                operation="pull",
                object=f"{topic} queue {queue}",
                expected=", ".join(f"{name} queue {number}" for name, number in self.assignment) or "none yet",
            )
        return owned


def _settled(cell: QueueCell, generation: int, position: int) -> QueueCell:
    """Settled below ``position``, unless the cell was reset."""
    return cell if cell.generation != generation else replace(cell, settled=SettledOffsets(max(position, cell.settled.floor)))
