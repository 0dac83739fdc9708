"""The other members whose end one member watches for."""

from __future__ import annotations

import math
from collections.abc import Sequence

import xxhash

from .member_context import MemberContext

_WATCHED = 7
"""The closely watched members. A member that is below its share, or would be if another one ended, watches all."""
_LEASES_BETWEEN_LOOKS = 2
"""The leases between looks at other members."""


class WatchedMembers:
    """The closely watched members, and the rest."""

    def __init__(self, context: MemberContext) -> None:
        self._context = context
        self.members: frozenset[str] = frozenset()
        self._looked_at_all_s = -math.inf

    async def find_over(self, others: Sequence[str], now_s: float, *, everybody: bool) -> set[str]:
        """Members that are over for certain. Live ones are watched: all, or the neighbours on a ring."""
        closely = others if everybody else _next_to(self._context.member.id, others)
        looked_at = closely
        if now_s >= self._looked_at_all_s + _LEASES_BETWEEN_LOOKS * self._context.lease_s:
            looked_at, self._looked_at_all_s = others, now_s
        over = await self._context.find_over(looked_at)
        self.members = frozenset(closely) - over
        return over

    async def look(self) -> bool:
        """Look at the watched members. Returns whether one is dead."""
        await self._context.watch.look(self.members)
        return self.has_dead()

    def has_dead(self) -> bool:
        return any(self._context.watch.is_dead(other) for other in self.members)

    def due_s(self) -> float:
        return self._context.watch.due_s(self.members)


def _next_to(me: str, others: Sequence[str]) -> Sequence[str]:
    return sorted(others, key=lambda other: (_place(other) - _place(me)) % 2**64)[:_WATCHED]


def _place(member: str) -> int:
    return xxhash.xxh64_intdigest(member.encode())
