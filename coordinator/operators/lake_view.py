"""Looks at all consumer groups of a lake again and again, at a bounded cost in requests.

Where the table shows changes, unchanged cells are not read again; messages' ages come from `store_times`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum

from ...log.errors import PenstockError, TopicDeleted, TopicNotFound
from ...log.lake import LogLake
from ...log.message.message import to_us
from ...log.paths import TOPICS, group_name, is_timer_log, topic_of
from ...log.read.reader import Reader
from ...log.read.tables import table_of
from ...log.topic.records import topic_names
from ...log.topic.settings import TopicSettings
from ...log.topic.topics import Topic
from ..cells.cells import Cells, StoredCell
from ..cells.keys import GROUPS, QUEUES, WORKERS, queue_key
from ..groups.codec import decode_group
from ..groups.record import GroupProtocol, GroupRecord
from ..queues.cell import QueueCell, removed_queue
from ..queues.codec import decode_cell
from ..queues.commands import begin, caught_up
from ..registry.former_work import NOTHING, FormerWork, works_left
from ..workers.lease import Heartbeat, Sighting, decode_heartbeat, is_expired, sighting_of
from ..workers.liveness import WorkerState, WorkerStatus, state_of
from .classic_queues import ClassicLook, keys_of
from .describe import QueueProgress, oldest_unsettled, queue_progress
from .listed_ends import ListedEnds
from .store_times import StoreTimeMark, StoreTimes

READS_MAX = 64
"""The messages that one look reads for their age."""
_AT_ONCE = 32
_AGES_AT_ONCE = 8
_LISTED_TOPICS_MIN = 8
"""The topics from which one LIST costs less than a request each."""
_LISTED_KEYS = 60
_LISTED_KEYS_MAX = 60_000
"""The objects of a topic, and of all, up to which a LIST costs less."""
_LOOKS_WITHOUT_LIST = 30
"""The looks without LIST after one with too many objects."""
_PREFIXES = (GROUPS, QUEUES, WORKERS)


class UnreadKind(StrEnum):
    """The kinds of unread things."""

    LOOK = "look"
    """Everything: neither groups nor topics could be listed."""
    GROUP = "group"
    QUEUE = "queue"
    WORKER = "worker"
    TOPIC = "topic"
    TIMERS = "timers"


@dataclass(frozen=True, slots=True)
class QueueOverview:
    """One queue of a group."""

    progress: QueueProgress
    lag_ms: int | None
    """The age of the oldest message that is not settled; None while unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOverview:
    """A consumer group on one topic that it has begun."""

    group: str
    topic: str
    consumers: int
    owned: int
    dead_letters: int
    """The durable dead letters. Never falls."""
    queues: tuple[QueueOverview, ...]
    protocol: GroupProtocol = GroupProtocol.PENSTOCK
    """KAFKA: nothing waits, is blocked, parked or a dead letter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTopic:
    """A topic that a group has begun."""

    settings: TopicSettings
    created_ms: int
    offsets: Mapping[int, tuple[int, int]]
    """The earliest kept offset and the one after the last, by queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeOverview:
    """All groups and timers of a lake in one look, without unreadable ones."""

    groups: tuple[GroupOverview, ...] = ()
    topics: Mapping[str, GroupTopic] = field(default_factory=dict)
    timers: Mapping[str, int] = field(default_factory=dict)
    """The delayed messages that wait, by topic."""
    workers: tuple[WorkerStatus, ...] = ()
    """The workers, except those that ended in order."""
    ended_s: float
    """The end of the look, by the monotonic clock."""
    took_s: float


@dataclass(frozen=True, slots=True)
class LiveConsumer:
    """A live consumer, by its worker's heartbeat."""

    id: str
    group: str
    topics: tuple[str, ...]
    """Empty for a consumer that named its queues."""


@dataclass(slots=True)
class _End:
    topic: Topic
    reader: Reader
    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)
    times: dict[int, StoreTimes] = field(default_factory=dict)
    unmoved_ms: int | None = None
    """The time of this look's LIST, if it shows log and table unmoved."""


@dataclass(frozen=True, slots=True)
class _Claim:
    group: str
    topic: str
    cells: Mapping[int, QueueCell]
    former: tuple[QueueCell, ...] = ()
    left: Mapping[int, FormerWork] = field(default_factory=dict)
    """What is to be done in former queues first, by queue."""
    members: frozenset[str] | None = None
    """The members of a group of Kafka's clients. None: the heartbeats of workers name them."""


OnUnread = Callable[[UnreadKind, str, PenstockError], None]
Waiting = Callable[[str], Awaitable[int]]
"""Counts a topic's waiting messages. Raises `TopicNotFound` without timers."""


class LakeView:
    """The looks of one process.

    ``only`` names topics; empty: all. ``precise`` is the error allowed in a message's age, besides a tenth of it. ``lists`` allows one LIST instead
    of many GETs.
    """

    def __init__(
        self,
        lake: LogLake,
        cells: Cells,
        *,
        waiting: Waiting,
        only: Collection[str] = (),
        precise: timedelta,
        lists: bool = False,
    ) -> None:
        self._lake = lake
        self._cells = cells
        self._waiting = waiting
        self._only = frozenset(only)
        self._precise_ms = int(precise.total_seconds() * 1000)
        self._stored: dict[str, StoredCell | PenstockError] = {}
        self._decoded: dict[str, tuple[StoredCell, QueueCell]] = {}
        self._sightings: dict[str, Sighting] = {}
        self._workers: dict[str, WorkerStatus] = {}
        self._ends: dict[str, _End] = {}
        self._first_read = 0
        self._lists = lists and not only
        self._looks_without_list = 0
        self.unread: Counter[tuple[UnreadKind, str]] = Counter()

    async def look(self, *, failed: OnUnread = lambda kind, name, error: None) -> LakeOverview:
        """Raises what fails the whole look. ``failed`` gets each unreadable thing."""

        def note(kind: UnreadKind, name: str, error: PenstockError) -> None:
            self.unread = self.unread + Counter({(kind, name): 1})
            failed(kind, name, error)

        clock = self._lake.runtime.clock
        began_s = clock.monotonic_s()
        try:
            self._stored = await self._cells.read_all(_PREFIXES, self._stored or None)
            members = self._members(note)
            records = self._records(note)
            timed = await self._timed_topics()
        except PenstockError as error:
            note(UnreadKind.LOOK, "", error)
            raise
        names = {name for record in records.values() for name in record.positions if not self._only or name in self._only}
        await self._follow(names, note)
        claims = await self._claims(records, note)
        await self._read_ages(claims, note)
        timers = await self._timers(timed, note)
        groups = []
        for claim in claims:
            groups.append(self._seen(claim, members))
            await asyncio.sleep(0)  # thousands of queues must not hold up what else this process does
        ended_s = clock.monotonic_s()
        topics = {
            name: GroupTopic(settings=end.topic.settings, created_ms=end.topic.record.created_ms, offsets=end.offsets)
            for name, end in self._ends.items()
        }
        return LakeOverview(
            groups=tuple(groups),
            topics=topics,
            timers=timers,
            workers=tuple(one for one in self._workers.values() if one.state is not WorkerState.LEFT),
            ended_s=ended_s,
            took_s=ended_s - began_s,
        )

    # --- Cells ------------------------------------------------------------------------------------------------------------------

    def _members(self, note: OnUnread) -> list[LiveConsumer]:
        now_s = self._lake.runtime.clock.monotonic_s()
        before, self._sightings = self._sightings, {}
        known, self._workers = self._workers, {}
        found: list[LiveConsumer] = []
        for key, stored in self._under(WORKERS):
            worker = key.removeprefix(WORKERS)
            try:
                heartbeat = decode_heartbeat(_content(stored), where=key)
            except PenstockError as error:
                note(UnreadKind.WORKER, worker, error)
                continue
            sighting = self._sightings[worker] = sighting_of(before.get(worker), heartbeat, now_s)
            state = state_of(heartbeat, before.get(worker), sighting, now_s)
            if state is WorkerState.SILENT and worker in known and known[worker].state is WorkerState.LIVES:
                state = WorkerState.LIVES  # its lease still runs since its heart beat
            self._workers[worker] = WorkerStatus(worker, state, heartbeat)
            if not heartbeat.fenced and not is_expired(sighting, now_s):
                found += members_of(heartbeat)
        return found

    def _records(self, note: OnUnread) -> dict[str, GroupRecord]:
        found: dict[str, GroupRecord] = {}
        for key, stored in self._under(GROUPS):
            name = key.removeprefix(GROUPS)
            try:
                name = group_name(name)
                record = decode_group(_content(stored), where=key)
            except PenstockError as error:
                note(UnreadKind.GROUP, name, error)
                continue
            if not record.deleted:
                found[name] = record
        return found

    def _under(self, prefix: str) -> Iterable[tuple[str, StoredCell | PenstockError]]:
        return sorted((key, stored) for key, stored in self._stored.items() if key.startswith(prefix))

    def _cell(self, key: str) -> QueueCell | None:
        stored = self._stored.get(key)
        if stored is None:
            return None
        known = self._decoded.get(key)
        if known is None or known[0] is not stored:
            known = self._decoded[key] = (_raised(stored), decode_cell(_content(stored), where=key))
        return known[1]

    async def _claims(self, records: Mapping[str, GroupRecord], note: OnUnread) -> list[_Claim]:
        found: list[_Claim] = []
        for group, record in records.items():
            for name in sorted(record.positions.keys() & self._ends.keys()):
                try:
                    found.append(self._claim(group, record, name, self._ends[name].topic))
                except PenstockError as error:
                    note(UnreadKind.QUEUE, f"{group}/{name}", error)
            await asyncio.sleep(0)  # as in `look`
        native = [one for one in found if one.members is None]
        wanted = {queue_key(one.group, one.topic, queue) for one in native for queue in range(len(one.cells) + len(one.former))}
        self._decoded = {key: known for key, known in self._decoded.items() if key in wanted}
        return found

    def _claim(self, group: str, record: GroupRecord, name: str, topic: Topic) -> _Claim:
        record = record.following(name, topic.life, topic.settings.queues)
        if record.protocol is GroupProtocol.KAFKA:
            stored = {key: _raised(self._stored[key]) for key in keys_of(group, record) if key in self._stored}
            look = ClassicLook.of(group, record, stored)
            return _Claim(group, name, look.queues(record, name), members=frozenset(look.member_ids))
        position = record.positions[name]
        cells = []
        for queue in range(len(position.offsets)):
            cell = self._cell(queue_key(group, name, queue)) or begin(position, queue)
            cells.append(caught_up(cell, record, name, queue, letters_max=float("inf")))
        former = [self._cell(queue_key(group, name, queue)) for queue in range(len(position.offsets), position.queues_max)]
        removed = tuple(removed_queue(one, position.since) for one in former if one is not None)
        found = dict(enumerate(cells))
        return _Claim(group, name, found, removed, works_left(topic.tail.state.growths, record, name, found))

    # --- Topics -----------------------------------------------------------------------------------------------------------------

    async def _follow(self, names: Collection[str], note: OnUnread) -> None:
        limit = asyncio.Semaphore(_AT_ONCE)
        before, self._ends = self._ends, {}
        await self._prove_unmoved(before)

        async def follow(name: str) -> None:
            async with limit:
                try:
                    self._ends[name] = await self._end(name, before.get(name))
                except TopicNotFound:
                    return
                except PenstockError as error:
                    note(UnreadKind.TOPIC, name, error)

        await asyncio.gather(*map(follow, sorted(names)))

    async def _prove_unmoved(self, known: Mapping[str, _End]) -> None:
        if not self._lists or len(known) < _LISTED_TOPICS_MIN:
            return
        if self._looks_without_list:
            self._looks_without_list -= 1
            return
        clock, most = self._lake.runtime.clock, min(_LISTED_KEYS * len(known), _LISTED_KEYS_MAX)
        sent_s, sent_ms = clock.monotonic_s(), clock.wall_ms()
        objects = await self._lake.store.list(TOPICS, max_keys=most + 1)
        if len(objects) > most:
            self._looks_without_list = _LOOKS_WITHOUT_LIST
            return
        listed = ListedEnds(objects)
        for name, end in known.items():
            entry, table = end.topic.tail.state.entry, table_of(end.topic)
            version = table.snapshot.version
            if table.was_read and listed.of(name).stands(entry=entry, table=end.topic.record.table, version=version):
                end.topic.tail.view.prove(entry, sent_s)
                table.prove(version, sent_s)
                end.unmoved_ms = sent_ms

    async def _end(self, name: str, known: _End | None) -> _End:
        looked_ms = self._lake.runtime.clock.wall_ms()
        if known is not None and known.unmoved_ms is not None:
            looked_ms, known.unmoved_ms = known.unmoved_ms, None
            if await self._lake.topic(name) is known.topic:
                return self._marked(replace(known, offsets=known.reader.known_offsets()), looked_ms)
        try:
            return self._marked(await self._offsets(name, known), looked_ms)
        except TopicDeleted:
            return self._marked(await self._offsets(name, None), looked_ms)

    async def _offsets(self, name: str, known: _End | None) -> _End:
        topic = await self._lake.topic(name)
        end = known if known is not None and known.topic is topic else _End(topic, Reader(topic))
        return replace(end, offsets=await end.reader.offsets())

    def _marked(self, end: _End, looked_ms: int) -> _End:
        stored_ms = end.topic.tail.state.store_time_ms or looked_ms
        times = {
            queue: end.times.get(queue, StoreTimes(self._precise_ms))
            .with_mark(StoreTimeMark(following, stored_ms, looked_ms))
            .thinned(earliest, looked_ms)
            for queue, (earliest, following) in end.offsets.items()
        }
        return replace(end, times=times)

    async def _read_ages(self, claims: Sequence[_Claim], note: OnUnread) -> None:
        wanted: dict[str, dict[int, set[int]]] = {}
        for claim in claims:
            for queue, offset in self._oldest(claim).items():
                if offset is not None:
                    wanted.setdefault(claim.topic, {}).setdefault(queue, set()).add(offset)
        left = READS_MAX
        topics = sorted(wanted)
        turn = self._first_read % len(topics) if topics else 0

        async def read(name: str, most: int) -> int:
            try:
                return await self._read_topic_ages(self._ends[name], wanted[name], most)
            except PenstockError as error:
                note(UnreadKind.TOPIC, name, error)
                return 0

        waiting = [*topics[turn:], *topics[:turn]]
        while waiting and left > 0:
            some = waiting[: min(left, _AGES_AT_ONCE)]
            waiting = waiting[len(some) :]
            self._first_read += len(some)  # the next look begins where this one ended
            left -= sum(await asyncio.gather(*(read(name, left // len(some)) for name in some)))

    async def _read_topic_ages(self, end: _End, wanted: dict[int, set[int]], most: int) -> int:
        """Returns the number of messages read, at most ``most``."""
        left = most
        while left > 0:
            now_ms = self._lake.runtime.clock.wall_ms()
            unknown = {
                queue: min(missing)
                for queue, offsets in wanted.items()
                if (missing := [one for one in offsets if end.times[queue].stored_ms(one, now_ms) is None])
            }
            asked = dict(sorted(unknown.items())[:left])
            if not asked:
                break
            left -= len(asked)
            stored = await end.reader.stored_at(asked)
            for queue, offset in asked.items():
                wanted[queue].discard(offset)
                if (at := stored.get(queue)) is not None:
                    end.times[queue] = end.times[queue].with_message(offset, to_us(at) // 1000)
        return most - left

    def _oldest(self, claim: _Claim) -> dict[int, int | None]:
        offsets = self._ends[claim.topic].offsets
        return {queue: oldest_unsettled(cell, *offsets[queue]) for queue, cell in claim.cells.items() if queue in offsets}

    # --- What is told -----------------------------------------------------------------------------------------------------------

    def _seen(self, claim: _Claim, members: Sequence[LiveConsumer]) -> GroupOverview:
        end, oldest = self._ends[claim.topic], self._oldest(claim)
        now_ms = self._lake.runtime.clock.wall_ms()
        queues = []
        for queue, offset in oldest.items():
            earliest, following = end.offsets[queue]
            stood = queue_progress(
                claim.topic,
                queue,
                claim.cells[queue],
                earliest=earliest,
                following=following,
                lag_time=timedelta(),
                left=claim.left.get(queue, NOTHING),
            )
            stored_ms = None if offset is None else end.times[queue].stored_ms(offset, now_ms)
            lag_ms = 0 if offset is None else None if stored_ms is None else max(0, now_ms - stored_ms)
            queues.append(QueueOverview(stood, lag_ms))
        owners = {one.id for one in members} if claim.members is None else claim.members
        owned = [one.progress.owner for one in queues if one.progress.owner in owners]
        letters = [cell.dead_letters for cell in (*claim.cells.values(), *claim.former)]
        return GroupOverview(
            group=claim.group,
            topic=claim.topic,
            consumers=sum(is_consumer(one, claim.group, claim.topic, owned) for one in members)
            if claim.members is None
            else len(claim.members),
            owned=len(owned),
            dead_letters=sum(one.next_sequence - len(one.assigned) - one.lost for one in letters),
            queues=tuple(queues),
            protocol=GroupProtocol.PENSTOCK if claim.members is None else GroupProtocol.KAFKA,
        )

    # --- Timers -----------------------------------------------------------------------------------------------------------------

    async def _timed_topics(self) -> list[str]:
        if self._only:
            return sorted(self._only)
        return [topic_of(name) for name in await topic_names(self._lake.store) if is_timer_log(name)]

    async def _timers(self, topics: Sequence[str], note: OnUnread) -> dict[str, int]:
        limit, found = asyncio.Semaphore(_AT_ONCE), dict[str, int]()

        async def count(name: str) -> None:
            async with limit:
                try:
                    found[name] = await self._waiting(name)
                except (TopicNotFound, TopicDeleted):
                    return
                except PenstockError as error:
                    note(UnreadKind.TIMERS, name, error)

        await asyncio.gather(*map(count, topics))
        return dict(sorted(found.items()))


def members_of(heartbeat: Heartbeat) -> list[LiveConsumer]:
    """The consumers of a worker."""
    return [LiveConsumer(f"{heartbeat.worker}/{one.number}", one.group, one.topics) for one in heartbeat.members if one.group]


def is_consumer(member: LiveConsumer, group: str, topic: str, owners: Collection[str]) -> bool:
    """Whether a live member consumes a topic: by its heartbeat, or as an owner of named queues."""
    return member.group == group and (topic in member.topics if member.topics else member.id in owners)


def _raised(stored: StoredCell | PenstockError) -> StoredCell:
    if isinstance(stored, PenstockError):
        raise stored
    return stored


def _content(stored: StoredCell | PenstockError) -> bytes:
    return _raised(stored).data
