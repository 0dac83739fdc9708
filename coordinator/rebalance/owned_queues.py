"""The queues that one member holds, or may hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...log.errors import RetryError, UnknownOutcome
from ..cells.cells import StoredCell
from ..cells.keys import queue_key
from ..groups.record import GroupRecord
from ..queues.cell import QueueCell
from ..queues.codec import decode_cell
from ..queues.commands import begin
from ..queues.keeper import QueueKeeper, take
from ..tables import CellVersion
from .balance import Queue
from .member_context import MemberContext
from .recent_writes import BEATS_UNTIL_SURE

CellKey = Callable[[str, str, int], str]
"""The key of a cell, by group, topic and queue."""
CellBeginning = Callable[[GroupRecord, Queue], QueueCell | None]


def beginning(record: GroupRecord, queue: Queue) -> QueueCell | None:
    """The first cell of a queue. None: the group has not begun on the topic's present life."""
    topic, number = queue
    position = record.positions.get(topic)
    if position is None or number >= len(position.offsets):
        return None
    return begin(position, number)


def unended(keepers: Mapping[Queue, QueueKeeper]) -> dict[Queue, QueueKeeper]:
    return {queue: keeper for queue, keeper in keepers.items() if not keeper.ended.is_set()}


class OwnedQueues:
    """The keepers of a member's queues."""

    def __init__(self, context: MemberContext, key: CellKey = queue_key, begin: CellBeginning = beginning) -> None:
        self._context = context
        self._key = key
        self._begin = begin
        self.keepers: dict[Queue, QueueKeeper] = {}
        """Keepers, with ended ones until `forget_ended`."""
        self._unannounced: dict[Queue, QueueKeeper] = {}
        self._released_s: dict[Queue, float] = {}
        """When to look whether the table has lost a release: then the cell names this member, and nobody else takes the queue."""
        self._doubtful: dict[Queue, CellVersion | None] = {}
        """Queues that may name this member as owner without a keeper, by an unanswered write, as long as the cell has this version (None:
        is absent).
        """

    def forget_ended(self) -> bool:
        """Forget ended keepers, and return whether there were any."""
        ended = [queue for queue, keeper in self.keepers.items() if keeper.ended.is_set()]
        for queue in ended:
            if self.keepers.pop(queue).cell.owner:
                self._doubtful[queue] = None
            else:
                self._released_s[queue] = self._context.clock.monotonic_s() + BEATS_UNTIL_SURE * self._context.beat_s
        return bool(ended)

    async def read(self, queue: Queue) -> StoredCell | None:
        return await self._context.cells.read(self._key_of(queue))

    def owner_in(self, queue: Queue, stored: StoredCell | None) -> str:
        return decode_cell(stored.data, where=self._key_of(queue)).owner if stored is not None else ""

    async def settle_doubts(self, record: GroupRecord) -> None:
        """Take the queues that name this member as owner, however many."""
        self._doubt_released()
        for queue, version in list(self._doubtful.items()):
            found = await self.read(queue)
            if self.owner_in(queue, found) == self._context.member.id:
                await self.take(queue, found, record)
            elif (found.version if found is not None else None) != version:
                del self._doubtful[queue]

    def _doubt_released(self) -> None:
        """Doubt the releases of a while ago, once."""
        now_s = self._context.clock.monotonic_s()
        for queue in [queue for queue, look_s in self._released_s.items() if look_s <= now_s]:
            del self._released_s[queue]
            if queue not in self.keepers:
                self._doubtful.setdefault(queue, None)

    async def take(self, queue: Queue, found: StoredCell | None, record: GroupRecord) -> None:
        """Take a queue, if the cell is unchanged and the table answers."""
        begin = self._begin(record, queue)
        if begin is None:
            return
        # From here on it may be carried out, at once or later. What ends the take without an outcome, of whatever kind, leaves it so.
        self._doubtful[queue] = found.version if found is not None else None
        try:
            keeper = await take(self._context.cells, self._context.member, self._key_of(queue), begin=begin, found=found)
        except (RetryError, UnknownOutcome):
            return
        del self._doubtful[queue]
        if keeper is not None:
            self.keepers[queue] = self._unannounced[queue] = keeper

    def take_unannounced(self) -> dict[Queue, QueueKeeper]:
        """The queues taken since the last call."""
        unannounced, self._unannounced = self._unannounced, {}
        return unended(unannounced)

    def _key_of(self, queue: Queue) -> str:
        return self._key(self._context.group, *queue)
