"""FindCoordinator, JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ....coordinator.access.grants import ANY, Verb
from ....coordinator.groups.record import GroupMixed
from ....log.errors import PenstockError
from ....log.runtime.runtime import Runtime
from ..server.calls import KafkaCall
from ..topics.cluster import NO_NODE, node_of
from ..wire.errors import ErrorCode, KafkaRefusal, no_transactions
from ..wire.messages import Fields, Request
from .answers import group_refusal
from .coordinated_group import CoordinatedGroup
from .coordinator import GroupCoordinator
from .membership.calls import Sync
from .membership.group import JoinProtocol, MemberClaim
from .membership.joining import Join

GROUP_KEY, TRANSACTION_KEY = 0, 1
"""What a coordinator is asked for, by Kafka's numbers."""
_NEEDS_ID_FROM: Final = 4
_SKIPS_FROM: Final = 9
_LEAVES_TOGETHER_FROM: Final = 3
_FINDS_SEVERAL_FROM: Final = 4
_NULL_PROTOCOL_FROM: Final = 7
_CLIENT_CHARS_MAX: Final = 255
"""The most characters of a client's name or host in a group's cell."""


class MembershipService:
    """Answers the members of groups."""

    def __init__(self, coordinator: GroupCoordinator, runtime: Runtime) -> None:
        self._coordinator = coordinator
        self._runtime = runtime

    async def find_coordinator(self, request: Request, call: KafkaCall) -> Fields:
        several = call.version >= _FINDS_SEVERAL_FROM
        names = list(dict.fromkeys(request.coordinator_keys)) if several else [request.key]
        found = [await self._found(name, request.key_type, call) for name in names]
        if several:
            return {"throttle_time_ms": 0, "coordinators": found}
        return {"throttle_time_ms": 0, **{name: value for name, value in found[0].items() if name != "key"}}

    async def _found(self, name: str, key_type: int, call: KafkaCall) -> Fields:
        try:
            if key_type == TRANSACTION_KEY:
                raise no_transactions()
            if key_type != GROUP_KEY:
                raise KafkaRefusal(ErrorCode.INVALID_REQUEST, f"only groups have coordinators here, and no keys of type {key_type}")
            call.rights.check(Verb.JOIN, name)
            peer = await self._coordinator.coordinator(name, tls=call.session.is_tls)
        except (KafkaRefusal, PenstockError) as error:
            refusal = group_refusal(error)
            call.code = refusal.code
            return {
                "key": name,
                "node_id": NO_NODE,
                "host": "",
                "port": -1,
                "error_code": refusal.code,
                "error_message": refusal.message,
            }
        return {
            "key": name,
            "node_id": node_of(peer).node_id,
            "host": peer.endpoint.host,
            "port": peer.endpoint.port,
            "error_code": ErrorCode.NONE,
            "error_message": None,
        }

    async def join_group(self, request: Request, call: KafkaCall) -> Fields:
        call.rights.check(Verb.JOIN, request.group_id)
        asked = self._join(request, call)
        try:
            group = await self._coordinator.group(request.group_id, tls=call.session.is_tls, creates=not request.member_id)
            answer = await _known(group, request).join(asked)
        except GroupMixed as error:
            raise KafkaRefusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from None
        except PenstockError as error:
            raise group_refusal(error) from None
        return {
            "throttle_time_ms": 0,
            "error_code": answer.code,
            "generation_id": answer.generation,
            "protocol_type": answer.protocol_type,
            "protocol_name": answer.protocol if answer.protocol or call.version >= _NULL_PROTOCOL_FROM else "",
            "leader": answer.leader,
            "skip_assignment": answer.skips_assignment,
            "member_id": answer.member_id,
            "members": [
                {"member_id": one.id, "group_instance_id": one.instance_id, "metadata": one.metadata} for one in answer.members
            ],
        }

    def _join(self, request: Request, call: KafkaCall) -> Callable[[int], Join]:
        """Raises `KafkaRefusal`."""
        limits = self._coordinator.limits
        session_s, rebalance_s = request.session_timeout_ms / 1_000, request.rebalance_timeout_ms / 1_000
        if call.version == 0:
            rebalance_s = session_s
        instance_id = request.group_instance_id
        client_id = call.client_id[:_CLIENT_CHARS_MAX]
        if instance_id is not None and not 0 < len(instance_id) <= _CLIENT_CHARS_MAX:
            raise KafkaRefusal(ErrorCode.INVALID_REQUEST, f"a group.instance.id has 1 to {_CLIENT_CHARS_MAX} characters")
        protocols = {one.name: JoinProtocol(one.name, bytes(one.metadata)) for one in request.protocols}
        new_id = f"{instance_id or client_id or 'member'}-{self._runtime.new_id()}"

        def asked(number: int) -> Join:
            return Join(
                call=number,
                member_id=request.member_id,
                new_id=new_id,
                instance_id=instance_id,
                client_id=client_id,
                client_host=f"/{call.session.address}"[:_CLIENT_CHARS_MAX],
                principal=call.principal,
                session_s=session_s,
                rebalance_s=min(max(rebalance_s, 0.0), limits.rebalance_s_max),
                protocol_type=request.protocol_type,
                protocols=tuple(protocols.values()),
                needs_id=call.version >= _NEEDS_ID_FROM and instance_id is None,
                skips_assignment=call.version >= _SKIPS_FROM,
            )

        return asked

    async def sync_group(self, request: Request, call: KafkaCall) -> Fields:
        call.rights.check(Verb.JOIN, request.group_id)
        assignments = {one.member_id: bytes(one.assignment) for one in request.assignments}

        def asked(number: int) -> Sync:
            return Sync(
                call=number,
                claim=MemberClaim(request.member_id, request.group_instance_id, call.principal),
                generation=request.generation_id,
                protocol_type=request.protocol_type,
                protocol=request.protocol_name,
                assignments=assignments,
            )

        try:
            group = await self._coordinator.group(request.group_id, tls=call.session.is_tls)
            answer = await _known(group, request).sync(asked)
        except PenstockError as error:
            raise group_refusal(error) from None
        return {
            "throttle_time_ms": 0,
            "error_code": answer.code,
            "protocol_type": answer.protocol_type,
            "protocol_name": answer.protocol,
            "assignment": answer.assignment,
        }

    async def heartbeat(self, request: Request, call: KafkaCall) -> Fields:
        call.rights.check(Verb.JOIN, request.group_id)
        try:
            group = await self._coordinator.group(request.group_id, tls=call.session.is_tls)
            claim = MemberClaim(request.member_id, request.group_instance_id, call.principal)
            code = await _known(group, request).heartbeat(claim, request.generation_id)
        except PenstockError as error:
            raise group_refusal(error) from None
        return {"throttle_time_ms": 0, "error_code": code}

    async def leave_group(self, request: Request, call: KafkaCall) -> Fields:
        call.rights.check(Verb.JOIN, request.group_id)
        together = call.version >= _LEAVES_TOGETHER_FROM
        principal = None if call.rights.has(Verb.MANAGE, ANY) else call.principal
        leavers = (
            [MemberClaim(one.member_id, one.group_instance_id, principal) for one in request.members]
            if together
            else [MemberClaim(request.member_id, None, principal)]
        )
        try:
            group = await self._coordinator.group(request.group_id, tls=call.session.is_tls)
            codes = await group.leave(leavers) if group is not None else (ErrorCode.UNKNOWN_MEMBER_ID,) * len(leavers)
        except PenstockError as error:
            raise group_refusal(error) from None
        if not together:
            return {"throttle_time_ms": 0, "error_code": codes[0]}
        told = [
            {"member_id": one.member_id, "group_instance_id": one.instance_id, "error_code": code}
            for one, code in zip(leavers, codes, strict=True)
        ]
        return {"throttle_time_ms": 0, "error_code": ErrorCode.NONE, "members": told}


def _known(group: CoordinatedGroup | None, request: Request) -> CoordinatedGroup:
    if group is None:
        raise KafkaRefusal(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no group {request.group_id}")
    return group
