"""The ports of one process."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import suppress

from ....log.runtime.runtime import Clock
from ...bounds.byte_budget import ByteBudget
from ...bounds.log_throttle import LogThrottle
from ...bounds.rates import OwnerRates
from ...server.listening import PortServer
from ...server.options import GatewayOptions
from ...server.tls import server_context
from .calls import KafkaCallRunner
from .connection import KafkaConnection
from .limits import ConnectionLimits
from .session import KafkaSession

log = logging.getLogger("penstock.gateway")


class KafkaServer(PortServer):
    """A port's calls, from `start` to `stop`."""

    def __init__(
        self, options: GatewayOptions, calls: KafkaCallRunner, clock: Clock, limits: ConnectionLimits | None = None
    ) -> None:
        """Raises `InvalidArgument` unless the options' certificate is one."""
        self.limits = limits or ConnectionLimits()
        self.budget = ByteBudget(self.limits.address_bytes, self.limits.all_bytes)
        """The bytes of requests under way."""
        self.is_ready = False
        self._calls = calls
        self._clock = clock
        tls = None if options.tls is None else server_context(options.tls)
        super().__init__(options, tls, self.limits.handshake_s)
        self._connections: set[KafkaConnection] = set()
        self._of_address: Counter[str] = Counter()
        self._none_left = asyncio.Event()
        self._told = LogThrottle()
        self._rates = OwnerRates(self.limits.address_connections_per_s, self.limits.address_connections_at_once)

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    def sessions(self) -> list[KafkaSession]:
        """The identities at the other ends of the open connections."""
        return [connection.session for connection in self._connections]

    async def start(self) -> None:
        """Return once clients can connect. Raises `InvalidArgument` for an unavailable port."""
        await self.listen(self._new_connection)
        self.is_ready = True

    async def stop(self) -> None:
        """Refuse new calls, and return when the others ended or their time is over. Calls with records go on without their clients."""
        self.is_ready = False
        self.stop_listening()
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
