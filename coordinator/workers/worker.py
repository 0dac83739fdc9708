"""A consuming process: its lease, the members that live in it, and what is in flight in it."""

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
    """The worker of one open lake. Its heartbeat begins with the first member and ends with the last.

    Its methods are for the event loop's thread. ``label`` is for people only; ids are random, and new for every session.
    """

    def __init__(self, cells: Cells, runtime: Runtime, *, lease_s: float = LEASE_S, label: str = "") -> None:
        self.lease_s = lease_s
        """The usual lease; a worker without traffic takes a longer one."""
        self.in_flight = 0
        """The number of messages granted in this process, of all members, past ones too: their handlers may still run."""
        self._cells = cells
        self._runtime = runtime
        self._label = label
        self._session: Session | None = None
        self._traffic_s = runtime.clock.monotonic_s()
        self._alone: list[object] = []
        """The one that runs alone, then those that wait to; first come, first served."""
        self._left: asyncio.TimerHandle | None = None
        """Runs while the one that is alone has left, and its message is still in flight."""
        self._moved = asyncio.Event()
        self.quiet_listeners: list[Callable[[], None]] = []
        """Callbacks for the time when somebody wants to run alone, so that granted messages that have not begun are taken back, and for
        its end."""
        self._closed = False

    @property
    def id(self) -> str:
        """The id of the present session, or empty."""
        return self._session.id if self._session is not None and not self._session.over else ""

    async def join(self, group: str, topics: Sequence[str] = ()) -> SessionMember:
        """A new member, which all others can see.

        Raises `LeaseLost` when the table could not be reached for a lease, and `LimitExceeded` for a consumer that the heartbeat has no
        room for.
        """
        if self._closed:
            raise ClosedError("the worker was closed", operation="join", object=group)
        if self._session is None or not self._session.takes_members:
            self._touch()
            self._session = Session(
                self._cells, self._runtime, usual_s=self.lease_s, lease_s=self._wanted_lease_s, label=self._label
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
        """Let all members leave."""
        self._closed = True
        if self._session is not None:
            for member in self._session.members():
                member.end(None)
            await self._session.finished()

    # --- Traffic ----------------------------------------------------------------------------------------------------------------

    async def awake(self) -> None:
        """Return once the lease is not the long one of an idle worker. To be called before anything is granted.

        It also returns when the lease is lost. Then no member may start anything.
        """
        self._touch()
        session = self._session
        if session is not None and session.lease_s > self.lease_s:
            session.renew_soon()
            await session.stands(lambda _: session.lease_s <= self.lease_s)

    def started(self, messages: int) -> None:
        """Count messages about to be granted. To be called before a grant is sent, unless the worker is `quiet` for another."""
        if messages and self._alone and self.in_flight + messages > 1:
            raise InternalError("a message must run alone", operation="grant", observed=self.in_flight + messages)
        self._touch()
        self.in_flight += messages

    def finished(self, messages: int) -> None:
        """Count messages whose handlers have ended, or will never start."""
        self._touch()
        self.in_flight -= messages
        if self.in_flight < 0:
            raise InternalError("more messages finished than were started", operation="finish", observed=self.in_flight)
        if self._left is not None and not self.in_flight:
            self._end_alone()
        self._moved.set()

    @property
    def quiet(self) -> bool:
        """Whether somebody runs alone or waits to. Then nobody else may grant anything."""
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
        """Keep all others from starting anything, and wait until nothing is in flight in this process.

        Yields whether that succeeded. It does not when the member ended, or something was still running after ``patience_s``, or
        ``unless`` holds, which is asked whenever something finished. Then the others go on. By default it waits as long as it takes,
        and everybody else waits too.

        Who is cancelled while its message is in flight, as its lease is lost, is alone until that message is finished, for ``left_s`` at most.
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
        """End the time of who left while its message was in flight."""
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
