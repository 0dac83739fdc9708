"""What the members of all groups at this gateway take of its memory, by who joined them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Final

from ..wire.errors import ErrorCode, KafkaRefusal
from .membership.group import GroupLimits, JoinProtocol, Member

_MEMBER_BYTES: Final = 4_096
"""A member takes so much beside what it tells, about."""


class MemberBytes:
    """Counts them, so that who may join many groups cannot fill the gateway with members that it never serves."""

    def __init__(self, limits: GroupLimits) -> None:
        self._limits = limits
        self._of_groups: dict[Hashable, Counter[str]] = {}
        self._of_owners: Counter[str] = Counter()
        self._all = 0

    def check(self, owner: str, more: int) -> None:
        """Raise `KafkaRefusal`, after which clients come again later, where there is no room for so many bytes more."""
        limits, held = self._limits, self._of_owners[owner]
        if more <= 0:
            return
        if held + more > limits.owner_bytes_max or self._all + more > limits.all_bytes_max:
            raise KafkaRefusal(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"the members of {owner} take {held} bytes of this gateway, and may take {limits.owner_bytes_max}, "
                f"those of all {limits.all_bytes_max}",
            )

    def note(self, group: Hashable, members: Iterable[Member]) -> None:
        """Count what a group takes now, in place of what it took."""
        self.forget(group)
        taken: Counter[str] = Counter()
        for one in members:
            taken[one.owner] += bytes_of(one.protocols) + len(one.assignment)
        if taken:
            self._of_groups[group] = taken
            self._of_owners.update(taken)
            self._all += taken.total()

    def forget(self, group: Hashable) -> None:
        """Count nothing of a group any more."""
        for owner, size_bytes in self._of_groups.pop(group, Counter()).items():
            self._all -= size_bytes
            self._of_owners[owner] -= size_bytes
            if not self._of_owners[owner]:
                del self._of_owners[owner]


def bytes_of(protocols: Iterable[JoinProtocol]) -> int:
    """What a member takes before anything is assigned to it."""
    return _MEMBER_BYTES + sum(len(one.name) + len(one.metadata) for one in protocols)
