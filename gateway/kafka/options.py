"""The options of a gateway of Kafka's protocol."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from ...log import MessageType, TopicSettings
from ...log.errors import InvalidArgument
from ...log.limits import MIB, TopicLimits
from ...log.message.routing_type import Routing
from ..server.options import GatewayOptions

GATHER_COMMITS_MAX = timedelta(seconds=10)
NEW_TOPICS = TopicSettings(
    message_type=MessageType.MIXED,
    queues=4,
    routing=Routing.MURMUR2,
    limits=TopicLimits(max_headers_bytes=MIB, max_headers=10_000),
)
"""Topics of Kafka's clients: messages with and without a key, of which each has the partition that most clients choose."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KafkaOptions(GatewayOptions):
    """How a gateway of Kafka's protocol is run."""

    port: int = 9092
    new_topics: TopicSettings = field(default=NEW_TOPICS)
    """The settings of topics that clients make, where they state no others."""
    initial_rebalance_delay: timedelta = timedelta(seconds=3)
    """The time for which a new group waits for further members, so that it need not be balanced for each."""
    gather_commits: timedelta = timedelta(0)
    """Commits of a stable group's members are written no sooner than so long after the last ones, together. The answer is after the write."""
    session_lifetime: timedelta = timedelta(hours=1)
    """The time after which a connection proves its principal again, or is closed."""

    def __post_init__(self) -> None:
        GatewayOptions.__post_init__(self)
        if self.advertise is not None:
            raise InvalidArgument(
                "one address of several gateways is no place of Kafka's brokers",
                operation="start the gateway",
                object=str(self.advertise),
                expected="an address of each gateway, as clients speak with the one that leads a topic",
                hint="name this gateway's own host: --address HOST. One address of all may still be the clients' bootstrap server",
            )
        if not timedelta(0) <= self.gather_commits <= GATHER_COMMITS_MAX:
            raise InvalidArgument(
                "commits cannot be gathered for so long",
                operation="start the gateway",
                expected=f"0 to {GATHER_COMMITS_MAX.total_seconds():g} s",
                observed=f"{self.gather_commits.total_seconds():g} s",
                hint="a client's heartbeats wait behind its commit, and it counts as dead without them",
            )
