"""Requests about groups, as clients make them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.gateway.kafka.wire.apis import ApiKey

from .requests import made, message_class

_MEMBER = {"group_id": "billing", "generation_id": 3, "member_id": "app-1", "group_instance_id": None}
_QUEUES = [{"name": "orders", "partition_indexes": [0, 2]}]
_COMMIT = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": 1, "committed_metadata": "note"}
GROUP_REQUESTS: Mapping[ApiKey, Mapping[str, Any]] = {
    ApiKey.OFFSET_COMMIT: {
        "group_id": "billing",
        "generation_id_or_member_epoch": 3,
        "member_id": "app-1",
        "group_instance_id": None,
        "retention_time_ms": -1,
        "topics": [{"name": "orders", "partitions": [_COMMIT]}],
    },
    ApiKey.OFFSET_FETCH: {"group_id": "billing", "topics": _QUEUES, "groups": [{"group_id": "billing", "topics": _QUEUES}]},
    ApiKey.FIND_COORDINATOR: {"key": "billing", "key_type": 0, "coordinator_keys": ["billing"]},
    ApiKey.JOIN_GROUP: {
        "group_id": "billing",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"topics"}],
        "reason": None,
    },
    ApiKey.HEARTBEAT: _MEMBER,
    ApiKey.LEAVE_GROUP: {
        "group_id": "billing",
        "member_id": "app-1",
        "members": [{"member_id": "app-1", "group_instance_id": None, "reason": None}],
    },
    ApiKey.SYNC_GROUP: {
        **_MEMBER,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": "app-1", "assignment": b"all"}],
    },
    ApiKey.DESCRIBE_GROUPS: {"groups": ["billing"], "include_authorized_operations": False},
    ApiKey.LIST_GROUPS: {"states_filter": ["Stable"], "types_filter": ["classic"]},
    ApiKey.DELETE_GROUPS: {"groups_names": ["billing"]},
    ApiKey.OFFSET_DELETE: {"group_id": "billing", "topics": [{"name": "orders", "partitions": [{"partition_index": 0}]}]},
}


def group_request(key: ApiKey, version: int, fields: Mapping[str, Any] | None = None) -> Any:
    """A request of these fields, as far as its version has them."""
    return made(message_class(key, "Request"), version, GROUP_REQUESTS[key] if fields is None else fields)
