"""The APIs that are served, with their versions. An API needs a line here and a handler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Final


class ApiKey(IntEnum):
    """The numbers of Kafka's APIs, served or not."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    INCREMENTAL_ALTER_CONFIGS = 44
    OFFSET_DELETE = 47
    DESCRIBE_CLUSTER = 60
    DESCRIBE_TOPIC_PARTITIONS = 75


NEVER_FLEXIBLE: Final = 1_000
"""Above all versions."""
_MANY: Final = 16_384
"""The elements of requests that name all partitions of a client."""


@dataclass(frozen=True, kw_only=True)
class Api:
    """One API and the versions that are served."""

    key: ApiKey
    lowest: int
    highest: int
    flexible_from: int
    """The first version with compact lengths and tagged fields."""
    items_max: int = 2_000
    """The most elements over all arrays of a request. Each becomes an object, and some an answer many times as long."""
    told_lowest: int | None = None
    """The lowest version that clients are told, where it is not the lowest that is served."""
    carries_records: bool = False
    """Whether a request may be as large as the server takes, and the connection's next one of the kind begins before it is answered."""

    @cached_property
    def name(self) -> str:
        """``ListOffsets``, as in the protocol's guide."""
        return self.key.name.title().replace("_", "")

    def serves(self, version: int) -> bool:
        return self.lowest <= version <= self.highest

    def is_flexible(self, version: int) -> bool:
        return version >= self.flexible_from

    def has_flexible_answer_header(self, version: int) -> bool:
        """Never of ApiVersions, whose clients do not know yet what the server speaks."""
        return self.is_flexible(version) and self.key != ApiKey.API_VERSIONS


_ALL: Final = (
    # librdkafka sends batches uncompressed unless it is told Produce 0, which nobody serves any more.
    Api(key=ApiKey.PRODUCE, lowest=3, highest=12, flexible_from=9, told_lowest=0, carries_records=True),
    Api(key=ApiKey.FETCH, lowest=4, highest=12, flexible_from=12, items_max=_MANY),
    Api(key=ApiKey.LIST_OFFSETS, lowest=1, highest=8, flexible_from=6, items_max=_MANY),
    Api(key=ApiKey.METADATA, lowest=0, highest=12, flexible_from=9, items_max=_MANY),
    # Version 0 of the handshake has no frames for what follows.
    Api(key=ApiKey.SASL_HANDSHAKE, lowest=1, highest=1, flexible_from=2),
    Api(key=ApiKey.OFFSET_COMMIT, lowest=2, highest=9, flexible_from=8, items_max=_MANY),
    Api(key=ApiKey.OFFSET_FETCH, lowest=1, highest=9, flexible_from=6, items_max=_MANY),
    Api(key=ApiKey.FIND_COORDINATOR, lowest=0, highest=6, flexible_from=3),
    Api(key=ApiKey.JOIN_GROUP, lowest=0, highest=9, flexible_from=6),
    Api(key=ApiKey.HEARTBEAT, lowest=0, highest=4, flexible_from=4),
    Api(key=ApiKey.LEAVE_GROUP, lowest=0, highest=5, flexible_from=4),
    Api(key=ApiKey.SYNC_GROUP, lowest=0, highest=5, flexible_from=4),
    Api(key=ApiKey.DESCRIBE_GROUPS, lowest=0, highest=6, flexible_from=5),
    Api(key=ApiKey.LIST_GROUPS, lowest=0, highest=5, flexible_from=3),
    Api(key=ApiKey.API_VERSIONS, lowest=0, highest=4, flexible_from=3),
    Api(key=ApiKey.CREATE_TOPICS, lowest=2, highest=7, flexible_from=5),
    Api(key=ApiKey.DELETE_TOPICS, lowest=1, highest=6, flexible_from=4),
    Api(key=ApiKey.INIT_PRODUCER_ID, lowest=0, highest=5, flexible_from=2),
    Api(key=ApiKey.DESCRIBE_ACLS, lowest=1, highest=3, flexible_from=2),
    Api(key=ApiKey.DESCRIBE_CONFIGS, lowest=1, highest=4, flexible_from=4, items_max=1_000),
    Api(key=ApiKey.ALTER_CONFIGS, lowest=0, highest=2, flexible_from=2),
    Api(key=ApiKey.DESCRIBE_LOG_DIRS, lowest=1, highest=4, flexible_from=2, items_max=_MANY),
    Api(key=ApiKey.SASL_AUTHENTICATE, lowest=0, highest=2, flexible_from=2),
    Api(key=ApiKey.CREATE_PARTITIONS, lowest=0, highest=3, flexible_from=2),
    Api(key=ApiKey.DELETE_GROUPS, lowest=0, highest=2, flexible_from=2),
    Api(key=ApiKey.INCREMENTAL_ALTER_CONFIGS, lowest=0, highest=1, flexible_from=1),
    Api(key=ApiKey.OFFSET_DELETE, lowest=0, highest=0, flexible_from=NEVER_FLEXIBLE),
    Api(key=ApiKey.DESCRIBE_CLUSTER, lowest=0, highest=2, flexible_from=0),
    Api(key=ApiKey.DESCRIBE_TOPIC_PARTITIONS, lowest=0, highest=0, flexible_from=0),
)
APIS: Final[Mapping[int, Api]] = {one.key: one for one in _ALL}
