"""One connection: its requests in, and their answers out in the same order."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from ....log.limits import MIB
from ...bounds.byte_budget import ByteBudget
from ..wire.errors import KafkaRefusal
from ..wire.fetch import Buffer
from ..wire.frames import FrameSplitter
from .calls import BegunCall, Hangup, KafkaCallRunner
from .limits import OVERHEAD_BYTES, ConnectionLimits
from .session import KafkaSession

log = logging.getLogger("penstock.gateway")

_UNSENT_BYTES_MAX: Final = MIB
"""The next answer waits while the client has more than this to read."""


class Connections(Protocol):
    """The connections of one process."""

    def add(self, connection: KafkaConnection) -> bool:
        """Whether there may be this one more."""
        ...

    def remove(self, connection: KafkaConnection) -> None: ...


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """A call with records whose answer is awaited. It outlives its client."""

    answer: asyncio.Task[list[Buffer] | None]
    held_bytes: int


class KafkaConnection(asyncio.Protocol):
    """Reads requests while there is room for them, runs their calls, and writes the answers in order.

    Room for a request is taken when its length has come, so that it can come whole. It is given back when the answer is written.
    """

    def __init__(
        self,
        calls: KafkaCallRunner,
        budget: ByteBudget,
        limits: ConnectionLimits,
        connections: Connections,
        *,
        request_bytes_max: int,
    ) -> None:
        self.session = KafkaSession("?", 0)
        self._calls = calls
        self._budget = budget
        self._limits = limits
        self._connections = connections
        self._request_bytes_max = request_bytes_max
        self._loop = asyncio.get_running_loop()
        self._splitter = FrameSplitter(request_bytes_max)
        self._frames: asyncio.Queue[tuple[memoryview, int] | None] = asyncio.Queue()
        """Whole requests that did not begin, with the bytes that they hold; None: no more come."""
        self._under_way: deque[_UnderWay] = deque()
        self._is_answering = False
        """Whether a call without records is under way, beside which nothing is."""
        self._unsent: deque[Buffer] = deque()
        """The rest of the answer that is being written."""
        self._quiet = asyncio.Event()
        """Set while all that began is answered."""
        self._quiet.set()
        self._held_bytes = 0
        self._reserved_bytes = 0
        """The part of them for the request that is coming; 0: none."""
        self._is_waiting = False
        """Whether the next request waits for room."""
        self._is_muted = False
        """Whether nothing is read, as the client is throttled."""
        self._give_up: Callable[[], None] | None = None
        self._can_write = True
        self._takes_requests = True
        self._has_begun_all = False
        self._active_s = self._loop.time()
        self._idle: asyncio.TimerHandle | None = None
        self._late: asyncio.TimerHandle | None = None
        self._unproved: asyncio.TimerHandle | None = None
        self._runner: asyncio.Task[None] | None = None

    @property
    def _is_stranger(self) -> bool:
        """Whether a proof of identity is asked for, and did not come."""
        return self._calls.access.asks_proof and not self.session.principal

    def end(self) -> None:
        """Take no more requests, and close when those that came are answered."""
        if self._takes_requests:
            self._takes_requests = False
            self._frames.put_nowait(None)

    def abort(self) -> None:
        """Close at once. A call with records goes on without its client."""
        self._transport.abort()

    # --- What the loop tells ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "connections are streams"
        self._transport = transport
        host, port = (transport.get_extra_info("peername") or ("?", 0))[:2]
        self.session = KafkaSession(str(host), int(port), is_tls=transport.get_extra_info("sslcontext") is not None)
        if not self._connections.add(self):
            self._takes_requests = False
            transport.abort()
            return
        transport.set_write_buffer_limits(high=_UNSENT_BYTES_MAX)
        self._runner = asyncio.ensure_future(self._run_calls())
        if self._is_stranger:
            self._unproved = self._loop.call_later(self._limits.proof_s, self._end_stranger)
        self._check_idle()

    def data_received(self, data: bytes) -> None:
        self._active_s = self._loop.time()
        if self._takes_requests:
            self._splitter.feed(data)
            self._take_requests()

    def pause_writing(self) -> None:
        self._can_write = False

    def resume_writing(self) -> None:
        self._can_write = True
        self._write_answers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._takes_requests = False
        if self._runner is None:
            return
        self._connections.remove(self)
        self._calls.access.leave(self.session)
        self._runner.cancel()
        for timer in (self._idle, self._late, self._unproved):
            if timer is not None:
                timer.cancel()
        if self._give_up is not None:
            self._give_up()
        held_bytes, self._reserved_bytes = self._reserved_bytes, 0
        while not self._frames.empty():
            if (frame := self._frames.get_nowait()) is not None:
                held_bytes += frame[1]
        self._give(held_bytes)
        self._write_answers()

    # --- Requests ---

    def _take_requests(self) -> None:
        """Take what has come, as far as there is room."""
        limit = self._limits.stranger_request_bytes if self._is_stranger else self._request_bytes_max
        self._splitter.frame_bytes_max = min(limit, self._request_bytes_max)
        try:
            while self._takes_requests and not self._is_waiting and (length := self._splitter.next_length()) is not None:
                if not self._reserved_bytes and not self._reserve(length + OVERHEAD_BYTES):
                    self._transport.pause_reading()
                    return
                if (frame := self._splitter.next_frame()) is None:
                    if self._late is None:
                        self._late = self._loop.call_later(self._limits.frame_s, self.abort)
                    return
                if self._late is not None:
                    self._late.cancel()
                    self._late = None
                self._frames.put_nowait((frame, self._reserved_bytes))
                self._reserved_bytes = 0
        except KafkaRefusal as refusal:
            self._calls.log_refusal(None, self.session, refusal)
            self.end()

    def _reserve(self, size_bytes: int) -> bool:
        """Hold the bytes of a request, now or when there is room."""
        most_bytes = self._limits.stranger_bytes if self._is_stranger else self._limits.connection_bytes
        if self._held_bytes and self._held_bytes + size_bytes > most_bytes:
            self._is_waiting = True
            return False

        def granted() -> None:
            self._give_up = None
            self._held_bytes += size_bytes
            self._reserved_bytes = size_bytes
            self._go_on()

        self._give_up = self._budget.take(self.session.address, size_bytes, granted)
        if self._give_up is not None:
            self._is_waiting = True
            return False
        self._held_bytes += size_bytes
        self._reserved_bytes = size_bytes
        return True

    def _give(self, size_bytes: int) -> None:
        if not size_bytes:
            return
        self._held_bytes -= size_bytes
        self._budget.give(self.session.address, size_bytes)
        if self._is_waiting and self._give_up is None:
            self._go_on()

    def _go_on(self) -> None:
        """Read on after a wait for room."""
        self._is_waiting = False
        self._take_requests()
        self._read_on()

    def _read_on(self) -> None:
        if not self._is_waiting and not self._is_muted:
            self._transport.resume_reading()

    async def _mute(self, throttle_ms: int) -> None:
        """Read nothing for a while, as KIP-219 has it: the client was told so in its answer."""
        self._is_muted = True
        self._transport.pause_reading()
        await asyncio.sleep(throttle_ms / 1000)
        self._is_muted = False
        self._read_on()

    async def _run_calls(self) -> None:
        while (came := await self._frames.get()) is not None:
            frame, held_bytes = came
            try:
                begun = await self._calls.begin(frame, self.session)
                carries_records = begun.call.api.carries_records
                if not carries_records:
                    await self._quiet.wait()
            except Hangup:
                self._give(held_bytes)
                break
            except asyncio.CancelledError:
                self._give(held_bytes)
                raise
            if carries_records:
                answer = asyncio.ensure_future(self._calls.answer(begun))
                self._under_way.append(_UnderWay(answer, held_bytes))
                self._quiet.clear()
                answer.add_done_callback(self._write_answers)
            elif not await self._answered(begun, held_bytes) or self.session.is_ending:
                break
            if begun.call.throttle_ms:
                await self._mute(begun.call.throttle_ms)
        self._takes_requests = False
        self._has_begun_all = True
        self._write_answers()

    async def _answered(self, begun: BegunCall, held_bytes: int) -> bool:
        """Answer a call that runs by itself, and return when the client has taken the answer: whether the connection goes on."""
        self._is_answering = True
        try:
            self._unsent.extend(filter(None, await self._calls.answer(begun) or ()))
            self._quiet.clear()
            self._write_answers()
            await self._quiet.wait()
        except Hangup:
            return False
        except Exception:
            log.exception("the connection %s is closed, as no answer could be made", self.session.peer)
            return False
        finally:
            self._is_answering = False
            self._give(held_bytes)
        return True

    # --- Answers ---

    def _write_answers(self, _: object = None) -> None:
        """Write those that are there, in the order of the requests. To who is gone nothing is written."""
        transport = self._transport
        self._write_unsent()
        while self._under_way and not self._unsent and (self._can_write or transport.is_closing()):
            one = self._under_way[0]
            if not one.answer.done():
                return
            self._under_way.popleft()
            if one.answer.cancelled():
                transport.close()
            elif (error := one.answer.exception()) is not None:
                if not isinstance(error, Hangup):
                    log.error("the connection %s is closed, as no answer could be made", self.session.peer, exc_info=error)
                transport.close()
            elif (buffers := one.answer.result()) and not transport.is_closing():
                self._unsent.extend(filter(None, buffers))
                self._write_unsent()
            self._give(one.held_bytes)
        if not self._under_way and not self._unsent:
            self._quiet.set()
            if self._has_begun_all:
                transport.close()

    def _write_unsent(self) -> None:
        """Hand over what the client has room for. The transport copies what it cannot send, and that would be most of a large answer."""
        if self._transport.is_closing():
            self._unsent.clear()
        while self._unsent and self._can_write:
            part: list[Buffer] = []
            room = _UNSENT_BYTES_MAX
            while self._unsent and room > 0:
                part.append(self._unsent.popleft())
                room -= len(part[-1])
            self._active_s = self._loop.time()
            last = part.pop()
            self._transport.writelines(part)
            # By itself: of lines alone, Python 3.12 and some releases of 3.13 tell nobody that the client does not read them.
            self._transport.write(last)

    # --- Time ---

    def _end_stranger(self) -> None:
        if self._is_stranger:
            self.abort()

    def _check_idle(self) -> None:
        """Close where nothing happened, unless the client waits for an answer and reads."""
        left_s = self._active_s + self._limits.idle_s - self._loop.time()
        if left_s <= 0 and not ((self._under_way or self._is_answering) and self._can_write):
            self.abort()
            return
        self._idle = self._loop.call_later(left_s if left_s > 0 else self._limits.idle_s, self._check_idle)
