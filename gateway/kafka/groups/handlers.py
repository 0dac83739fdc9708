"""The handlers of all APIs of classic groups."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from ....coordinator import Coordination
from ....log.runtime.runtime import Runtime
from ....log.topic.topics import Topic
from ..server.calls import Handler
from ..wire.apis import ApiKey
from .admin_service import GroupAdministration
from .coordinator import GroupCoordinator
from .membership_service import MembershipService
from .offsets_service import OffsetsOfGroups


def group_handlers(
    coordinator: GroupCoordinator,
    coordination: Coordination,
    runtime: Runtime,
    *,
    topic: Callable[[str], Awaitable[Topic]],
) -> Mapping[ApiKey, Handler]:
    """``topic``: opens a topic, and makes none."""
    members = MembershipService(coordinator, runtime)
    offsets = OffsetsOfGroups(coordinator, topic, runtime.clock)
    groups = GroupAdministration(coordinator, coordination)
    return {
        ApiKey.FIND_COORDINATOR: members.find_coordinator,
        ApiKey.JOIN_GROUP: members.join_group,
        ApiKey.SYNC_GROUP: members.sync_group,
        ApiKey.HEARTBEAT: members.heartbeat,
        ApiKey.LEAVE_GROUP: members.leave_group,
        ApiKey.OFFSET_COMMIT: offsets.offset_commit,
        ApiKey.OFFSET_FETCH: offsets.offset_fetch,
        ApiKey.OFFSET_DELETE: offsets.offset_delete,
        ApiKey.DESCRIBE_GROUPS: groups.describe_groups,
        ApiKey.LIST_GROUPS: groups.list_groups,
        ApiKey.DELETE_GROUPS: groups.delete_groups,
    }
