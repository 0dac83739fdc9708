"""Detects a log, or a group's record, restored without the cells of its queues: the next owner compares the cell's `LogWitness`, mostly without a
request.
"""

from __future__ import annotations

import shlex
from hashlib import blake2b
from typing import TYPE_CHECKING

from ...log.errors import DataDamaged
from ..groups.record import Position
from .cell import LogWitness, QueueCell

if TYPE_CHECKING:
    from ...log.format.state import TopicState
    from ...log.topic.topics import Topic

_PURPOSE = b"cell of group"
_DIGEST_DIGITS = 16


class InconsistentRestore(DataDamaged):
    """The topic's log, or the consumer group's record, is older than the cells of the group's queues."""

    kind = "inconsistent_restore"


def seen(state: TopicState, secret: str) -> LogWitness:
    return LogWitness(state.entry, _bits_of(state.digest), _group(secret))


def is_ahead(cell: QueueCell, position: Position, queue: int) -> bool:
    """Whether the cell's generation is later than the record's, perhaps read too early."""
    return cell.generation > position.generations[queue]


def of_another_record(cell: QueueCell, position: Position, queue: int, secret: str) -> str | None:
    """The evidence that record and cell have different generations of one number."""
    if cell.seen is None or cell.generation != position.generations[queue]:
        return None
    if cell.seen.group != _group(secret):
        return "the cell was written for another record of the group"
    if cell.seen.entry < position.life:
        return f"the cell was written at entry {cell.seen.entry}, and the topic was created by entry {position.life}"
    return None


def agrees(topic: Topic, queue: int, cell: QueueCell) -> bool:
    """Whether the known log is the cell's, without a request."""
    if not topic.is_current:
        return True  # a reader of it hears that it was deleted
    if _following(cell) > topic.tail.state.next_offset(queue):
        return False
    if cell.seen is None:
        return True
    known = topic.tail.known_digest(cell.seen.entry)
    return known is not None and _bits_of(known) == cell.seen.digest


async def of_another_log(topic: Topic, queue: int, cell: QueueCell) -> str | None:
    """The evidence that the log is another, or shorter. Raises what reading the log raises."""
    if agrees(topic, queue, cell):
        return None
    tail, last = topic.tail, cell.seen
    if _following(cell) > tail.state.next_offset(queue) or (last is not None and last.entry > tail.state.entry):
        await tail.catch_up()
    if not topic.is_current:
        return None
    following = tail.state.next_offset(queue)
    if _following(cell) > following:
        return f"the cell knows of offset {_following(cell) - 1}, and the next one to be written is {following}"
    if last is None:
        return None
    if last.entry > tail.state.entry:
        return f"the cell was written at entry {last.entry}, and the log ends at entry {tail.state.entry}"
    digest = await tail.digest_after(last.entry)
    if digest is None or _bits_of(digest) == last.digest:
        return None
    return f"the cell was written at another entry {last.entry} than the log has"


def inconsistent(why: str, *, group: str, topic: str, queue: int) -> InconsistentRestore:
    reset = shlex.join(["penstock", "group", "reset", group, topic])
    return InconsistentRestore(
        "what was put back from backups does not fit together, and to go on would pass messages over",
        operation="consume",
        object=f"{group}, {topic} queue {queue}",
        observed=why,
        hint=f"put back a coordination table that is as old as the bucket or older; or reset the group: lake.reset_offsets({group!r}, "
        f"{topic!r}, 'earliest'), `{reset} --to earliest`, or to a time before the backup",
    )


def _following(cell: QueueCell) -> int:
    return max(cell.settled.limit, cell.granted.limit)


def _bits_of(digest: str) -> int:
    return int(digest[:_DIGEST_DIGITS], 16)


def _group(secret: str) -> int:
    return int.from_bytes(blake2b(bytes.fromhex(secret), digest_size=8, person=_PURPOSE).digest(), "little")
