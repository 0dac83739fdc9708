"""Queues that a member asks for by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress

from ...log.errors import RetryError, TopicDeleted, UnknownOutcome
from ..cells.keys import queue_key
from ..groups.record import GroupDeleted, GroupNotFound, GroupRecord
from ..queues.codec import decode_cell
from ..queues.keeper import OwnershipLost, QueueKeeper, take
from .balance import Queue
from .member_context import MemberContext
from .owned_queues import beginning, unended
from .ownership import RebalanceRound
from .recent_writes import RecentWrites


class Assignment:
    """``queues``, taken as soon as their owners are gone, and kept. The methods are `Ownership`'s."""

    expected: frozenset[Queue] = frozenset()

    def __init__(self, context: MemberContext, queues: Collection[Queue]) -> None:
        self._context = context
        self._queues = tuple(queues)
        self._keepers: dict[Queue, QueueKeeper] = {}
        self._leaving = False
        self._written = RecentWrites(context)

    @property
    def keepers(self) -> dict[Queue, QueueKeeper]:
        return unended(self._keepers)

    def consume(self, queues: Mapping[str, int]) -> None:
        """Topics may have more queues; others than those that were asked for are not taken."""

    def wake(self) -> None:
        """End the rest."""
        self._context.woken.set()

    async def round(self) -> RebalanceRound:
        """Take the queues that are free. Raises as `Ownership.round` does."""
        context, me = self._context, self._context.member.id
        context.check_lease(self._keepers.values())
        await self._written.look(self.keepers)
        self._keepers = self.keepers
        record = await context.groups.get(context.group)
        if self._leaving:
            return RebalanceRound(record, {}, tuple(self._keepers))
        if me not in record.assigned:  # it joins before it takes anything, so that nobody deletes the group under it
            record = await context.join(record, lambda before: before.assigned_to(me))
        if over := await context.find_over([member for member in record.assigned if member != me]):
            record = await context.update(lambda before: before.left_by(*over))
        missing = [queue for queue in self._queues if queue not in self._keepers]
        found = {queue: await self._take(queue, record) for queue in missing}
        taken = {queue: keeper for queue, keeper in found.items() if keeper is not None}
        self._keepers.update(taken)
        return RebalanceRound(record, taken)

    async def rest(self) -> None:
        await self._context.sleep(self._context.beat_s)
        self._context.woken.clear()

    async def give_up(self) -> None:
        """Let the next round release all queues."""
        self._leaving = True
        self.wake()

    async def leave(self) -> None:
        """Release the queues, with nothing in flight, and leave."""
        context = self._context
        try:
            for keeper in self.keepers.values():
                with suppress(OwnershipLost, RetryError, UnknownOutcome):  # a member not listed any more is over with all it owned
                    await keeper.release()
            with suppress(GroupNotFound, GroupDeleted, TopicDeleted, RetryError, UnknownOutcome):
                await context.update(lambda before: before.left_by(context.member.id))
        finally:
            await context.member.leave()

    async def _take(self, queue: Queue, record: GroupRecord) -> QueueKeeper | None:
        context = self._context
        begin = beginning(record, queue)
        if begin is None:
            return None
        key = queue_key(context.group, *queue)
        found = await context.cells.read(key)
        owner = decode_cell(found.data, where=key).owner if found is not None else ""
        if owner and owner != context.member.id and owner not in await context.find_over((owner,)):
            return None
        return await take(context.cells, context.member, key, begin=begin, found=found)
