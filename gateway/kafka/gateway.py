"""A gateway of Kafka's protocol: its rooms around one lake, from start to drain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...aio import Lake
from ...coordinator.cells.keys import KAFKA_GATEWAYS
from ...log.metrics import Metrics, Sample
from ..peers.clients import AlikeClients
from ..peers.reachable_peers import ReachablePeers
from ..protocol_gateway import ProtocolGateway
from ..topics.directory import TopicDirectory
from .access.acls import AclService
from .access.authorizer import SaslAuthorizer
from .access.sasl import SaslService, no_sasl
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
from .server.session import KafkaSession
from .tail.batch_cache import BatchCache
from .tail.followers import TopicFollowers
from .topics.administration import AdministrationService
from .topics.config_service import ConfigService
from .topics.metadata import MetadataService
from .topics.offsets import OffsetsService
from .wire.apis import ApiKey


class KafkaGateway(ProtocolGateway):
    """Kafka's protocol for a lake, served in an ``async with`` block. It keeps nothing that a later gateway must know."""

    server: KafkaServer

    def __init__(self, lake: Lake, options: KafkaOptions | None = None, *, metrics: Metrics | None = None) -> None:
        self.options = options or KafkaOptions()
        super().__init__(lake, self.options, KAFKA_GATEWAYS, metrics)
        runtime = lake.runtime
        self.topic_directory = TopicDirectory(lake, self.options, new_topics=self.options.new_topics)
        self._cache, self._followers = BatchCache(), TopicFollowers(runtime.clock)
        self._produce = ProduceService(lake, self.topic_directory, self._cache, self.metrics)
        self._fetch = FetchService(self.topic_directory, self._cache, self._followers, runtime, self.metrics)
        self.authorizer: SaslAuthorizer | None = None
        reachable = ReachablePeers(self.peers, runtime.clock)
        limits = GroupLimits(
            initial_delay_s=self.options.initial_rebalance_delay.total_seconds(),
            gather_commits_s=self.options.gather_commits.total_seconds(),
        )
        self.groups = GroupCoordinator(lake.coordination, runtime.clock, reachable, is_counted=self.peers.is_counted, limits=limits)
        handlers = {**self._handlers(reachable), ApiKey.SASL_HANDSHAKE: no_sasl, ApiKey.SASL_AUTHENTICATE: no_sasl}
        if (access := self.options.access) is not None and self.principals is not None:
            self.authorizer = SaslAuthorizer(self.principals, runtime.clock, connections=access.connections)
            keys = ScramKeyCache(access.keys)
            sasl = SaslService(self.authorizer, keys, runtime, lifetime=self.options.session_lifetime)
            handlers = {
                **handlers,
                ApiKey.SASL_HANDSHAKE: sasl.handshake,
                ApiKey.SASL_AUTHENTICATE: sasl.authenticate,
                ApiKey.DESCRIBE_ACLS: AclService(self.principals.cache).describe_acls,
            }
        self.calls = KafkaCallRunner(clock=runtime.clock, handlers=handlers, access=self.authorizer or AdmitAll())
        self.server = KafkaServer(self.options, self.calls, runtime.clock)
        self.peers.clients = lambda: [_told(one) for one in self.server.sessions()]
        self.calls.on_answer = KafkaAnswerDispatcher(self._observers(REQUEST_LATENCY, system="kafka", service="kafka")).on_answer

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

    def _gauges(self) -> Sequence[Sample]:
        return Sample(UP, (), int(self.server.is_ready)), Sample(CONNECTIONS, (), self.server.connections)

    async def _begin(self) -> None:
        self.groups.start()

    async def _end_waiting(self) -> None:
        self._fetch.end()
        await self.groups.close()

    async def _close(self) -> None:
        await self._produce.drain()
        await self._followers.close()

    async def _forget_idle(self) -> None:
        self._followers.forget_idle()
        self._produce.forget_idle()


def _told(session: KafkaSession) -> AlikeClients:
    """What the list of gateways tells of a connection."""
    return AlikeClients(
        kind="CONNECTION", language=session.software, version=session.version, group=session.group, principal=session.principal
    )
