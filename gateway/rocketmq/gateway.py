"""A gateway: its rooms around one lake, from start to drain."""

from __future__ import annotations

import asyncio
import logging
from typing import Self

from ...aio import Lake
from ...coordinator.cells.keys import GATEWAYS
from ...log.metrics import MemoryMetrics, Metrics
from ...log.produce.metrics import producer_samples
from ..access.authorizer import PrincipalAuthorizer
from ..observers.audit import AuditLog
from ..observers.calls import AnswerObserver
from ..observers.counters import CallCounters
from ..observers.spans import spans
from ..peers.entries import GatewayEntry
from ..peers.registry import PeerRegistry
from ..topics.directory import TopicDirectory
from ..topics.producer_pool import ProducerPool
from .access.authorizer import SignatureAuthorizer
from .clients.registry import ClientRegistry
from .clients.service import ClientService
from .consumers.service import ConsumerService
from .metrics import RPC_LATENCY
from .observers.calls import AnswerDispatcher
from .observers.clients import gauges
from .options import RocketMQOptions
from .producers.send_service import SendService
from .producers.transactions import GatewayTransactions
from .server.calls import AllowAny, CallRunner
from .server.rpcs import SERVICE, Rpc, by_name
from .server.server import RpcServer

log = logging.getLogger("penstock.gateway")

_SWEEP_S = 5.0


class Gateway:
    """RocketMQ's protocol for a lake, served in an ``async with`` block."""

    def __init__(self, lake: Lake, options: RocketMQOptions | None = None, *, metrics: Metrics | None = None) -> None:
        self.options = options or RocketMQOptions()
        self.lake = lake
        self.metrics = MemoryMetrics() if metrics is None else metrics
        """Metrics of calls and clients, and the library's own."""
        self.clients = ClientRegistry(lake.runtime.clock)
        self.topic_directory = TopicDirectory(lake, self.options)
        self.peers = PeerRegistry(GATEWAYS, lake.runtime.new_id()[:12], lake.runtime.clock, advertise=self.options.advertise)
        self.client_service = ClientService(lake, self.clients, self.peers, self.topic_directory)
        self.producers = ProducerPool(lake, self.metrics)
        self.transactions = GatewayTransactions(lake, self.clients, first_check=self.options.first_check)
        balanced = self.options.advertise is not None
        self.consumers = ConsumerService(
            lake, self.clients, self.topic_directory, store_host=self.peers.name, is_balanced=balanced, metrics=self.metrics
        )
        self.peers.on_gone.append(self.consumers.renewer.adopt_all)
        self.authorizer: SignatureAuthorizer | None = None
        if (access := self.options.access) is not None:
            principals = PrincipalAuthorizer.of(access, lake.coordination.access.read, lake.runtime.clock)
            self.authorizer = SignatureAuthorizer(principals, lake.runtime.clock, utc_only=self.options.utc_signatures)
        self.calls = CallRunner(
            clock=lake.runtime.clock,
            request_bytes_max=self.options.request_bytes_max,
            on_call=self.clients.on_call,
            access=self.authorizer or AllowAny(),
        )
        self._end_gauges = self.metrics.watch(lambda: list(gauges(self.clients, is_up=self.server.health.is_ready)))
        self._end_sends = self.metrics.watch(lambda: list(producer_samples(lake.producer_statistics())))
        observers: list[AnswerObserver] = [CallCounters(self.metrics, RPC_LATENCY), AuditLog(every=self.options.audit)]
        if (tracing := spans(lake.runtime.clock, system="rocketmq", service=SERVICE)) is not None:
            observers.append(tracing)
        self.calls.on_answer = AnswerDispatcher(observers).on_answer
        self.server = RpcServer(self.options, self.calls, by_name(self._rpcs()))
        self._sweeper: asyncio.Task[None] | None = None

    def _rpcs(self) -> list[Rpc]:
        return [
            *self.client_service.rpcs(),
            *SendService(self.lake, self.topic_directory, self.producers, self.transactions, self.calls.shares).rpcs(),
            *self.transactions.rpcs(),
            *self.consumers.rpcs(),
        ]

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def tls_port(self) -> int:
        """The port with TLS; 0: there is none."""
        return self.server.tls_port

    async def start(self) -> None:
        """Return once clients can connect."""
        await self.server.start()
        host = self.options.address or self.options.host
        own = GatewayEntry(host, self.server.own_port, tls_port=self.server.own_tls_port, signed=self.options.access is not None)
        await self.peers.join(self.lake.coordination, own)
        await self.consumers.start()
        self._sweeper = asyncio.ensure_future(self._sweep())

    async def stop(self) -> None:
        """Drain: refuse new calls, and let the others end."""
        await self.peers.leave()
        self.client_service.end()
        self.consumers.end_polls()
        await self.server.stop()
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)
        await self.consumers.close()
        if self.authorizer is not None:
            await self.authorizer.close()
        self._end_gauges()
        self._end_sends()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            try:
                self.clients.sweep()
                await self.producers.close_idle()
            except Exception:
                log.exception("looking after clients and producers failed, and is tried again")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
