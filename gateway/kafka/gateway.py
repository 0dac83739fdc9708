"""A gateway of Kafka's protocol: its rooms around one lake, from start to drain."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Self

from ...aio import Lake
from ...coordinator.cells.keys import KAFKA_GATEWAYS
from ...log.metrics import MemoryMetrics, Metrics, Sample
from ...log.produce.metrics import producer_samples
from ..access.authorizer import PrincipalAuthorizer
from ..observers.audit import AuditLog
from ..observers.calls import AnswerObserver
from ..observers.counters import CallCounters
from ..observers.spans import spans
from ..peers.entries import GatewayEntry
from ..peers.reachable_peers import ReachablePeers
from ..peers.registry import PeerRegistry
from ..topics.directory import TopicDirectory
from .access.acls import AclService
from .access.authorizer import SaslAuthorizer
from .access.sasl import SaslService
from .access.scram_keys import ScramKeyCache
from .fetching.service import FetchService
from .groups.coordinator import GroupCoordinator
from .groups.handlers import group_handlers
from .groups.membership.group import GroupLimits
from .metrics import CONNECTIONS, REQUEST_LATENCY, UP
from .observers.calls import KafkaAnswerDispatcher
from .options import KafkaOptions
from .producing.service import ProduceService
from .server.calls import AdmitAll, Handler, KafkaCallRunner
from .server.server import KafkaServer
from .tail.batch_cache import BatchCache
from .tail.followers import TopicFollowers
from .topics.administration import AdministrationService
from .topics.config_service import ConfigService
from .topics.metadata import MetadataService
from .topics.offsets import OffsetsService
from .wire.apis import ApiKey

log = logging.getLogger("penstock.gateway")

_SWEEP_S = 5.0


class KafkaGateway:
    """Kafka's protocol for a lake, served in an ``async with`` block. It keeps nothing that a later gateway must know."""

    def __init__(self, lake: Lake, options: KafkaOptions | None = None, *, metrics: Metrics | None = None) -> None:
        self.options = options or KafkaOptions()
        self.lake = lake
        self.metrics = MemoryMetrics() if metrics is None else metrics
        runtime = lake.runtime
        self.topic_directory = TopicDirectory(lake, self.options, new_topics=self.options.new_topics)
        self.peers = PeerRegistry(KAFKA_GATEWAYS, runtime.new_id()[:12], runtime.clock)
        self._cache, self._followers = BatchCache(), TopicFollowers(runtime.clock)
        self._produce = ProduceService(lake, self.topic_directory, self._cache, self.metrics)
        self._fetch = FetchService(self.topic_directory, self._cache, self._followers, runtime)
        self.authorizer: SaslAuthorizer | None = None
        reachable = ReachablePeers(self.peers, runtime.clock)
        limits = GroupLimits(initial_delay_s=self.options.initial_rebalance_delay.total_seconds())
        self.groups = GroupCoordinator(lake.coordination, runtime.clock, reachable, is_counted=self.peers.is_counted, limits=limits)
        handlers = self._handlers(reachable)
        if (access := self.options.access) is not None:
            principals = PrincipalAuthorizer.of(access, lake.coordination.access.read, runtime.clock)
            self.authorizer = SaslAuthorizer(principals, runtime.clock, connections=access.connections)
            keys = ScramKeyCache(access.keys)
            sasl = SaslService(self.authorizer, keys, runtime, lifetime=self.options.session_lifetime)
            handlers = {
                **handlers,
                ApiKey.SASL_HANDSHAKE: sasl.handshake,
                ApiKey.SASL_AUTHENTICATE: sasl.authenticate,
                ApiKey.DESCRIBE_ACLS: AclService(principals.cache).describe_acls,
            }
        self.calls = KafkaCallRunner(clock=runtime.clock, handlers=handlers, access=self.authorizer or AdmitAll())
        self.server = KafkaServer(self.options, self.calls, runtime.clock)
        observers: list[AnswerObserver] = [CallCounters(self.metrics, REQUEST_LATENCY), AuditLog(every=self.options.audit)]
        if (tracing := spans(runtime.clock, system="kafka", service="kafka")) is not None:
            observers.append(tracing)
        self.calls.on_answer = KafkaAnswerDispatcher(observers).on_answer
        self._end_gauges = self.metrics.watch(self._gauges)
        self._end_sends = self.metrics.watch(lambda: list(producer_samples(lake.producer_statistics())))
        self._sweeper: asyncio.Task[None] | None = None

    def _handlers(self, reachable: ReachablePeers) -> Mapping[ApiKey, Handler]:
        metadata = MetadataService(self.lake, self.topic_directory, reachable, create_topics=self.options.create_topics)
        administration = AdministrationService(self.lake, metadata, defaults=self.options.new_topics)
        configs = ConfigService(self.lake, self.topic_directory, defaults=self.options.new_topics)
        return {
            ApiKey.PRODUCE: self._produce.produce,
            ApiKey.FETCH: self._fetch.fetch,
            ApiKey.LIST_OFFSETS: OffsetsService(self.topic_directory).list_offsets,
            ApiKey.METADATA: metadata.metadata,
            ApiKey.CREATE_TOPICS: administration.create_topics,
            ApiKey.DELETE_TOPICS: administration.delete_topics,
            ApiKey.INIT_PRODUCER_ID: self._produce.init_producer_id,
            ApiKey.DESCRIBE_ACLS: configs.describe_acls,
            ApiKey.DESCRIBE_CONFIGS: configs.describe_configs,
            ApiKey.ALTER_CONFIGS: configs.alter_configs,
            ApiKey.INCREMENTAL_ALTER_CONFIGS: configs.incremental_alter_configs,
            ApiKey.DESCRIBE_LOG_DIRS: configs.describe_log_dirs,
            ApiKey.CREATE_PARTITIONS: configs.create_partitions,
            ApiKey.DESCRIBE_CLUSTER: metadata.describe_cluster,
            ApiKey.DESCRIBE_TOPIC_PARTITIONS: metadata.describe_topic_partitions,
            **group_handlers(self.groups, self.lake.coordination, self.lake.runtime, topic=self.topic_directory.known_topic),
        }

    def _gauges(self) -> list[Sample]:
        return [Sample(UP, (), int(self.server.is_ready)), Sample(CONNECTIONS, (), self.server.connections)]

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
        self.groups.start()
        self._sweeper = asyncio.ensure_future(self._sweep())

    async def stop(self) -> None:
        """Drain: refuse new calls, and let the others end."""
        await self.peers.leave()
        self._fetch.end()
        await self.groups.close()
        await self.server.stop()
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)
        await self._produce.drain()
        await self._followers.close()
        if self.authorizer is not None:
            await self.authorizer.close()
        self._end_gauges()
        self._end_sends()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            try:
                self._followers.forget_idle()
                self._produce.forget_idle()
            except Exception:
                log.exception("looking after topics failed, and is tried again")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
