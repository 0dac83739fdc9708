"""Queues that a member asks for by name, without a share in any others."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress

from ...log.errors import LimitExceeded, RetryError, TopicDeleted, UnknownOutcome
from ...log.runtime.runtime import Runtime
from ..cells.cells import Cells
from ..cells.keys import queue_key
from ..groups.record import GroupDeleted, GroupNotFound, GroupRecord
from ..queues.codec import decode_cell
from ..queues.keeper import OwnershipLost, QueueKeeper, take
from ..workers.lease import BEATS_PER_LEASE
from ..workers.session import LeaseLost, SessionMember
from ..workers.watch import LeaseWatch
from .balance import Queue
from .ownership import GroupRecords, RebalanceRound, beginning


class Assignment:
    """Takes ``queues`` as soon as their owners are gone, and keeps them until it leaves. Used as `Ownership` is."""

    expected: frozenset[Queue] = frozenset()
    """Always empty: an assignment does not know when queues will be released."""

    def __init__(
        self,
        cells: Cells,
        groups: GroupRecords,
        watch: LeaseWatch,
        member: SessionMember,
        runtime: Runtime,
        *,
        group: str,
        queues: Collection[Queue],
        lease_s: float,
    ) -> None:
        self._cells = cells
        self._groups = groups
        self._watch = watch
        self._member = member
        self._clock = runtime.clock
        self._group = group
        self._queues = tuple(queues)
        self._lease_s = lease_s
        self._keepers: dict[Queue, QueueKeeper] = {}
        self._leaving = False
        self._woken = asyncio.Event()

    @property
    def keepers(self) -> dict[Queue, QueueKeeper]:
        """The keepers of the queues that it owns now."""
        return {queue: keeper for queue, keeper in self._keepers.items() if not keeper.ended.is_set()}

    def wake(self) -> None:
        """End the rest."""
        self._woken.set()

    async def round(self) -> RebalanceRound:
        """Take the queues that are free. Raises as `Ownership.round` does."""
        if self._member.ended.is_set():
            for keeper in self._keepers.values():
                keeper.lose()
            raise LeaseLost("the member is over", operation="own queues", object=self._member.id) from self._member.error
        self._keepers = self.keepers
        record = await self._groups.get(self._group)
        if self._leaving:
            return RebalanceRound(record, {}, tuple(self._keepers))
        if self._member.id not in record.assigned:  # it joins before it takes anything, so that nobody deletes the group under it
            record = await self._join(record)
        if over := await self._over([member for member in record.assigned if member != self._member.id]):
            record = await self._groups.update(self._group, lambda before: before.left_by(*over))
        missing = [queue for queue in self._queues if queue not in self._keepers]
        found = {queue: await self._take(queue, record) for queue in missing}
        taken = {queue: keeper for queue, keeper in found.items() if keeper is not None}
        self._keepers.update(taken)
        return RebalanceRound(record, taken)

    async def rest(self) -> None:
        """Wait until a round may change something."""
        events = [asyncio.ensure_future(event.wait()) for event in (self._woken, self._member.ended)]
        await asyncio.wait(events, timeout=self._lease_s / BEATS_PER_LEASE, return_when=asyncio.FIRST_COMPLETED)
        for one in events:
            one.cancel()
        self._woken.clear()

    async def give_up(self) -> None:
        """Begin to leave: the next round releases all queues."""
        self._leaving = True
        self.wake()

    async def leave(self) -> None:
        """Release the queues that are still owned, in which nothing may be in flight, and leave."""
        try:
            for keeper in self.keepers.values():
                with suppress(OwnershipLost, RetryError, UnknownOutcome):  # a member not listed any more is over with all it owned
                    await keeper.release()
            with suppress(GroupNotFound, GroupDeleted, TopicDeleted, RetryError, UnknownOutcome):
                await self._groups.update(self._group, lambda before: before.left_by(self._member.id))
        finally:
            await self._member.leave()

    async def _join(self, record: GroupRecord) -> GroupRecord:
        """Join the group; where there is no room, in place of members that are over. Raises `LimitExceeded` while there is none."""
        try:
            return await self._groups.update(self._group, lambda before: before.assigned_to(self._member.id))
        except LimitExceeded:
            if not (over := await self._over(record.all_members)):
                raise
            return await self._groups.update(self._group, lambda before: before.left_by(*over).assigned_to(self._member.id))

    async def _over(self, others: Collection[str]) -> list[str]:
        """The other members that are dead, and fenced."""
        if others:
            await self._watch.look(others)
        return [other for other in others if self._watch.is_dead(other) and await self._watch.fence(other)]

    async def _take(self, queue: Queue, record: GroupRecord) -> QueueKeeper | None:
        begin = beginning(record, queue)
        if begin is None:
            return None
        key = queue_key(self._group, *queue)
        found = await self._cells.read(key)
        owner = decode_cell(found.data, where=key).owner if found is not None else ""
        if owner and owner != self._member.id:
            await self._watch.look((owner,))
            if not self._watch.is_dead(owner) or not await self._watch.fence(owner):
                return None
        return await take(self._cells, self._member, key, begin=begin, found=found)
