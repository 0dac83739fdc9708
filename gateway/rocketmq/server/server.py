"""The gRPC server of one process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress

from ...bounds.log_throttle import LogThrottle
from ...server.listening import PortServer
from ...server.options import GatewayOptions
from ...server.tls import server_context
from ..http2.calls import GrpcCall, Handler
from ..http2.connection import GrpcConnection
from ..http2.frames import ConnectionFault, NotHttp2
from ..http2.limits import Http2Limits
from .calls import CallRunner, unknown
from .health import HealthService
from .rpcs import SERVICE, Rpc

log = logging.getLogger("penstock.gateway")

_PREFIX = f"/{SERVICE}/"


async def _unserved(call: GrpcCall) -> bytes:
    return unknown(call.path.removeprefix(_PREFIX))


class RpcServer(PortServer):
    """A port's RPCs, from `start` to `stop`."""

    def __init__(self, options: GatewayOptions, calls: CallRunner, rpcs: Mapping[str, Rpc]) -> None:
        """Raises `InvalidArgument` unless the options' certificate is one."""
        self.health = HealthService()
        # What is a little too large is answered with a status, and the rest by gRPC's own code.
        self.limits = Http2Limits(request_bytes=2 * options.request_bytes_max)
        self.calls = 0
        self._handlers: dict[str, Handler] = {f"{_PREFIX}{name}": calls.handler(rpc) for name, rpc in rpcs.items()}
        self._handlers.update(self.health.handlers())
        self._drain_s = options.drain.total_seconds()
        tls = None if options.tls is None else server_context(options.tls, protocols=("h2",))
        super().__init__(options, tls, self.limits.opening_s)
        self._connections: set[GrpcConnection] = set()
        self._none_left = asyncio.Event()
        self._is_stopping = False
        self._clock = calls.clock
        self._told = LogThrottle()

    async def start(self) -> None:
        """Return once clients can connect. Raises `InvalidArgument` for an unavailable port."""
        await self.listen(lambda: GrpcConnection(self._handler, self.limits, self))
        self.health.is_ready = True

    async def stop(self) -> None:
        """Refuse new calls, and return when the others ended or their time is over."""
        self.health.is_ready = False
        self._is_stopping = True
        self.stop_listening()
        for connection in tuple(self._connections):
            connection.end()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._drain_s):
                await self._wait_for_none()
        cancelled = [task for connection in tuple(self._connections) for task in connection.abort()]
        await asyncio.gather(*cancelled, return_exceptions=True)
        await self._wait_for_none()

    def add(self, connection: GrpcConnection) -> None:
        self._connections.add(connection)
        if self._is_stopping:  # its handshake took until the end
            connection.end()

    def remove(self, connection: GrpcConnection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._none_left.set()

    def on_fault(self, peer: str, fault: ConnectionFault) -> None:
        now_s = self._clock.monotonic_s()
        is_foreign = isinstance(fault, NotHttp2)  # each foreign protocol has its line: a health check does not hide a client's TLS
        address = peer.rpartition(":")[0]
        if self._told.is_due(f"{address} {fault}" if is_foreign else address, now_s):
            level = logging.WARNING if is_foreign else logging.INFO
            log.log(level, "the connection %s is closed: %s", peer, fault)

    def _handler(self, path: str) -> Handler | None:
        return self._handlers.get(path) or (_unserved if path.startswith(_PREFIX) else None)

    async def _wait_for_none(self) -> None:
        while self._connections:
            self._none_left.clear()
            await self._none_left.wait()
