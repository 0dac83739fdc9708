"""What consumers tell one another, in groups whose protocol type is ``consumer``: for those who look, as no rebalance needs it."""

from __future__ import annotations

import struct

from ...log.limits import QUEUES_MAX
from .members import ClassicGroup

CONSUMER = "consumer"


def owners(group: ClassicGroup) -> dict[tuple[str, int], str]:
    """The members by the topic and queue that they are assigned, as far as it can be read."""
    if group.protocol_type != CONSUMER:
        return {}
    return {queue: member.id for member in group.members for queue in assigned_queues(member.assignment)}


def assigned_queues(assignment: bytes) -> list[tuple[str, int]]:
    """The topics and queues of an assignment; none if it is of another form."""
    try:
        return _queues(assignment) if assignment else []
    except (struct.error, UnicodeDecodeError, ValueError):
        return []


def subscribed_topics(metadata: bytes) -> list[str]:
    """The topics that a member subscribes to; none if what it tells is of another form."""
    try:
        found, at = [], 6
        for _ in range(_count(struct.unpack_from(">hi", metadata)[1], len(metadata))):
            name, at = _text(metadata, at)
            found.append(name)
    except (struct.error, UnicodeDecodeError, ValueError):
        return []
    return found


def _queues(data: bytes) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    _, topics = struct.unpack_from(">hi", data)
    at = 6
    for _ in range(_count(topics, len(data))):
        name, at = _text(data, at)
        (queues,) = struct.unpack_from(">i", data, at)
        if not 0 <= queues <= QUEUES_MAX:
            raise ValueError(queues)
        found += [(name, queue) for queue in struct.unpack_from(f">{queues}i", data, at + 4)]
        at += 4 + 4 * queues
    return found


def _text(data: bytes, at: int) -> tuple[str, int]:
    """A text, and where it ends."""
    (length,) = struct.unpack_from(">h", data, at)
    end = at + 2 + _count(length, len(data) - at - 2)
    return data[at + 2 : end].decode(), end


def _count(count: int, most: int) -> int:
    if not 0 <= count <= most:
        raise ValueError(count)
    return count
