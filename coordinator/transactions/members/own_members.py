"""The members that this process uses in its producer groups."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from ....log.errors import PenstockError
from ....log.runtime.runtime import Runtime
from ....log.runtime.shared_work import shared
from ..ids import new_member
from ..limits import ROOM_BYTES
from .member_cells import MemberCells
from .producer_groups import ProducerGroups

IDLE_S = 3600.0
"""The idle time after which a member is replaced; others may remove it after a day."""


@dataclass(slots=True)
class _Member:
    id: str
    joined: asyncio.Task[None]
    used_s: float


class OwnMembers:
    """This process's members in its producer groups. No other process begins anything in their cells."""

    def __init__(self, cells: MemberCells, groups: ProducerGroups, runtime: Runtime, ready: Callable[[], Awaitable[None]]) -> None:
        self._cells = cells
        self._groups = groups
        self._runtime = runtime
        self._ready = ready
        self._members: dict[str, list[_Member]] = {}

    def choose(self, group: str) -> str:
        """A member for a new transaction. Await `joined` before the transaction is durable."""
        now_s = self._runtime.clock.monotonic_s()
        for one in self._members.get(group, ()):
            if is_usable(now_s, one.used_s) and not _failed(one.joined) and self._cells.size_bytes(one.id) < ROOM_BYTES:
                return one.id
        member = new_member(self._runtime)
        joining = shared(asyncio.ensure_future(self._join(group, member)))
        self._members.setdefault(group, []).append(_Member(member, joining, now_s))
        return member

    def all(self, group: str) -> list[str]:
        return [one.id for one in self._members.get(group, ())]

    async def joined(self, group: str, member: str) -> None:
        """Raises what the table raises."""
        for one in self._members.get(group, ()):
            if one.id == member:
                await asyncio.shield(one.joined)

    def used(self, group: str, member: str, at_s: float) -> None:
        for one in self._members.get(group, ()):
            if one.id == member:
                one.used_s = max(one.used_s, at_s)

    def abandon(self, group: str, member: str) -> None:
        for one in self._members.get(group, ()):
            if one.id == member:
                one.used_s = -math.inf

    async def leave(self) -> None:
        """Begin nothing more. Members left on lists are removed a day later."""
        await asyncio.gather(*(self._leave(one) for members in self._members.values() for one in members))
        self._members.clear()

    async def _join(self, group: str, member: str) -> None:
        await self._ready()
        await self._groups.join(group, member)

    async def _leave(self, one: _Member) -> None:
        if not one.joined.done() or _failed(one.joined):
            one.joined.cancel()
            return
        with suppress(PenstockError):
            cell = await self._cells.read(one.id)
            if cell is not None and not cell.rows:
                await self._cells.change(one.id, lambda cell: cell.as_left())


async def retire(cells: MemberCells, groups: ProducerGroups, group: str, member: str) -> None:
    """Take a member without transactions off its group's list, after marking its cell as left. It must have been idle for a day: none of its writes
    can land.
    """
    await cells.change(member, lambda cell: cell.as_left())
    await groups.leave(group, member)
    await cells.drop(member)


def is_usable(now_s: float, used_s: float) -> bool:
    return now_s - used_s < IDLE_S


def _failed(joining: asyncio.Task[None]) -> bool:
    return joining.done() and (joining.cancelled() or joining.exception() is not None)
