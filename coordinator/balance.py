"""Which queues a worker should take or give back. Every worker decides for itself, from what it sees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


def plan(me: str, alive: Iterable[str], owners: Mapping[Queue, str]) -> Plan:
    """``owners`` has every queue that the group consumes, with its owner or an empty string; a dead worker's queues count as free.

    Every worker aims at ``ceil(queues / workers)``. It takes free queues up to that, those first that a hash of it and them prefers, so
    that workers which start together do not all reach for the same; and it drains what it has beyond that, those first that it likes least.
    """
    workers = {*alive, me}
    share = -(-len(owners) // len(workers))
    mine = [queue for queue, owner in owners.items() if owner == me]
    free = [queue for queue, owner in owners.items() if owner not in workers]
    liked = sorted(mine, key=lambda queue: _liking(me, queue), reverse=True)
    wanted = sorted(free, key=lambda queue: _liking(me, queue), reverse=True)
    return Plan(tuple(wanted[: max(0, share - len(mine))]), tuple(liked[share:]))


def _liking(worker: str, queue: Queue) -> int:
    return xxhash.xxh64_intdigest(f"{worker}\n{queue[0]}\n{queue[1]}".encode())
