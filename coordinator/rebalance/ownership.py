"""The queues that one member owns: taken when free or their owner died, given back when others have fewer."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from ...log.errors import RetryError, TopicDeleted, UnknownOutcome
from ...log.runtime.backoff import Backoff
from ..cells.keys import queue_key
from ..groups.record import ALL, GroupDeleted, GroupNotFound, GroupRecord
from ..queues.keeper import OwnershipLost, QueueKeeper
from .balance import Queue, below_share, contested, inherits, plan, sharing
from .member_context import MemberContext
from .owned_queues import CellBeginning, CellKey, OwnedQueues, beginning, unended
from .owner_scan import OwnerScan
from .recent_writes import RecentWrites
from .watched_members import WatchedMembers

_PAUSE_S = 0.05
"""The least time between two rounds."""


@dataclass(frozen=True, slots=True)
class RebalanceRound:
    """The result of looking around once."""

    record: GroupRecord
    """The record: settings, positions, commands."""
    taken: Mapping[Queue, QueueKeeper] = field(default_factory=dict)
    drain: tuple[Queue, ...] = ()
    """Queues to drain, then `QueueKeeper.release`."""


class Ownership:
    """The queues of one member of a consumer group. ``queues`` has the number of queues of each consumed topic; ``key`` and ``begin`` give their
    cells' keys and first contents.

    The consumer's loop calls `round`, obeys it, waits in `rest`, and begins again. After a round that raised `RetryError` or `UnknownOutcome`, the
    next one reports all changes.
    """

    def __init__(
        self, context: MemberContext, queues: Mapping[str, int], *, key: CellKey = queue_key, begin: CellBeginning = beginning
    ) -> None:
        self._context = context
        self._queues = dict(queues)
        self._owned = OwnedQueues(context, key, begin)
        self._scan = OwnerScan(context, self._owned)
        self._watched = WatchedMembers(context)
        self._written = RecentWrites(context)
        self._topics: Mapping[str, tuple[str, ...]] = {}
        self._below_share = True
        self._inherits = True
        """Whether the end of another member would leave this one below its share."""
        self._round_s = -math.inf
        self._known_s: float | None = None
        """When the others know of the leaving: infinite before the write. None: it stays."""
        self._pause = Backoff(_PAUSE_S)

    @property
    def keepers(self) -> dict[Queue, QueueKeeper]:
        return unended(self._owned.keepers)

    @property
    def expected(self) -> frozenset[Queue]:
        """Queues that others are about to release."""
        return self._scan.pacing.expected(self._round_s) - self._owned.keepers.keys() if self._below_share else frozenset()

    def consume(self, queues: Mapping[str, int]) -> None:
        """Consume other topics from the next round on; the caller releases former ones' queues."""
        self._queues = dict(queues)

    def consumes(self, queue: Queue) -> bool:
        return queue[0] in self._queues

    def wake(self) -> None:
        """End the rest: something may have changed."""
        self._context.woken.set()

    async def round(self) -> RebalanceRound:
        """Look once. Raises `LeaseLost` when the member has ended, and what ``groups`` and the table raise."""
        context, owned = self._context, self._owned
        self._round_s = context.clock.monotonic_s()
        context.check_lease(owned.keepers.values())
        await self._written.look(self.keepers)
        if owned.forget_ended():
            self._scan.pacing = self._scan.pacing.changed(self._round_s)
        record = await context.groups.get(context.group)
        if self._known_s is not None:
            if self._known_s == math.inf:
                await self.give_up()  # the table did not answer before
            self._below_share, self._watched.members, self._pause = False, frozenset(), Backoff(_PAUSE_S)
            return RebalanceRound(record, owned.take_unannounced(), tuple(owned.keepers) if self._round_s >= self._known_s else ())
        me = context.member.id
        if me not in record.members:
            record = await context.join(record, lambda before: before.joined_by(me))
        others = [member for member in record.members if member != me]
        everybody = self._below_share or self._inherits or not owned.keepers
        over = await self._watched.find_over(others, self._round_s, everybody=everybody)
        topics = {member: self._topics_of(member) for member in record.members if member not in over}
        await owned.settle_doubts(record)
        drain = await self._even_out(topics, record)
        if over:
            record = await context.update(lambda before: before.left_by(*over))
        if not self._watched.has_dead():
            self._pause = Backoff(_PAUSE_S)
        return RebalanceRound(record, owned.take_unannounced(), drain)

    async def rest(self) -> None:
        context, watched = self._context, self._watched
        await context.sleep(self._pause.next_s())
        end_s = self._round_s + context.beat_s
        if self._below_share:
            end_s = min(end_s, self._scan.pacing.due_s)
        if self._known_s is not None and self._round_s < self._known_s:
            end_s = min(end_s, self._known_s)
        while not context.woken.is_set() and not context.member.ended.is_set() and context.clock.monotonic_s() < end_s:
            if await watched.look():
                break
            await context.sleep(min(end_s, watched.due_s()) - context.clock.monotonic_s())
        context.woken.clear()

    async def give_up(self) -> None:
        """Begin to leave; may be repeated. Rounds drain all queues once the others know; grants go on until then, as a queue released sooner would
        lie idle.
        """
        context = self._context
        if self._known_s is None:
            self._known_s = math.inf
        self.wake()
        alone = True
        with suppress(GroupNotFound, GroupDeleted, TopicDeleted):  # its heartbeat says it too
            record = await context.update(lambda before: before.left_by(context.member.id))
            alone = all(context.watch.is_dead(member) for member in record.members)
        known_s = context.clock.monotonic_s() + (0.0 if alone else context.beat_s + _PAUSE_S)
        self._known_s = min(self._known_s, known_s)

    async def leave(self) -> None:
        """Release the queues, with nothing in flight, and leave; the others see it on return."""
        try:
            if self._known_s is None:
                await self.give_up()
            for keeper in self.keepers.values():
                with suppress(OwnershipLost):
                    await keeper.release()
        except (RetryError, UnknownOutcome):
            pass  # the heartbeat says it too: a member that is not listed there is over, with all that it owned
        finally:
            await self._context.member.leave()

    def _topics_of(self, member: str) -> tuple[str, ...]:
        listed = self._context.watch.listed(member) if member != self._context.member.id else None
        return listed.topics if listed is not None and ALL not in listed.topics else tuple(self._queues)

    async def _even_out(self, topics: Mapping[str, tuple[str, ...]], record: GroupRecord) -> tuple[Queue, ...]:
        """Take free queues of this member's share. Returns those beyond it."""
        me, owned, scan = self._context.member.id, self._owned, self._scan
        if topics != self._topics:
            self._topics = topics
            scan.pacing = scan.pacing.changed(self._round_s)
        shared = sharing(topics, self._queues)
        below = below_share(me, shared, owned.keepers)
        self._below_share = bool(below)
        found = await scan.read([queue for _, queues in below for queue in queues], self._round_s) if below else {}
        drain: list[Queue] = []
        wanted: list[Queue] = []
        for members, queues in shared:
            mine = dict.fromkeys((queue for queue in queues if queue in owned.keepers), me)
            # A queue whose cell was not read is not known to be free.
            owners = {queue: scan.owners.get(queue, "") if queue in found else "?" for queue in queues} | mine
            decided = plan(me, members, owners)
            drain += decided.drain
            wanted += decided.take
        # All of them end before this does, whatever one meets: the next round would take a queue beside the take that goes on.
        taking = await asyncio.gather(*(owned.take(queue, found[queue], record) for queue in wanted), return_exceptions=True)
        for error in taking:
            if error is not None:
                raise error
        if found:
            scan.pacing = scan.pacing.contesting(contested(me, below, owned.keepers, scan.owners), self._round_s)
        self._inherits = inherits(me, topics, self._queues, owned.keepers)
        self._watched.members |= {owner for queue in scan.pacing.contested if (owner := scan.owners.get(queue))}
        return tuple(drain)
