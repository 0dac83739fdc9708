"""A consuming process: its lease, its members, and its messages in flight."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from ...log.errors import ClosedError, InternalError
from ...log.runtime.runtime import Runtime
from ..cells.cells import Cells
from .lease import LEASE_S, lease_s
from .session import LeaseLost, Session, SessionMember

__all__ = ["LeaseLost", "SessionMember", "Worker"]


class Worker:
    """The worker of one open lake, on the event loop's thread. Its heartbeat begins with the first member and ends with the last. ``label`` is for
    people; ids are new for every session.
    """

    def __init__(self, cells: Cells, runtime: Runtime, *, lease_s: float = LEASE_S, label: str = "") -> None:
        self.lease_s = lease_s
        """An idle worker takes a longer one."""
        self.in_flight = 0
        """The messages granted here, also to past members."""
        self._cells = cells
        self._runtime = runtime
        self.label = label
        self._session: Session | None = None
        self._traffic_s = runtime.clock.monotonic_s()
        self._alone: list[object] = []
        """The member that runs alone, then those that wait to, in order."""
        self._left: asyncio.TimerHandle | None = None
        """Runs while the lone member has left, and its message is in flight."""
        self._moved = asyncio.Event()
        self.quiet_listeners: list[Callable[[], None]] = []
        """Callbacks when a member wants to run alone, to take back grants, and at its end."""
        self._closed = False

    @property
    def id(self) -> str:
        return self._session.id if self._session is not None and not self._session.over else ""

    async def join(self, group: str, topics: Sequence[str] = ()) -> SessionMember:
        """A new member, which all others can see. Raises `LeaseLost` when the table was out of reach for a lease, and `LimitExceeded` for a consumer
        without room in the heartbeat.
        """
        if self._closed:
            raise ClosedError("the worker was closed", operation="join", object=group)
        if self._session is None or not self._session.takes_members:
            self._touch()
            self._session = Session(
                self._cells, self._runtime, usual_s=self.lease_s, lease_s=self._wanted_lease_s, label=self.label
            )
        session = self._session
        member = session.admit(group, topics)
        try:
            listed = await session.stands(lambda heartbeat: member.listed in heartbeat.members)
        except asyncio.CancelledError:
            member.end(None)
            raise
        if not listed or member.ended.is_set():
            raise member.error or LeaseLost("the worker's session ended", operation="join", object=member.id)
        return member

    async def close(self) -> None:
        self._closed = True
        if self._session is not None:
            for member in self._session.members():
                member.end(None)
            await self._session.finished()

    # --- Traffic ----------------------------------------------------------------------------------------------------------------

    @property
    def is_awake(self) -> bool:
        """Whether `awake` would return at once."""
        return self._session is None or self._session.lease_s <= self.lease_s

    async def awake(self) -> None:
        """Return once the lease is not an idle worker's, or lost, before a grant."""
        self._touch()
        session = self._session
        if session is not None and not self.is_awake:
            session.renew_soon()
            await session.stands(lambda _: session.lease_s <= self.lease_s)

    def started(self, messages: int) -> None:
        """Count messages before their grant, unless the worker is `quiet`."""
        if messages and self._alone and self.in_flight + messages > 1:
            raise InternalError("a message must run alone", operation="grant", observed=self.in_flight + messages)
        self._touch()
        self.in_flight += messages

    def finished(self, messages: int) -> None:
        """Count messages whose handlers ended or never start."""
        self._touch()
        self.in_flight -= messages
        if self.in_flight < 0:
            raise InternalError("more messages finished than were started", operation="finish", observed=self.in_flight)
        if self._left is not None and not self.in_flight:
            self._end_alone()
        self._moved.set()

    @property
    def quiet(self) -> bool:
        """Whether a member runs alone or waits to: no other may grant."""
        return bool(self._alone)

    @asynccontextmanager
    async def alone(
        self,
        member: SessionMember,
        *,
        patience_s: float | None = None,
        unless: Callable[[], bool] = lambda: False,
        left_s: float = 0.0,
    ) -> AsyncIterator[bool]:
        """Keep others from starting anything, and wait until nothing is in flight in this process.

        Yields whether that succeeded. It fails when the member ended, when something still ran after ``patience_s`` (default: no limit), or when
        ``unless`` holds, asked at each end of a message.

        A member cancelled with its message in flight stays alone until that is finished, for ``left_s`` at most.
        """
        mine = object()  # queues of one member run alone too, one after the other
        succeeded = stays = False
        self._alone.append(mine)
        self._tell_quiet()

        def over() -> bool:
            return member.ended.is_set() or unless()

        ended = asyncio.ensure_future(member.ended.wait())
        ended.add_done_callback(lambda _: self._moved.set())
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    await self._until(lambda: over() or (self._alone[0] is mine and not self.in_flight))
            succeeded = not over() and self._alone[0] is mine and not self.in_flight
            yield succeeded
        except asyncio.CancelledError:
            stays = succeeded and bool(self.in_flight)
            raise
        finally:
            ended.cancel()
            if stays:
                self._left = asyncio.get_running_loop().call_later(left_s, self._end_alone)
            else:
                self._alone.remove(mine)
                self._tell_quiet()

    def _end_alone(self) -> None:
        assert self._left is not None, "somebody left"
        self._left.cancel()
        self._left = None
        del self._alone[0]
        self._tell_quiet()

    def _tell_quiet(self) -> None:
        self._moved.set()
        for tell in list(self.quiet_listeners):
            tell()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._moved = asyncio.Event() if self._moved.is_set() else self._moved
            await self._moved.wait()

    def _touch(self) -> None:
        self._traffic_s = self._runtime.clock.monotonic_s()

    def _wanted_lease_s(self) -> float:
        idle_s = self._runtime.clock.monotonic_s() - self._traffic_s
        wanted_s = lease_s(usual_s=self.lease_s, idle_s=idle_s, in_flight=self.in_flight > 0)
        return max(wanted_s, self.lease_s)
