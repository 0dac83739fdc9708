"""A gateway: its rooms around one lake, from start to drain."""

from __future__ import annotations

from collections.abc import Sequence

from ...aio import Lake
from ...coordinator.cells.keys import GATEWAYS
from ...log.metrics import Metrics, Sample
from ..protocol_gateway import ProtocolGateway
from ..topics.directory import TopicDirectory
from ..topics.producer_pool import ProducerPool
from .access.authorizer import SignatureAuthorizer
from .clients.registry import ClientRegistry
from .clients.service import ClientService
from .consumers.service import ConsumerService
from .metrics import RPC_LATENCY
from .observers.calls import AnswerDispatcher
from .observers.clients import gauges, told
from .options import RocketMQOptions
from .producers.send_service import SendService
from .producers.transactions import GatewayTransactions
from .server.calls import AllowAny, CallRunner
from .server.rpcs import SERVICE, Rpc, by_name
from .server.server import RpcServer


class Gateway(ProtocolGateway):
    """RocketMQ's protocol for a lake, served in an ``async with`` block."""

    server: RpcServer

    def __init__(self, lake: Lake, options: RocketMQOptions | None = None, *, metrics: Metrics | None = None) -> None:
        self.options = options or RocketMQOptions()
        super().__init__(lake, self.options, GATEWAYS, metrics)
        self.clients = ClientRegistry(lake.runtime.clock)
        self.topic_directory = TopicDirectory(lake, self.options)
        self.peers.clients = lambda: told(self.clients)
        self.client_service = ClientService(lake, self.clients, self.peers, self.topic_directory)
        self.producers = ProducerPool(lake, self.metrics)
        self.transactions = GatewayTransactions(lake, self.clients, first_check=self.options.first_check)
        balanced = self.options.advertise is not None
        self.consumers = ConsumerService(
            lake, self.clients, self.topic_directory, store_host=self.peers.name, is_balanced=balanced, metrics=self.metrics
        )
        self.peers.on_gone.append(self.consumers.renewer.adopt_all)
        self.authorizer: SignatureAuthorizer | None = None
        if self.principals is not None:
            self.authorizer = SignatureAuthorizer(self.principals, lake.runtime.clock, utc_only=self.options.utc_signatures)
        self.calls = CallRunner(
            clock=lake.runtime.clock,
            request_bytes_max=self.options.request_bytes_max,
            on_call=self.clients.on_call,
            access=self.authorizer or AllowAny(),
        )
        self.calls.on_answer = AnswerDispatcher(self._observers(RPC_LATENCY, system="rocketmq", service=SERVICE)).on_answer
        self.server = RpcServer(self.options, self.calls, by_name(self._rpcs()))

    def _rpcs(self) -> list[Rpc]:
        return [
            *self.client_service.rpcs(),
            *SendService(self.lake, self.topic_directory, self.producers, self.transactions, self.calls.shares).rpcs(),
            *self.transactions.rpcs(),
            *self.consumers.rpcs(),
        ]

    def _gauges(self) -> Sequence[Sample]:
        return list(gauges(self.clients, is_up=self.server.health.is_ready))

    async def _begin(self) -> None:
        await self.consumers.start()

    async def _end_waiting(self) -> None:
        self.client_service.end()
        self.consumers.end_polls()

    async def _close(self) -> None:
        await self.consumers.close()

    async def _forget_idle(self) -> None:
        self.clients.sweep()
        await self.producers.close_idle()
