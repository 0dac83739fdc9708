"""Decides which queues a member of a group should take or give back. Every member decides for itself, from what it sees."""

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
    """The next steps. Both are empty when all is well."""

    take: tuple[Queue, ...] = ()
    drain: tuple[Queue, ...] = ()
    """The queues to be given back: no new grants, running handlers end, then they are released."""


def shares(members: Sequence[str], queues: int) -> dict[str, int]:
    """The number of queues that each member aims at. No two differ by more than one.

    The first members, which are the oldest, have the one more. So a member that joins or leaves moves no queue between two that stay.
    """
    each, more = divmod(queues, len(members))
    return {member: each + (place < more) for place, member in enumerate(members)}


def plan(me: str, members: Sequence[str], owners: Mapping[Queue, str]) -> BalancePlan:
    """The plan of one member. ``owners`` has every queue that the members share, with its owner. The owner is an empty string when the
    queue is free, or its owner is dead.

    Every member aims at its part of `shares`. It takes free queues up to that, in the order of a hash of member and queue. So members that
    start together do not all reach for the same ones. It drains the queues that it has beyond that, in the opposite order.
    """
    mine = [queue for queue, owner in owners.items() if owner == me]
    free = [queue for queue, owner in owners.items() if not owner]
    aim = shares(members, len(owners))[me]
    liked = sorted(mine, key=lambda queue: _liking(me, queue), reverse=True)
    wanted = sorted(free, key=lambda queue: _liking(me, queue), reverse=True)
    return BalancePlan(tuple(wanted[: max(0, aim - len(mine))]), tuple(liked[aim:]))


def sharing(topics: Mapping[str, Collection[str]], queues: Mapping[str, int]) -> list[Share]:
    """The groups of members that share queues. ``topics`` says what each member consumes, and ``queues`` how many queues each topic
    has.

    Topics with the same members, which keep their order, are shared as one. So members that do not all consume the same topics, as with
    a new version of a service, still come to own every queue. Each of these shares is balanced by itself.
    """
    found: dict[tuple[str, ...], list[Queue]] = {}
    for topic, count in queues.items():
        members = tuple(member for member, consumed in topics.items() if topic in consumed)
        found.setdefault(members, []).extend((topic, queue) for queue in range(count))
    return list(found.items())


def lacking(me: str, shared: Sequence[Share], mine: Container[Queue]) -> list[Share]:
    """The shares of which a member has less than its part, with these queues as its own."""
    return [
        (members, queues) for members, queues in shared if sum(queue in mine for queue in queues) < shares(members, len(queues))[me]
    ]


def contested(me: str, shared: Sequence[Share], mine: Container[Queue], owners: Mapping[Queue, str]) -> frozenset[Queue]:
    """The queues that are about to be released, where a member still lacks some: of owners with too many, and those that it tried to take
    in vain. ``owners`` are those of others' queues as far as they are known.
    """
    found = set[Queue]()
    for members, queues in lacking(me, shared, mine):
        aims = shares(members, len(queues))
        others = {queue: owners[queue] for queue in queues if queue in owners and queue not in mine}
        counts = Counter(others.values())
        found |= {queue for queue, owner in others.items() if counts[owner] > aims.get(owner, 0)}
    return frozenset(found)


def _liking(worker: str, queue: Queue) -> int:
    return xxhash.xxh64_intdigest(f"{worker}\n{queue[0]}\n{queue[1]}".encode())
