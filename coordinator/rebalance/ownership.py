"""The queues that one member owns: taken when they are free, given back when others have fewer, and taken from the dead."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

import xxhash

from ...log.errors import LimitExceeded, RetryError, TopicDeleted, UnknownOutcome
from ...log.runtime.backoff import Backoff
from ...log.runtime.runtime import Runtime
from ..cells.cells import Cells, StoredCell
from ..cells.keys import queue_key
from ..groups.record import ALL, GroupDeleted, GroupNotFound, GroupRecord
from ..queues.cell import QueueCell
from ..queues.codec import decode_cell
from ..queues.commands import begin
from ..queues.keeper import OwnershipLost, QueueKeeper, take
from ..tables import CellVersion
from ..workers.lease import BEATS_PER_LEASE
from ..workers.session import LeaseLost, SessionMember
from ..workers.watch import LeaseWatch
from .balance import Queue, plan, shares, sharing

_PAUSE_S = 0.05
"""The least time between two rounds."""
_POLL_S = 0.3
_POLL_LATER_S = 0.7
"""The time between looks at the cells of queues that another member is about to release: at first, and once that takes long."""
_POLL_SOON_S = 10.0
_SCAN_S = 0.7
_LEASES_BETWEEN_SCANS = 6
"""The longest time between scans, in leases. All cells of other owners are read again and again, less often the longer nothing changes
in them."""
_WATCHED = 7
"""The number of others that a member watches closely when it has its share of queues. With less than its share it watches everybody, as
it may take from anybody."""
_LEASES_BETWEEN_LOOKS = 2
"""The number of leases between looks at members that are not watched closely."""


class GroupRecords(Protocol):
    """The store of the group's record: `Groups`."""

    async def get(self, group: str) -> GroupRecord: ...

    async def update(self, group: str, change: Callable[[GroupRecord], GroupRecord]) -> GroupRecord: ...


@dataclass(frozen=True, slots=True)
class RebalanceRound:
    """The result of looking around once."""

    record: GroupRecord
    """The record as it was read: settings, positions, commands."""
    taken: Mapping[Queue, QueueKeeper] = field(default_factory=dict)
    """The newly taken queues."""
    drain: tuple[Queue, ...] = ()
    """All queues to be given back: grant nothing more, let running handlers end, then `QueueKeeper.release`."""


def beginning(record: GroupRecord, queue: Queue) -> QueueCell | None:
    """The cell of a queue that nobody has taken yet. None when the group has not begun on the topic, which was deleted and made again."""
    topic, number = queue
    position = record.positions.get(topic)
    if position is None or number >= len(position.offsets):
        return None
    return begin(position, number)


class Ownership:
    """The queues of one member of a consumer group. ``queues`` has the number of queues of each consumed topic.

    ``key`` and ``begin`` give the keys and first contents of their cells: the roles that processes play are leased in the same way.

    The consumer's loop calls `round`, does what it says, waits in `rest`, and begins again. After a round that raises `RetryError` or
    `UnknownOutcome`, the next one tells everything that it changed.
    """

    def __init__(
        self,
        cells: Cells,
        groups: GroupRecords,
        watch: LeaseWatch,
        member: SessionMember,
        runtime: Runtime,
        *,
        group: str,
        queues: Mapping[str, int],
        lease_s: float,
        key: Callable[[str, str, int], str] = queue_key,
        begin: Callable[[GroupRecord, Queue], QueueCell | None] = beginning,
    ) -> None:
        self._cells = cells
        self._groups = groups
        self._watch = watch
        self._member = member
        self._clock = runtime.clock
        self._group = group
        self._queues = dict(queues)
        self._lease_s = lease_s
        self._key = key
        self._begin = begin
        self._keepers: dict[Queue, QueueKeeper] = {}
        self._unannounced: dict[Queue, QueueKeeper] = {}
        self._doubtful: dict[Queue, CellVersion | None] = {}
        """Queues that may name this member as their owner though nobody here holds them, now or once a write without an answer arrives. It
        may arrive as long as the cell has this version (None: is absent)."""
        self._leaving = False
        self._known_s = math.inf
        """The time when the others know that this member is leaving."""
        self._woken = asyncio.Event()
        self._round_s = -math.inf
        self._watched: frozenset[str] = frozenset()
        """The other members whose end matters to this one."""
        self._looked_at_all_s = -math.inf
        self._members: Mapping[str, tuple[str, ...]] = {}
        """The members that lived at the last scan, and the topics that each consumed."""
        self._owners: dict[Queue, str] = {}
        """The owners of others' queues, as last read; empty for those whose owner is dead."""
        self._contested: frozenset[Queue] = frozenset()
        """The queues that may be released any moment."""
        self._contested_since_s = -math.inf
        self._poll_s = math.inf
        """The time when contested queues are to be read again."""
        self._scan_s = -math.inf
        """The time when all others are to be read, if this member has less than its share."""
        self._scan_pause_s = _SCAN_S
        self._below_share = True
        self._trouble = False
        """Whether the last round raised, or a dead member could not be fenced."""
        self._pause = Backoff(_PAUSE_S)

    @property
    def keepers(self) -> dict[Queue, QueueKeeper]:
        """The keepers of the queues that it owns now, draining ones included."""
        return {queue: keeper for queue, keeper in self._keepers.items() if not keeper.ended.is_set()}

    @property
    def expected(self) -> frozenset[Queue]:
        """The queues of others that may be released to it any moment, unless they have been so for long."""
        soon = self._below_share and self._round_s - self._contested_since_s < _POLL_SOON_S
        return self._contested - self._keepers.keys() if soon else frozenset()

    def consume(self, queues: Mapping[str, int]) -> None:
        """Consume other topics from the next round on. The caller is to release the queues of topics that are left out."""
        self._queues = dict(queues)

    def consumes(self, queue: Queue) -> bool:
        """Whether a queue is of a topic that it consumes now."""
        return queue[0] in self._queues

    def wake(self) -> None:
        """End the rest: something may have changed."""
        self._woken.set()

    async def round(self) -> RebalanceRound:
        """Look around once. Raises `LeaseLost` when the member has ended, and what ``groups`` and the table raise."""
        self._round_s = self._clock.monotonic_s()
        if self._member.ended.is_set():
            for keeper in self._keepers.values():
                keeper.lose()
            raise LeaseLost("the member is over", operation="own queues", object=self._member.id) from self._member.error
        self._trouble = True
        self._let_go()
        record = await self._groups.get(self._group)
        if self._leaving:
            if self._known_s == math.inf:
                await self.give_up()  # the table did not answer before
            self._below_share, self._watched, self._trouble = False, frozenset(), False
            return RebalanceRound(record, self._take_unannounced(), tuple(self._keepers) if self._round_s >= self._known_s else ())
        if self._member.id not in record.members:
            record = await self._join(record)
        others = [member for member in record.members if member != self._member.id]
        over = await self._find_over(others)
        self._watched = frozenset(other for other in self._closely(others) if other not in over)
        topics = {member: self._topics_of(member) for member in record.members if member not in over}
        await self._settle_doubts(record)
        drain = await self._even_out(topics, record)
        if over:
            record = await self._groups.update(self._group, lambda before: before.left_by(*over))
        self._trouble = self._anybody_dead()
        return RebalanceRound(record, self._take_unannounced(), drain)

    async def rest(self) -> None:
        """Wait until a round may change something: it is time, a member died, a queue may have been released, or `wake` was called."""
        if not self._trouble:
            self._pause = Backoff(_PAUSE_S)
        await self._sleep(self._pause.next_s())
        end_s = self._round_s + self._lease_s / BEATS_PER_LEASE
        if self._below_share:
            end_s = min(end_s, self._poll_s, self._scan_s)
        if self._leaving and self._round_s < self._known_s:
            end_s = min(end_s, self._known_s)
        while not self._woken.is_set() and not self._member.ended.is_set() and self._clock.monotonic_s() < end_s:
            await self._watch.look(self._watched)
            if self._anybody_dead():
                break
            await self._sleep(min(end_s, self._watch.due_s(self._watched)) - self._clock.monotonic_s())
        self._woken.clear()

    async def give_up(self) -> None:
        """Begin to leave. Rounds take nothing more, and let all queues be drained as soon as the others know of it.

        A queue that was released sooner would lie idle until then, so it is better to go on granting. May be repeated.
        """
        self._leaving = True
        self.wake()
        alone = True
        with suppress(GroupNotFound, GroupDeleted, TopicDeleted):  # its heartbeat says it too
            record = await self._groups.update(self._group, lambda before: before.left_by(self._member.id))
            alone = all(self._watch.is_dead(member) for member in record.members)
        known_s = self._clock.monotonic_s() + (0.0 if alone else self._lease_s / BEATS_PER_LEASE + _PAUSE_S)
        self._known_s = min(self._known_s, known_s)

    async def leave(self) -> None:
        """Release the queues that are still owned, in which nothing may be in flight, and leave. The others see it when this returns."""
        try:
            if not self._leaving:
                await self.give_up()
            for keeper in self.keepers.values():
                with suppress(OwnershipLost):
                    await keeper.release()
        except (RetryError, UnknownOutcome):
            pass  # the heartbeat says it too: a member that is not listed there is over, with all that it owned
        finally:
            await self._member.leave()

    def _anybody_dead(self) -> bool:
        return any(self._watch.is_dead(other) for other in self._watched)

    async def _sleep(self, seconds: float) -> None:
        """Sleep, unless it is woken or the member ends."""
        waiting = [asyncio.ensure_future(event.wait()) for event in (self._woken, self._member.ended)]
        try:
            await asyncio.wait(waiting, timeout=max(0.0, seconds), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waiting:
                one.cancel()

    # --- Members ----------------------------------------------------------------------------------------------------------------

    async def _join(self, record: GroupRecord) -> GroupRecord:
        """Join the group; where there is no room, in place of members that are over. Raises `LimitExceeded` while there is none."""
        try:
            return await self._groups.update(self._group, lambda before: before.joined_by(self._member.id))
        except LimitExceeded:
            await self._watch.look(record.all_members)
            over = await self._fenced(record.all_members)
            return await self._groups.update(self._group, lambda before: before.left_by(*over).joined_by(self._member.id))

    async def _find_over(self, others: Sequence[str]) -> set[str]:
        """The other members that are over for certain."""
        looked_at = self._closely(others)
        if self._round_s >= self._looked_at_all_s + _LEASES_BETWEEN_LOOKS * self._lease_s:
            looked_at, self._looked_at_all_s = others, self._round_s
        await self._watch.look(looked_at)
        return await self._fenced(looked_at)

    async def _fenced(self, owners: Iterable[str]) -> set[str]:
        """The owners that are over. A dead one is fenced first, and may turn out to be alive."""
        dead = [owner for owner in owners if self._watch.is_dead(owner)]
        fenced = await asyncio.gather(*(self._watch.fence(owner) for owner in dead))
        return {owner for owner, done in zip(dead, fenced, strict=True) if done}

    def _closely(self, others: Sequence[str]) -> Sequence[str]:
        """The members to watch closely: everybody while this one has room for their queues, else its neighbours on a ring."""
        if self._below_share or not self._keepers:
            return others
        me = _place(self._member.id)
        return sorted(others, key=lambda other: (_place(other) - me) % 2**64)[:_WATCHED]

    def _topics_of(self, member: str) -> tuple[str, ...]:
        if member == self._member.id:
            return tuple(self._queues)
        listed = self._watch.listed(member)
        return listed.topics if listed is not None and ALL not in listed.topics else tuple(self._queues)

    # --- Queues -----------------------------------------------------------------------------------------------------------------

    async def _even_out(self, topics: Mapping[str, tuple[str, ...]], record: GroupRecord) -> tuple[Queue, ...]:
        """Take the free queues that are this member's to take. Returns the queues that it has too many of."""
        if topics != self._members:
            self._members = topics
            self._scan_soon(self._round_s)
        shared = sharing(topics, self._queues)
        me = self._member.id
        lacking = [(members, queues) for members, queues in shared if self._count_mine(queues) < shares(members, len(queues))[me]]
        self._below_share = bool(lacking)
        found = await self._scan([queue for _, queues in lacking for queue in queues]) if lacking else {}
        drain: list[Queue] = []
        wanted: list[Queue] = []
        for members, queues in shared:
            mine = dict.fromkeys((queue for queue in queues if queue in self._keepers), me)
            # A queue whose cell was not read is not known to be free.
            owners = {queue: self._owners.get(queue, "") if queue in found else "?" for queue in queues} | mine
            decided = plan(me, members, owners)
            drain += decided.drain
            wanted += decided.take
        # All of them end before this does, whatever one meets: the next round would take a queue beside the take that goes on.
        taking = await asyncio.gather(*(self._take(queue, found[queue], record) for queue in wanted), return_exceptions=True)
        for error in taking:
            if error is not None:
                raise error
        if found:
            self._expect(lacking)
        self._watched |= {owner for queue in self._contested if (owner := self._owners.get(queue))}
        return tuple(drain)

    def _let_go(self) -> None:
        """Forget keepers that have ended. A keeper that was not released lost its queue to another, or to a write with unknown outcome."""
        for queue, keeper in list(self._keepers.items()):
            if keeper.ended.is_set():
                del self._keepers[queue]
                self._scan_soon(self._round_s)
                if keeper.cell.owner:
                    self._doubtful[queue] = None

    async def _settle_doubts(self, record: GroupRecord) -> None:
        """Take queues that name this member as owner, even if they are too many: nobody else would, while it lives."""
        for queue, version in list(self._doubtful.items()):
            found = await self._cells.read(self._key(self._group, *queue))
            if found is not None and decode_cell(found.data, where=self._key(self._group, *queue)).owner == self._member.id:
                await self._take(queue, found, record)
            elif (found.version if found is not None else None) != version:
                del self._doubtful[queue]

    def _count_mine(self, queues: Sequence[Queue]) -> int:
        return sum(queue in self._keepers for queue in queues)

    async def _scan(self, queues: Sequence[Queue]) -> dict[Queue, StoredCell | None]:
        """Read cells of other owners if it is time to: all of them, or only those that may have been released."""
        if self._round_s >= self._scan_s:
            wanted = [queue for queue in queues if queue not in self._keepers]
            self._scan_s = self._round_s + self._scan_pause_s
            self._scan_pause_s = min(2 * self._scan_pause_s, _LEASES_BETWEEN_SCANS * self._lease_s)
        elif self._round_s >= self._poll_s:
            wanted = [queue for queue in queues if queue in self._contested and queue not in self._keepers]
        else:
            return {}
        stored = await asyncio.gather(*(self._cells.read(self._key(self._group, *queue)) for queue in wanted))
        found = dict(zip(wanted, stored, strict=True))
        owners = {queue: self._owner_in(queue, cell) for queue, cell in found.items()}
        # Their names were read before this look, so that an owner that is not listed now is over.
        strangers = sorted({owner for owner in owners.values() if owner})
        await self._watch.look(strangers)
        free = {"", *await self._fenced(strangers)}
        for queue, owner in owners.items():
            now = "" if owner in free else owner
            if self._owners.get(queue, "") != now:
                self._scan_soon(self._round_s + _SCAN_S)
            self._owners[queue] = now
        return found

    def _scan_soon(self, at_s: float) -> None:
        """Scan soon: something changed, and more may."""
        self._scan_pause_s = _SCAN_S
        self._scan_s = min(self._scan_s, at_s)

    def _owner_in(self, queue: Queue, stored: StoredCell | None) -> str:
        """The owner of a queue; nobody when it is this member without knowing: its take was carried out after all, and nothing
        followed.
        """
        owner = decode_cell(stored.data, where=self._key(self._group, *queue)).owner if stored is not None else ""
        return "" if owner == self._member.id else owner

    async def _take(self, queue: Queue, found: StoredCell | None, record: GroupRecord) -> None:
        begin = self._begin(record, queue)
        if begin is None:
            return
        # From here on it may be carried out, at once or later. What ends the take without an outcome, of whatever kind, leaves it so.
        self._doubtful[queue] = found.version if found is not None else None
        try:
            keeper = await take(self._cells, self._member, self._key(self._group, *queue), begin=begin, found=found)
        except (RetryError, UnknownOutcome):
            return
        del self._doubtful[queue]
        if keeper is not None:
            self._keepers[queue] = keeper
            self._unannounced[queue] = keeper

    def _expect(self, lacking: Sequence[tuple[tuple[str, ...], list[Queue]]]) -> None:
        """Note, after reading cells of others, which queues are about to be released, those that were tried in vain included."""
        contested = set[Queue]()
        for members, queues in lacking:
            aims = shares(members, len(queues))
            if self._count_mine(queues) < aims[self._member.id]:
                owners = {queue: self._owners[queue] for queue in queues if queue in self._owners and queue not in self._keepers}
                counts = Counter(owners.values())
                contested |= {queue for queue, owner in owners.items() if counts[owner] > aims.get(owner, 0)}
        if contested != self._contested:
            self._contested, self._contested_since_s = frozenset(contested), self._round_s
        pause_s = _POLL_S if self._round_s - self._contested_since_s < _POLL_SOON_S else _POLL_LATER_S
        self._poll_s = self._round_s + pause_s if contested else math.inf

    def _take_unannounced(self) -> dict[Queue, QueueKeeper]:
        unannounced, self._unannounced = self._unannounced, {}
        return {queue: keeper for queue, keeper in unannounced.items() if not keeper.ended.is_set()}


def _place(member: str) -> int:
    return xxhash.xxh64_intdigest(member.encode())
