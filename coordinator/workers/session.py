"""A worker's session: a heartbeat cell that lists its members, renewed until it has none or the lease is lost.

A session never comes back. Renewals are conditional, so fencing ends it. It ends itself at its deadline, without asking. Later work has a new id.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from ...log.errors import InternalError, LimitExceeded, PenstockError, ReopenError, unforeseen
from ...log.runtime.backoff import Backoff
from ...log.runtime.runtime import Clock, Runtime
from ..cells.cells import CellChanged, Cells, StoredCell
from ..cells.keys import worker_key
from ..limits import HEARTBEAT_BYTES_MAX
from ..tables import CoordinationMismatch
from .lease import BEATS_PER_LEASE, Heartbeat, LeaseHold, ListedMember, MemberWork, decode_heartbeat, encode_heartbeat

_ATTEMPTS_PER_LEASE = 6
"""The tries within a lease: a request that hangs must not cost the lease."""
_PAUSE_S = 0.02
WORK_MAX = 64
"""The members of whose work a heartbeat tells."""


class LeaseLost(ReopenError):
    """Nothing more may be started: the worker may have been fenced."""

    kind = "lease_lost"


class SessionMember:
    """One live consumer, or player of roles. Its `id` is the owner in cells."""

    def __init__(self, session: Session, listed: ListedMember, clock: Clock) -> None:
        self.id = f"{session.id}/{listed.number}"
        self.listed = listed
        self.ended = asyncio.Event()
        """Set once it may start nothing more."""
        self.error: PenstockError | None = None
        """None when it left."""
        self.busy = False
        """Whether it has work or a loop, and so must call `progressed`."""
        self.work: Callable[[int], MemberWork] | None = None
        """Tells of its work, given its number, with each heartbeat."""
        self._session = session
        self._clock = clock
        self._over = False
        self._progressed_s = clock.monotonic_s()
        self._beats_still = 0

    @property
    def until_s(self) -> float:
        return -math.inf if self._over else self._session.until_s

    def may_start(self) -> bool:
        """Whether a handler may be started now. Cheap; from any thread."""
        return not self._over and self._clock.monotonic_s() < self._session.until_s

    def progressed(self) -> None:
        """A busy member without progress for a lease is taken off."""
        self._progressed_s = self._clock.monotonic_s()
        self._beats_still = 0

    def follow(self, task: asyncio.Future[None]) -> None:
        """End with the consumer's loop: an error, unless by `leave`."""
        task.add_done_callback(lambda _: self.end(LeaseLost("the loop of the consumer ended", object=self.id)))

    def end(self, error: PenstockError | None) -> None:
        if not self._over:
            self._over = True
            self.error = error
            self.ended.set()
            self._session.dropped(self)

    async def leave(self) -> None:
        """Release queues before. Returns when others can see the end, or the session is over."""
        self.end(None)
        await self._session.stands(lambda heartbeat: self.listed not in heartbeat.members)

    def is_stuck(self, lease_s: float) -> bool:
        """Whether a busy member made no progress for a lease and several heartbeats."""
        self._beats_still = self._beats_still + 1 if self.busy else 0
        return self._beats_still > BEATS_PER_LEASE and self._clock.monotonic_s() - self._progressed_s > lease_s


class Session:
    """One id, heartbeat cell and lease, of ``lease_s`` at each heartbeat."""

    def __init__(self, cells: Cells, runtime: Runtime, *, usual_s: float, lease_s: Callable[[], float], label: str) -> None:
        self.id = runtime.new_id()
        self.until_s = math.inf
        """The lease's end by the monotonic clock; infinite before the first heartbeat."""
        self.over = False
        self.error: PenstockError | None = None
        self.lease_s = usual_s
        """The longest lease perhaps in the cell."""
        self._cells = cells
        self._runtime = runtime
        self._clock = runtime.clock
        self._usual_s = usual_s
        self._wanted_s = lease_s
        self._label = label
        self._key = worker_key(self.id)
        self._members: dict[int, SessionMember] = {}
        self._numbers = 0
        self._leaving = False
        self._beat = 0
        self._sent_s: dict[int, float] = {}
        """The sending times of heartbeats perhaps in the cell."""
        self._stored: StoredCell | None = None
        self._standing: Heartbeat | None = None
        self._renew_s = -math.inf
        self._trouble: BaseException | None = None
        self._backoff = Backoff(_PAUSE_S)
        self._nudge = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def takes_members(self) -> bool:
        return not self.over and not self._leaving

    def admit(self, group: str, topics: Sequence[str]) -> SessionMember:
        """A new member, idle until a heartbeat lists it. Raises `LimitExceeded` for a consumer without room."""
        listed = ListedMember(self._numbers + 1, group, tuple(topics))
        if group:
            self._check_room(listed)
        self._numbers += 1
        member = SessionMember(self, listed, self._clock)
        self._members[self._numbers] = member
        self.renew_soon()
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())
        return member

    def members(self) -> list[SessionMember]:
        return list(self._members.values())

    def dropped(self, member: SessionMember) -> None:
        self._members.pop(member.listed.number, None)
        self.renew_soon()

    def renew_soon(self) -> None:
        self._nudge.set()

    async def stands(self, condition: Callable[[Heartbeat], bool]) -> bool:
        """Wait for a confirmed heartbeat with the condition. False when the session ended first."""
        while not self.over:
            if self._standing is not None and condition(self._standing):
                return True
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            await waiting
        return False

    async def finished(self) -> None:
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            await self._renew()
            while not self.over:
                await self._rest()
                await self._renew()
            if self._stored is not None:
                await self._cells.drop(self._key, on=self._stored)  # it is fenced, and an absent one means the same
        except PenstockError as error:
            self._end(error)
        except Exception as error:  # noqa: BLE001 - it must end the members, not vanish in a task
            self._end(unforeseen(error, operation="renew a worker's heartbeat"))
        finally:
            self._end(LeaseLost("the worker was cancelled", object=self.id))

    async def _renew(self) -> None:
        self._nudge.clear()
        now_s = self._clock.monotonic_s()
        self._check_deadline(now_s)
        for member in self.members():
            if member.is_stuck(self._usual_s):
                member.end(LeaseLost("the consumer has work, but did nothing for a lease", object=member.id))
        self._leaving = not self._members
        heartbeat = self._next_heartbeat()
        # Others may see a shorter lease from the moment it is sent, so it counts from now on, whatever the answer.
        hold = LeaseHold(heartbeat.lease_ms / 1000, now_s)
        self.until_s = min(self.until_s, hold.until_s)
        self.lease_s = max(self.lease_s, hold.lease_s)
        self._sent_s[heartbeat.beat] = now_s
        try:
            async with asyncio.timeout(min(hold.lease_s / _ATTEMPTS_PER_LEASE, self.until_s - now_s)):
                stored = await self._cells.write(self._key, encode_heartbeat(heartbeat), on=self._stored, deadline_s=self.until_s)
        except CellChanged as changed:
            self._adopt(changed.stored)
        except (InternalError, CoordinationMismatch):
            raise
        except TimeoutError:
            self._trouble = TimeoutError(f"the table did not answer in time: {_named(self._cells.url)}")
        except PenstockError as error:
            # No right, or no room: either may pass before the lease has run out.
            self._trouble = error
        else:
            self._adopt(stored)

    def _next_heartbeat(self) -> Heartbeat:
        self._beat += 1
        members = list(self._members.values())
        work = tuple(one.work(one.listed.number) for one in members if one.work is not None)
        return replace(self._heartbeat(member.listed for member in members), work=work[:WORK_MAX])

    def _heartbeat(self, listed: Iterable[ListedMember]) -> Heartbeat:
        return Heartbeat(
            worker=self.id,
            lease_ms=round(self._wanted_s() * 1000),
            beat=self._beat,
            fenced=self._leaving,
            fenced_ms=self._clock.wall_ms() if self._leaving else 0,
            members=tuple(listed),
            label=self._label,
        )

    def _check_room(self, listed: ListedMember) -> None:
        consumers = [member.listed for member in self._members.values() if member.listed.group]
        size_bytes = len(encode_heartbeat(self._heartbeat((*consumers, listed))))
        if size_bytes > HEARTBEAT_BYTES_MAX:
            raise LimitExceeded(
                "too many consumers in one process, or of too many topics, for its heartbeat",
                operation="join",
                object=listed.group,
                expected=f"consumers and their topics of at most {HEARTBEAT_BYTES_MAX} bytes together",
                observed=f"{size_bytes} bytes",
                hint="run some of them in another process, or let one consumer take several topics",
            )

    def _adopt(self, stored: StoredCell | None) -> None:
        """Go on from the heartbeat in the cell, perhaps an older one, unless fenced."""
        found = decode_heartbeat(stored.data, where=self._key) if stored is not None else None
        sent_s = self._sent_s.get(found.beat) if found is not None else None
        if found is None or (found.fenced and not self._leaving) or sent_s is None:
            raise LeaseLost("the worker was taken for dead by another", object=self.id, observed=self._trouble)
        # All of these heartbeats were conditional on the version that is gone now, so none of the others can land any more.
        self._sent_s.clear()
        self._stored, self._standing = stored, found
        hold = LeaseHold(found.lease_ms / 1000, sent_s)
        self.lease_s, self.until_s, self._renew_s = hold.lease_s, hold.until_s, hold.renew_s
        self._trouble, self._backoff = None, Backoff(_PAUSE_S)
        if found.fenced:
            self._end(None)
            return
        self._check_deadline(self._clock.monotonic_s())
        self._wake()

    def _check_deadline(self, now_s: float) -> None:
        if now_s >= self.until_s:
            raise LeaseLost(
                "the worker's lease could not be renewed in time",
                object=self.id,
                expected=f"within {self.lease_s:g} s",
                observed=self._trouble or "the process stood still",
                hint="its queues go to others; it goes on under a new id",
            )

    async def _rest(self) -> None:
        now_s = self._clock.monotonic_s()
        if self._trouble is not None:
            await asyncio.sleep(min(self._backoff.next_s(), self.until_s - now_s))
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(min(self._renew_s, self.until_s) - now_s):
                await self._nudge.wait()

    def _end(self, error: PenstockError | None) -> None:
        if self.over:
            return
        self.over = True
        self.error = error
        for member in self.members():
            member.end(error)
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None)


def _named(url: str) -> str:
    if url.startswith("sqlite:"):
        return (
            f"{url}; does another process hold the file's lock, one that was stopped in the middle of a write, a shell, a backup?"
        )
    return url
