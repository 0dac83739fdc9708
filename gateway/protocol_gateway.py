"""What gateways of all protocols are: a server among its peers, from start to drain."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final, Protocol, Self

from ..aio import Lake
from ..log.metrics import MemoryMetrics, Metric, Metrics, Sample
from ..log.produce.metrics import producer_samples
from .access.authorizer import PrincipalAuthorizer
from .observers.audit import AuditLog
from .observers.calls import AnswerObserver
from .observers.counters import CallCounters
from .observers.spans import spans
from .peers.entries import GatewayEntry
from .peers.registry import PeerRegistry
from .server.options import GatewayOptions

log = logging.getLogger("penstock.gateway")

_SWEEP_S: Final = 5.0


class GatewayServer(Protocol):
    """The ports of one process; 0: there is none. Behind a shared port each process has its own, too."""

    port: int
    own_port: int
    tls_port: int
    own_tls_port: int

    async def start(self) -> None: ...
    async def stop(self) -> None: ...


class ProtocolGateway(ABC):
    """One protocol for a lake, served in an ``async with`` block."""

    server: GatewayServer

    def __init__(self, lake: Lake, options: GatewayOptions, cell: str, metrics: Metrics | None) -> None:
        """``cell``: the key of the cell in which gateways of this protocol find each other."""
        runtime = lake.runtime
        self.lake = lake
        self.metrics = MemoryMetrics() if metrics is None else metrics
        """Metrics of calls and clients, and the library's own."""
        self.peers = PeerRegistry(cell, runtime.new_id()[:12], runtime.clock, advertise=options.advertise)
        self.principals: PrincipalAuthorizer | None = None
        """None: clients prove nothing, and all is allowed."""
        if options.access is not None:
            self.principals = PrincipalAuthorizer.of(options.access, lake.coordination.access.read, runtime.clock)
        self._served = options
        self._sweeper: asyncio.Task[None] | None = None
        self._unwatch: list[Callable[[], None]] = []

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def tls_port(self) -> int:
        """The port with TLS; 0: there is none."""
        return self.server.tls_port

    async def start(self) -> None:
        """Return once clients can connect."""
        self._unwatch = [
            self.metrics.watch(lambda: list(self._gauges())),
            self.metrics.watch(lambda: list(producer_samples(self.lake.producer_statistics()))),
        ]
        await self.server.start()
        host = self._served.address or self._served.host
        own = GatewayEntry(host, self.server.own_port, tls_port=self.server.own_tls_port, signed=self._served.access is not None)
        await self.peers.join(self.lake.coordination, own)
        await self._begin()
        self._sweeper = asyncio.ensure_future(self._sweep())

    async def stop(self) -> None:
        """Drain: refuse new calls, and let the others end."""
        await self.peers.leave()
        await self._end_waiting()
        await self.server.stop()
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)
        await self._close()
        if self.principals is not None:
            await self.principals.close()
        for unwatch in self._unwatch:
            unwatch()

    def _observers(self, latency: Metric, *, system: str, service: str) -> list[AnswerObserver]:
        """The observers of answers. ``system`` and ``service`` are the spans' attributes."""
        observers: list[AnswerObserver] = [CallCounters(self.metrics, latency), AuditLog(every=self._served.audit)]
        tracing = spans(self.lake.runtime.clock, system=system, service=service)
        return observers if tracing is None else [*observers, tracing]

    @abstractmethod
    def _gauges(self) -> Sequence[Sample]:
        """What is read at each scrape."""

    @abstractmethod
    async def _begin(self) -> None:
        """Begin what needs this gateway among its peers."""

    @abstractmethod
    async def _end_waiting(self) -> None:
        """Answer the calls that wait for something to come."""

    @abstractmethod
    async def _close(self) -> None:
        """End what calls used, now that there are none."""

    @abstractmethod
    async def _forget_idle(self) -> None:
        """Let go of what no client needs. It is called every few seconds."""

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            try:
                await self._forget_idle()
            except Exception:
                log.exception("looking after clients and topics failed, and is tried again")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
