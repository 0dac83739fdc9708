"""A member's view of its group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ...log.errors import LimitExceeded
from ...log.runtime.runtime import Clock
from ..cells.cells import Cells
from ..groups.record import GroupRecord
from ..queues.keeper import QueueKeeper
from ..workers.lease import BEATS_PER_LEASE
from ..workers.session import LeaseLost, SessionMember
from ..workers.watch import LeaseWatch


class GroupRecords(Protocol):
    """The store of the group's record: `Groups`."""

    async def get(self, group: str) -> GroupRecord: ...

    async def update(self, group: str, change: Callable[[GroupRecord], GroupRecord]) -> GroupRecord: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberContext:
    """A member, its group, and its tables and clock."""

    cells: Cells
    groups: GroupRecords
    watch: LeaseWatch
    member: SessionMember
    clock: Clock
    group: str
    lease_s: float
    woken: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def beat_s(self) -> float:
        """The time between two heartbeats of a worker."""
        return self.lease_s / BEATS_PER_LEASE

    def check_lease(self, keepers: Iterable[QueueKeeper]) -> None:
        """Raise `LeaseLost`, and end the keepers, when the member has ended."""
        if self.member.ended.is_set():
            for keeper in keepers:
                keeper.lose()
            raise LeaseLost("the member is over", operation="own queues", object=self.member.id) from self.member.error

    async def update(self, change: Callable[[GroupRecord], GroupRecord]) -> GroupRecord:
        return await self.groups.update(self.group, change)

    async def join(self, record: GroupRecord, joined: Callable[[GroupRecord], GroupRecord]) -> GroupRecord:
        """Join the group, in a dead member's place if it is full. Raises `LimitExceeded`."""
        try:
            return await self.update(joined)
        except LimitExceeded:
            over = await self.find_over(record.all_members)
            return await self.update(lambda before: joined(before.left_by(*over)))

    async def find_over(self, owners: Sequence[str]) -> set[str]:
        """The owners that are over. A silent one is fenced first."""
        await self.watch.look(owners)
        dead = [owner for owner in owners if self.watch.is_dead(owner)]
        fenced = await asyncio.gather(*(self.watch.fence(owner) for owner in dead))
        return {owner for owner, done in zip(dead, fenced, strict=True) if done}

    async def sleep(self, seconds: float) -> None:
        """Sleep until woken, or the member ends."""
        waiting = [asyncio.ensure_future(event.wait()) for event in (self.woken, self.member.ended)]
        try:
            await asyncio.wait(waiting, timeout=max(0.0, seconds), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waiting:
                one.cancel()
