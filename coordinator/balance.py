"""Which queues a member of a group should take or give back. Every member decides for itself, from what it sees."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import xxhash

Queue: TypeAlias = tuple[str, int]
"""(topic, queue)."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do next; both empty when all is well."""

    take: tuple[Queue, ...] = ()
    drain: tuple[Queue, ...] = ()
    """To be given back: no new grants, what runs ends, then released."""


def share(queues: int, members: int) -> int:
    """How many each aims at."""
    return -(-queues // members)


def plan(me: str, alive: Iterable[str], owners: Mapping[Queue, str]) -> Plan:
    """``owners`` has every queue that the members share, with its owner, or an empty string when it is free: whose owner is dead is.

    Every member aims at its `share`. It takes free queues up to that, those first that a hash of it and them prefers, so that members
    which start together do not all reach for the same; and it drains what it has beyond that, those first that it likes least.
    """
    mine = [queue for queue, owner in owners.items() if owner == me]
    free = [queue for queue, owner in owners.items() if not owner]
    aim = share(len(owners), len({*alive, me}))
    liked = sorted(mine, key=lambda queue: _liking(me, queue), reverse=True)
    wanted = sorted(free, key=lambda queue: _liking(me, queue), reverse=True)
    return Plan(tuple(wanted[: max(0, aim - len(mine))]), tuple(liked[aim:]))


def sharing(topics: Mapping[str, Collection[str]], queues: Mapping[str, int]) -> list[tuple[frozenset[str], list[Queue]]]:
    """Who shares which queues, when ``topics`` says what each member consumes and ``queues`` how many each topic has.

    Topics with the same members are shared as one. So members that do not all consume the same (a new version of a service subscribes to one
    topic more) still come to own every queue: each of these shares is evened out by itself.
    """
    found: dict[frozenset[str], list[Queue]] = {}
    for topic, count in queues.items():
        members = frozenset(member for member, consumed in topics.items() if topic in consumed)
        found.setdefault(members, []).extend((topic, queue) for queue in range(count))
    return list(found.items())


def _liking(worker: str, queue: Queue) -> int:
    return xxhash.xxh64_intdigest(f"{worker}\n{queue[0]}\n{queue[1]}".encode())
