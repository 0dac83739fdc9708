"""Requests about groups, as clients make them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.protocol import admin, consumer, metadata

from penstock.gateway.kafka.wire.apis import APIS, ApiKey

_ROOMS = (admin, consumer, metadata)
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


def message_class(key: ApiKey, kind: str) -> Any:
    """kafka-python's class of an API's ``Request`` or ``Response``."""
    name = f"{APIS[key].name}{kind}"
    return next(getattr(room, name) for room in _ROOMS if hasattr(room, name))


def group_request(key: ApiKey, version: int, fields: Mapping[str, Any] | None = None) -> Any:
    """A request of these fields, as far as its version has them."""
    return _made(message_class(key, "Request"), version, GROUP_REQUESTS[key] if fields is None else fields)


def _made(kind: Any, version: int, fields: Mapping[str, Any]) -> Any:
    values = {}
    for name, value in fields.items():
        field = kind.fields[name]
        if not field.for_version_q(version):
            continue
        is_structs = field.is_struct_array() and isinstance(value, list)
        values[name] = [_made(field.data_class, version, one) for one in value] if is_structs else value
    return kind(version=version, **values)
