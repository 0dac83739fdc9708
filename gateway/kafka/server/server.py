"""The ports of one process."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import Counter
from contextlib import suppress

from ....log.errors import InvalidArgument
from ....log.runtime.runtime import Clock
from ...bounds.byte_budget import ByteBudget
from ...bounds.log_throttle import LogThrottle
from ...bounds.rates import OwnerRates
from ...server.options import Endpoint, GatewayOptions
from ...server.tls import server_context
from .calls import KafkaCallRunner
from .connection import KafkaConnection
from .limits import ConnectionLimits

log = logging.getLogger("penstock.gateway")

_BACKLOG = 1_024


class KafkaServer:
    """A port's calls, from `start` to `stop`."""

    def __init__(
        self, options: GatewayOptions, calls: KafkaCallRunner, clock: Clock, limits: ConnectionLimits | None = None
    ) -> None:
        """Raises `InvalidArgument` unless the options' certificate is one."""
        self.limits = limits or ConnectionLimits()
        self.budget = ByteBudget(self.limits.address_bytes, self.limits.all_bytes)
        """The bytes of requests under way."""
        self.is_ready = False
        self.port = 0
        self.own_port = 0
        self.tls_port = 0
        """0: no port with TLS."""
        self.own_tls_port = 0
        self._options = options
        self._calls = calls
        self._clock = clock
        self._tls = None if options.tls is None else server_context(options.tls)
        self._listeners: list[asyncio.Server] = []
        self._connections: set[KafkaConnection] = set()
        self._of_address: Counter[str] = Counter()
        self._none_left = asyncio.Event()
        self._told = LogThrottle()
        self._rates = OwnerRates(self.limits.address_connections_per_s, self.limits.address_connections_at_once)

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    async def start(self) -> None:
        """Return once clients can connect. Raises `InvalidArgument` for an unavailable port."""
        options = self._options
        if options.plaintext:
            self.port = self.own_port = await self._listen(options.port)
            if options.own_port is not None:
                self.own_port = await self._listen(options.own_port)
        if options.tls is not None and self._tls is not None:
            self.tls_port = self.own_tls_port = await self._listen(options.tls.port, self._tls)
            if options.tls.own_port is not None:
                self.own_tls_port = await self._listen(options.tls.own_port, self._tls)
        self.is_ready = True

    async def stop(self) -> None:
        """Refuse new calls, and return when the others ended or their time is over. Calls with records go on without their clients."""
        self.is_ready = False
        for listener in self._listeners:
            listener.close()
        for connection in tuple(self._connections):
            connection.end()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._options.drain.total_seconds()):
                await self._wait_for_none()
        for connection in tuple(self._connections):
            connection.abort()
        await self._wait_for_none()

    def add(self, connection: KafkaConnection) -> bool:
        """Whether there may be this one more connection."""
        address = connection.session.address
        if not self._rates.take(address, self._clock.monotonic_s()):
            if self._told.is_due(f"{address} connects", self._clock.monotonic_s()):
                rate = self.limits.address_connections_per_s
                log.warning("%s connects more than %g times a second, for longer: one more connection is closed", address, rate)
            return False
        of_address, most = self._of_address[address], self.limits.address_connections
        if of_address >= most or len(self._connections) >= self.limits.all_connections:
            if self._told.is_due(address, self._clock.monotonic_s()):
                log.warning(
                    "%s has %d of %d connections to this process, and may have %d of %d: one more is closed",
                    address,
                    of_address,
                    len(self._connections),
                    most,
                    self.limits.all_connections,
                )
            return False
        self._connections.add(connection)
        self._of_address[address] += 1
        return True

    def remove(self, connection: KafkaConnection) -> None:
        address = connection.session.address
        self._connections.discard(connection)
        self._of_address[address] -= 1
        if not self._of_address[address]:
            del self._of_address[address]
        if not self._connections:
            self._none_left.set()

    async def _wait_for_none(self) -> None:
        while self._connections:
            self._none_left.clear()
            await self._none_left.wait()

    def _new_connection(self) -> KafkaConnection:
        return KafkaConnection(self._calls, self.budget, self.limits, self, request_bytes_max=self._options.request_bytes_max)

    async def _listen(self, port: int, context: ssl.SSLContext | None = None) -> int:
        """The port, of the first address where the host has several."""
        try:
            listener = await asyncio.get_running_loop().create_server(
                self._new_connection,
                self._options.host,
                port,
                backlog=_BACKLOG,
                reuse_port=self._options.own_port is not None or None,
                ssl=context,
                ssl_handshake_timeout=None if context is None else self.limits.handshake_s,
            )
        except OSError as error:
            raise InvalidArgument(
                "the gateway cannot listen there",
                operation="start the gateway",
                object=str(Endpoint(self._options.host, port)),
                observed=str(error),
                hint="is another process using the port? choose another with --port, or another address with --host",
            ) from error
        self._listeners.append(listener)
        found: int = listener.sockets[0].getsockname()[1]
        return found
