"""The queues that a member should take or give back, as it decides for itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import xxhash

Queue: TypeAlias = tuple[str, int]
"""(topic, queue)."""
Share: TypeAlias = tuple[tuple[str, ...], list[Queue]]
"""Members, and the queues that they share."""


@dataclass(frozen=True, slots=True)
class BalancePlan:
    """The next steps."""

    take: tuple[Queue, ...] = ()
    drain: tuple[Queue, ...] = ()
    """Queues to drain, then release."""


def shares(members: Sequence[str], queues: int) -> dict[str, int]:
    """The queues that each member aims at: no two differ by more than one, the oldest have more. So joins and leaves move no queue between members
    that stay.
    """
    each, more = divmod(queues, len(members))
    return {member: each + (place < more) for place, member in enumerate(members)}


def plan(me: str, members: Sequence[str], owners: Mapping[Queue, str]) -> BalancePlan:
    """The plan of one member. ``owners`` has all shared queues; an empty owner means free, or dead.

    A member takes free queues up to its part of `shares`, by a hash of member and queue, so that members that start together take different ones.
    Queues beyond its part are drained in the opposite order.
    """
    mine = [queue for queue, owner in owners.items() if owner == me]
    free = [queue for queue, owner in owners.items() if not owner]
    aim = shares(members, len(owners))[me]
    liked = sorted(mine, key=lambda queue: _liking(me, queue), reverse=True)
    wanted = sorted(free, key=lambda queue: _liking(me, queue), reverse=True)
    return BalancePlan(tuple(wanted[: max(0, aim - len(mine))]), tuple(liked[aim:]))


def sharing(topics: Mapping[str, Collection[str]], queues: Mapping[str, int]) -> list[Share]:
    """The groups of members that share queues. Topics with the same members are shared as one, so that members with different topics still own every
    queue.
    """
    found: dict[tuple[str, ...], list[Queue]] = {}
    for topic, count in queues.items():
        members = tuple(member for member, consumed in topics.items() if topic in consumed)
        found.setdefault(members, []).extend((topic, queue) for queue in range(count))
    return list(found.items())


def below_share(me: str, shared: Sequence[Share], mine: Container[Queue]) -> list[Share]:
    return [
        (members, queues) for members, queues in shared if sum(queue in mine for queue in queues) < shares(members, len(queues))[me]
    ]


def inherits(me: str, topics: Mapping[str, tuple[str, ...]], queues: Mapping[str, int], mine: Container[Queue]) -> bool:
    """Whether the end of some other member would leave this one below its share. ``topics``: of each member, the oldest first."""
    alike: dict[tuple[tuple[str, ...], bool], str] = {}
    older = True
    for member, consumed in topics.items():
        if member == me:
            older = False
        else:  # those that consume the same, and are all older or all younger, leave the same behind
            alike[consumed, older] = member
    return any(
        below_share(me, sharing({member: topics[member] for member in topics if member != gone}, queues), mine)
        for gone in alike.values()
    )


def contested(me: str, shared: Sequence[Share], mine: Container[Queue], owners: Mapping[Queue, str]) -> frozenset[Queue]:
    """Queues about to be released by owners with too many, where a member lacks some. ``owners`` may be incomplete."""
    found = set[Queue]()
    for members, queues in below_share(me, shared, mine):
        aims = shares(members, len(queues))
        others = {queue: owners[queue] for queue in queues if queue in owners and queue not in mine}
        counts = Counter(others.values())
        found |= {queue for queue, owner in others.items() if counts[owner] > aims.get(owner, 0)}
    return frozenset(found)


def _liking(worker: str, queue: Queue) -> int:
    return xxhash.xxh64_intdigest(f"{worker}\n{queue[0]}\n{queue[1]}".encode())
