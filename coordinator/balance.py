"""Which queues a member of a group should take or give back. Every member decides for itself, from what it sees."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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


def shares(members: Sequence[str], queues: int) -> dict[str, int]:
    """How many of the queues each aims at; no two differ by more than one.

    The first ones, which are the oldest members, have the one more. So who joins or leaves moves no queue between two that stay.
    """
    each, more = divmod(queues, len(members))
    return {member: each + (place < more) for place, member in enumerate(members)}


def plan(me: str, members: Sequence[str], owners: Mapping[Queue, str]) -> Plan:
    """``owners`` has every queue that the members share, with its owner, or an empty string when it is free: whose owner is dead is.

    Every member aims at its part of `shares`. It takes free queues up to that, those first that a hash of it and them prefers, so that
    members which start together do not all reach for the same; and it drains what it has beyond that, those first that it likes least.
    """
    mine = [queue for queue, owner in owners.items() if owner == me]
    free = [queue for queue, owner in owners.items() if not owner]
    aim = shares(members, len(owners))[me]
    liked = sorted(mine, key=lambda queue: _liking(me, queue), reverse=True)
    wanted = sorted(free, key=lambda queue: _liking(me, queue), reverse=True)
    return Plan(tuple(wanted[: max(0, aim - len(mine))]), tuple(liked[aim:]))


def sharing(topics: Mapping[str, Collection[str]], queues: Mapping[str, int]) -> list[tuple[tuple[str, ...], list[Queue]]]:
    """Who shares which queues, when ``topics`` says what each member consumes and ``queues`` how many each topic has.

    Topics with the same members, which keep their order, are shared as one. So members that do not all consume the same (a new version of a
    service subscribes to one topic more) still come to own every queue: each of these shares is evened out by itself.
    """
    found: dict[tuple[str, ...], list[Queue]] = {}
    for topic, count in queues.items():
        members = tuple(member for member, consumed in topics.items() if topic in consumed)
        found.setdefault(members, []).extend((topic, queue) for queue in range(count))
    return list(found.items())


def _liking(worker: str, queue: Queue) -> int:
    return xxhash.xxh64_intdigest(f"{worker}\n{queue[0]}\n{queue[1]}".encode())
