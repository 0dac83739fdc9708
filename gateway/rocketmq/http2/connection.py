"""One connection of a client: the shell around a session."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from .calls import GrpcCall, Handlers, unserved
from .frames import ConnectionFault
from .heads import CallHead
from .limits import Http2Limits
from .session import Http2Session
from .streams import Http2Stream

_LEAVE_S: Final = 1.0
"""The time for a client to close its connection when it was told of the end. What it sends meanwhile would undo answers that it did not read."""


class GrpcConnections(Protocol):
    """The connections of one process."""

    calls: int
    """The calls under way of all."""

    def add(self, connection: GrpcConnection) -> None: ...
    def remove(self, connection: GrpcConnection) -> None: ...

    def on_fault(self, peer: str, fault: ConnectionFault) -> None:
        """A connection is closed, as its client broke the protocol."""
        ...


class GrpcConnection(asyncio.Protocol):
    """Runs each call in a task. What calls send in one turn of the loop is written at once."""

    def __init__(self, handlers: Handlers, limits: Http2Limits, connections: GrpcConnections) -> None:
        self._handlers = handlers
        self._limits = limits
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._session = Http2Session(limits, self._begin)
        self._tasks: set[asyncio.Task[None]] = set()
        self._transport: asyncio.Transport | None = None
        self._peer = "?"
        self._is_tls = False
        self._is_closed = False
        self._has_failed = False
        """Whether the client broke the protocol."""
        self._is_ending = False
        self._is_due = False
        """Whether a write is due in the next turn of the loop."""
        self._is_receiving = False
        self._heard_s = self._quiet_s = self._loop.time()
        """When something came, and when the last call ended."""
        self._timer = self._loop.call_later(limits.opening_s, self._look)

    # --- What the loop tells ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "connections are streams"
        self._transport = transport
        self._peer = _peer(transport.get_extra_info("peername"))
        self._is_tls = transport.get_extra_info("sslcontext") is not None
        transport.set_write_buffer_limits(high=self._limits.unsent_bytes)
        self._connections.add(self)
        self._write()

    def data_received(self, data: bytes) -> None:
        if self._has_failed:
            return  # TLS hands over what it has read when it is closed
        now_s = self._loop.time()
        session = self._session
        session.credit.refill(now_s - self._heard_s)
        self._heard_s = now_s
        self._is_receiving = True
        try:
            session.receive(data)
        except ConnectionFault as fault:
            self._has_failed = True
            if session.has_begun:
                session.fail(fault)
                self._write()
            self._close()
            self._connections.on_fault(self._peer, fault)
            return
        finally:
            self._is_receiving = False
        self._write()

    def pause_writing(self) -> None:
        self._session.output.is_paused = True

    def resume_writing(self) -> None:
        self._session.output.is_paused = False
        if self._transport is not None:
            self._transport.resume_reading()
        self._write()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closed = True
        self._timer.cancel()
        for stream in tuple(self._session.streams.values()):
            self._session.lose(stream)
        self._connections.remove(self)

    # --- What the server asks ---

    def end(self) -> None:
        """Take no more calls, and close when those under way are answered."""
        if not self._is_ending:
            self._is_ending = True
            self._session.end()
            self._write()
            self._leave()

    def abort(self) -> list[asyncio.Task[None]]:
        """Close at once, and return the calls that are being cancelled."""
        if self._transport is not None:
            self._transport.abort()
        for task in self._tasks:
            task.cancel()
        return list(self._tasks)

    # --- Calls ---

    def _begin(self, stream: Http2Stream, head: CallHead) -> bool:
        if len(self._tasks) >= self._limits.calls or self._connections.calls >= self._limits.all_calls:
            return False
        call = GrpcCall(
            self._session,
            stream,
            head,
            peer=self._peer,
            is_tls=self._is_tls,
            limits=self._limits,
            on_output=self._write_soon,
        )
        task = call.start(self._handlers(head.path) or unserved)
        self._tasks.add(task)
        self._connections.calls += 1
        task.add_done_callback(self._over)
        return True

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._connections.calls -= 1
        if not self._tasks:
            self._quiet_s = self._loop.time()
            if self._is_ending:
                self._leave()

    def _leave(self) -> None:
        if not self._tasks:
            self._loop.call_later(_LEAVE_S, self._close)

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    # --- Output ---

    def _write_soon(self) -> None:
        """Write now what a lone call sends, and else what all calls of this turn of the loop do."""
        if self._is_receiving or self._is_due:
            return
        if len(self._tasks) == 1:
            self._write()
        else:
            self._is_due = True
            self._loop.call_soon(self._write)

    def _write(self) -> None:
        self._is_due = False
        output, transport = self._session.output, self._transport
        if transport is None or self._is_closed:
            return
        while output.has_output:
            transport.write(output.take_output())
            if output.has_turns:
                output.pump()
        if output.is_paused and transport.get_write_buffer_size() > 2 * self._limits.unsent_bytes:
            transport.pause_reading()

    # --- Time ---

    def _look(self) -> None:
        """Close a connection that never began, has long been without calls, or whose client is gone. One that is silent is asked."""
        now_s, limits = self._loop.time(), self._limits
        silent_s = now_s - self._heard_s
        if not self._session.has_begun or silent_s >= 2 * limits.silence_s:
            self.abort()
            return
        if not self._tasks and now_s - self._quiet_s >= limits.idle_s:
            self.end()
        elif self._tasks and silent_s >= limits.silence_s:
            self._session.ping()
            self._write()
        self._timer = self._loop.call_later(min(limits.idle_s, limits.silence_s) / 2, self._look)


def _peer(address: tuple[str, int] | None) -> str:
    """The peer in gRPC's words."""
    if not address:
        return "?"
    host, port = address[:2]
    host = host.removeprefix("::ffff:")
    return f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"
