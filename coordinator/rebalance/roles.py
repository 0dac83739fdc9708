"""Roles: work that one process does for a topic, leased like queues."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field

from ...log.errors import ClosedError, PenstockError, RetryError, UnknownOutcome, unforeseen
from ...log.runtime.backoff import Backoff, pause, wait_for
from ...log.runtime.runtime import Runtime
from ..cells.cells import Cells
from ..cells.document import Codec, Document
from ..cells.keys import players_key, role_key
from ..groups.codec import decode_group, encode_group
from ..groups.record import ALL, GroupRecord, GroupSettings
from ..queues.cell import QueueCell
from ..queues.codec import decode_cell
from ..queues.keeper import OwnershipLost, QueueKeeper, take
from ..workers.watch import LeaseWatch
from ..workers.worker import LeaseLost, SessionMember, Worker
from .balance import Queue
from .member_context import MemberContext
from .ownership import Ownership

MAINTENANCE = "maintenance"
"""Publish, compact, retain, trim and collect."""
_LOOK_S = 60.0
_PATIENCE_S = 10.0
_PAUSE_S = 0.1
_AGAIN_S = 5.0

Play = Callable[[str, asyncio.Event], Awaitable[None]]
Report = Callable[[str, PenstockError], None]
"""A callback for errors, with the topic (or ``-``)."""


class Players:
    """The cell with the players of a role: a group's record with members only."""

    def __init__(self, cells: Cells, runtime: Runtime) -> None:
        self._cells = cells
        self._clock = runtime.clock

    async def get(self, role: str) -> GroupRecord:
        return await self._document(role).read()

    async def update(self, role: str, change: Callable[[GroupRecord], GroupRecord]) -> GroupRecord:
        return await self._document(role).change(change)

    def _document(self, role: str) -> Document[GroupRecord]:
        return Document(self._cells, self._clock, players_key(role), _RECORD, absent=_EMPTY)


_RECORD = Codec(encode_group, decode_group)
_EMPTY = GroupRecord(settings=GroupSettings())


@dataclass(frozen=True, kw_only=True)
class OfferedRole:
    """A role that a process offers to play."""

    role: str = MAINTENANCE
    topics: Callable[[], Awaitable[Collection[str]]]
    """The topics to play it for, read once a minute."""
    play: Play
    all_topics: bool = True
    """Whether ``topics`` gives all topics of the lake. If not, only these are shared."""
    wakeup: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when ``topics`` may give more than before."""
    heard: Callable[[GroupRecord], None] = lambda record: None
    """Called with each reading of the players' record."""


async def run_roles(
    cells: Cells,
    worker: Worker,
    watch: LeaseWatch,
    runtime: Runtime,
    part: OfferedRole,
    stop: asyncio.Event,
    *,
    ready: Callable[[], Awaitable[None]] | None = None,
    report: Report = lambda topic, error: None,
    patience_s: float = _PATIENCE_S,
) -> None:
    """Play a role for a fair share of the topics until ``stop`` is set, then leave it to others.

    ``ready`` is awaited before anything is written. Nothing is written in the first ``patience_s``, so a short-lived process takes no part.

    A topic's role has at most one player, except that paused ones may go on: two at once must be harmless. A dead player is replaced when its lease
    has run out, after 75 s where nothing is consumed.

    Faults of the table, and plays that end or raise, are reported, and tried again.
    """
    await pause(stop, patience_s)
    while not stop.is_set():
        player = _Player(cells, watch, runtime, part, report)
        try:
            if ready is not None:
                await ready()
            member = await worker.join("", (ALL,) if part.all_topics else tuple(await part.topics()))
        except ClosedError:
            return
        except PenstockError as error:
            report("-", error)
            await pause(stop, _AGAIN_S)
        else:
            with suppress(LeaseLost):  # it goes on as another member
                await player.live(member, stop, lease_s=worker.lease_s)


async def stand_in(
    cells: Cells,
    worker: Worker,
    watch: LeaseWatch,
    runtime: Runtime,
    part: OfferedRole,
    topic: str,
    stop: asyncio.Event,
    *,
    for_s: float,
    report: Report = lambda topic, error: None,
) -> None:
    """Play a role for a topic without a live player, for so long or until ``stop`` is set. A later player waits for the end. Raises `LeaseLost` when
    the member ended, and what the table raises.
    """
    key, end_s = role_key(topic, part.role), runtime.clock.monotonic_s() + for_s
    beats: dict[str, int] = {}
    while (found := await cells.read(key)) is not None and (owner := decode_cell(found.data, where=key).owner):
        await watch.look([owner])
        if watch.is_dead(owner) and await watch.fence(owner):
            break
        beat = watch.beat(owner)
        if beat is not None and beats.setdefault(owner, beat) != beat:
            return  # it lives
        now_s = runtime.clock.monotonic_s()
        if stop.is_set() or now_s >= end_s:
            return
        await wait_for(max(_PAUSE_S, min(end_s, watch.due_s([owner])) - now_s), stop)
    member = await worker.join("", ())
    try:
        if (keeper := await take(cells, member, key, begin=QueueCell(), found=found)) is None:
            return
        playing = _Playing(topic, keeper, part.play, report, after=None)
        try:
            await wait_for(max(0.0, end_s - runtime.clock.monotonic_s()), stop, member.ended)
            if member.ended.is_set():
                keeper.lose()
            await playing.end()
        finally:
            playing.break_off()
            await asyncio.gather(playing.end(), return_exceptions=True)  # the member leaves when nothing is played any more
        if member.ended.is_set():
            raise LeaseLost("the member is over", operation="stand in", object=topic) from member.error
    finally:
        await member.leave()


class _Player:
    def __init__(self, cells: Cells, watch: LeaseWatch, runtime: Runtime, part: OfferedRole, report: Report) -> None:
        self._cells = cells
        self._watch = watch
        self._runtime = runtime
        self._part = part
        self._report = report
        self._plays: dict[Queue, _Playing] = {}

    async def live(self, member: SessionMember, stop: asyncio.Event, *, lease_s: float) -> None:
        """Play until ``stop``. Raises `LeaseLost`, once its plays have ended."""
        context = MemberContext(
            cells=self._cells,
            groups=Players(self._cells, self._runtime),
            watch=self._watch,
            member=member,
            clock=self._runtime.clock,
            group=self._part.role,
            lease_s=lease_s,
        )
        ownership = Ownership(
            context, {}, key=lambda role, topic, _: role_key(topic, role), begin=lambda record, queue: QueueCell()
        )
        beside = [asyncio.ensure_future(self._look_forever(ownership)), asyncio.ensure_future(_wake_on(stop, ownership))]
        try:
            while not stop.is_set():
                await self._round(ownership)
                with suppress(RetryError, UnknownOutcome):
                    await ownership.rest()
            await asyncio.gather(*(playing.end() for playing in self._plays.values()))
        except asyncio.CancelledError:
            for playing in self._plays.values():
                playing.break_off()
            raise
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await asyncio.gather(*(playing.end() for playing in self._plays.values()), return_exceptions=True)
            if not member.ended.is_set():
                await ownership.leave()

    async def _round(self, ownership: Ownership) -> None:
        try:
            around = await ownership.round()
        except LeaseLost:
            raise
        except PenstockError as error:
            self._report("-", error)
            return
        self._part.heard(around.record)
        for queue, keeper in around.taken.items():
            self._plays[queue] = _Playing(queue[0], keeper, self._part.play, self._report, after=self._plays.get(queue))
        owned = ownership.keepers
        for queue, playing in list(self._plays.items()):
            if playing.ended:
                del self._plays[queue]
            elif queue in around.drain or queue not in owned or not ownership.consumes(queue):
                playing.stop()

    async def _look_forever(self, ownership: Ownership) -> None:
        while True:
            try:
                ownership.consume(dict.fromkeys(await self._part.topics(), 1))
            except PenstockError as error:
                self._report("-", error)
            else:
                ownership.wake()
            await pause(self._part.wakeup, _LOOK_S)
            self._part.wakeup.clear()


class _Playing:
    """A role being played, after any former play of it in this process."""

    def __init__(self, topic: str, keeper: QueueKeeper, play: Play, report: Report, *, after: _Playing | None) -> None:
        self._topic = topic
        self._keeper = keeper
        self._play = play
        self._report = report
        self._stop = asyncio.Event()
        self._task = asyncio.ensure_future(self._run(after))

    @property
    def ended(self) -> bool:
        return self._task.done()

    def stop(self) -> None:
        self._stop.set()

    def break_off(self) -> None:
        self._task.cancel()

    async def end(self) -> None:
        self.stop()
        await self._task

    async def _run(self, after: _Playing | None) -> None:
        if after is not None:
            await after.end()
        backoff = Backoff(_PAUSE_S)
        while not self._stop.is_set():
            try:
                await self._play(self._topic, self._stop)
            except PenstockError as error:
                self._report(self._topic, error)
            except Exception as error:  # noqa: BLE001 - a bug of one role must not end the others
                self._report(self._topic, unforeseen(error, operation="play a role"))
            await pause(self._stop, backoff.next_s())
        if not self._keeper.ended.is_set():
            with suppress(OwnershipLost):
                await self._keeper.release()


async def _wake_on(stop: asyncio.Event, ownership: Ownership) -> None:
    await stop.wait()
    ownership.wake()
