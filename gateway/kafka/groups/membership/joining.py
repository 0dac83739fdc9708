"""JoinGroup: a member comes to a classic group, or comes again. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...wire.errors import ErrorCode
from .group import (
    Group,
    GroupLimits,
    GroupState,
    GroupStep,
    JoinAnswer,
    JoinProtocol,
    Member,
    MemberClaim,
    PendingMember,
    dismissed,
    joined_answer,
)
from .rebalancing import joined_if_all, rebalanced


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A JoinGroup."""

    call: int
    member_id: str
    """Empty for a client that has none."""
    new_id: str
    """What it is called if it has none."""
    instance_id: str | None
    client_id: str
    client_host: str
    principal: str
    session_s: float
    rebalance_s: float
    protocol_type: str
    protocols: tuple[JoinProtocol, ...]
    needs_id: bool
    """Whether the client is to come again with its id, so that no retry makes a member that nobody is."""
    skips_assignment: bool
    """Whether the client knows that an assignment may stand."""

    @property
    def owner(self) -> str:
        """The owner of what the member takes: the principal; without proof of identity, the address."""
        return self.principal or self.client_host.removeprefix("/")

    @property
    def claim(self) -> MemberClaim:
        return MemberClaim(self.member_id, self.instance_id, self.principal)


def join(group: Group, asked: Join, now_s: float, limits: GroupLimits) -> GroupStep:
    """A member joins. It waits for the others, unless it is refused or nothing changes for it."""
    code = _refusal(group, asked, limits)
    if code is not ErrorCode.NONE:
        if code is ErrorCode.GROUP_MAX_SIZE_REACHED and group.is_pending(asked.claim):
            group = group.without_pending(asked.member_id)
            return joined_if_all(group, now_s).after(_refused(asked, code))
        return GroupStep(group, (_refused(asked, code),))
    if not asked.member_id:
        return _newcomer(group, asked, now_s, limits)
    if group.is_pending(asked.claim):
        return _added(group.without_pending(asked.member_id), asked, asked.member_id, now_s, limits)
    return _again(group, asked, now_s, limits)


def _refusal(group: Group, asked: Join, limits: GroupLimits) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if not limits.session_s_min <= asked.session_s <= limits.session_s_max:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    if asked.member_id and not group.is_pending(asked.claim):
        code = group.refusal(asked.claim)
        if code is not ErrorCode.NONE:
            return code
    if any(_is_same(one, asked) and not asked.claim.is_of(one.principal) for one in group.members.values()):
        return ErrorCode.FENCED_INSTANCE_ID  # who is fenced ends, where UNKNOWN_MEMBER_ID would make it try for ever
    if not group.supports(asked.protocol_type, asked.protocols):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    others = [one for one in group.members.values() if one.id != asked.member_id and not _is_same(one, asked)]
    if len(others) >= limits.members_max or (asked.needs_id and not asked.member_id and len(group.pending) >= limits.pending_max):
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    told = _bytes(asked.protocols) + sum(_bytes(one.protocols) for one in others)
    return ErrorCode.GROUP_MAX_SIZE_REACHED if told > limits.metadata_bytes_max else ErrorCode.NONE


def _is_same(member: Member, asked: Join) -> bool:
    return asked.instance_id is not None and member.instance_id == asked.instance_id


def _bytes(protocols: Sequence[JoinProtocol]) -> int:
    return sum(len(one.name) + len(one.metadata) for one in protocols)


def _refused(asked: Join, code: ErrorCode) -> JoinAnswer:
    return JoinAnswer(call=asked.call, code=code, member_id=asked.member_id)


def _newcomer(group: Group, asked: Join, now_s: float, limits: GroupLimits) -> GroupStep:
    if asked.instance_id is not None:
        known = group.instances.get(asked.instance_id)
        return _added(group, asked, asked.new_id, now_s, limits) if known is None else _replaced(group, asked, known, now_s, limits)
    if asked.needs_id:
        group = replace(group, pending={**group.pending, asked.new_id: PendingMember(now_s + asked.session_s, asked.principal)})
        return GroupStep(group, (JoinAnswer(call=asked.call, code=ErrorCode.MEMBER_ID_REQUIRED, member_id=asked.new_id),))
    return _added(group, asked, asked.new_id, now_s, limits)


def _added(group: Group, asked: Join, member_id: str, now_s: float, limits: GroupLimits) -> GroupStep:
    member = _renewed(Member(id=member_id, session_s=0.0, rebalance_s=0.0, protocols=()), asked)
    member = replace(member, until_s=now_s + limits.new_member_s)
    group = replace(
        group.with_members(member),
        protocol_type=asked.protocol_type if not group.members else group.protocol_type,
        leader=group.leader or member_id,
    )
    if group.rebalance is not None and group.rebalance.is_initial:
        group = replace(group, rebalance=replace(group.rebalance, has_newcomer=True))
    return rebalanced(group, now_s, limits)


def _again(group: Group, asked: Join, now_s: float, limits: GroupLimits) -> GroupStep:
    """A member that is in the group already."""
    member = group.members[asked.member_id]
    changes = member.protocols != asked.protocols
    if group.state is GroupState.COMPLETING and not changes:
        # It did not get the answer, perhaps.
        return GroupStep(group.with_members(member.alive(now_s)), (joined_answer(group, member, asked.call),))
    if group.state is GroupState.STABLE and not changes and group.leader != member.id:
        told = replace(joined_answer(group, member, asked.call), members=())
        return GroupStep(group.with_members(member.alive(now_s)), (told,))
    # A leader that comes again has seen something that changes the assignment, such as new partitions.
    earlier = dismissed(replace(member, syncing=None), ErrorCode.REBALANCE_IN_PROGRESS)
    return rebalanced(group.with_members(_renewed(member, asked)), now_s, limits).after(*earlier)


def _replaced(group: Group, asked: Join, known: str, now_s: float, limits: GroupLimits) -> GroupStep:
    """A static member that was started again: it takes the place of who it was."""
    former, led_by = group.members[known], group.leader
    fenced = dismissed(former, ErrorCode.FENCED_INSTANCE_ID)
    member = replace(_renewed(former, asked), id=asked.new_id, syncing=None)
    members = {one.id: one for one in (member if other is former else other for other in group.members.values())}
    group = replace(group, members=members, leader=member.id if led_by == known else led_by)
    if group.state is not GroupState.STABLE or group.chosen_protocol() != group.protocol:
        return rebalanced(group, now_s, limits).after(*fenced)
    member = replace(member, joining=None).alive(now_s)
    group = group.with_members(member)
    told = joined_answer(group, member, asked.call)
    if asked.skips_assignment:
        told = replace(told, skips_assignment=group.leader == member.id)
    else:  # who believes to follow computes no assignment
        told = replace(told, leader=led_by, members=())
    return GroupStep(group, (*fenced, told), is_durable=True)


def _renewed(member: Member, asked: Join) -> Member:
    """The member as it joins now, and waits. Its session does not end while it does."""
    return replace(
        member,
        instance_id=asked.instance_id,
        client_id=asked.client_id,
        client_host=asked.client_host,
        principal=asked.principal,
        session_s=asked.session_s,
        rebalance_s=asked.rebalance_s,
        protocols=asked.protocols,
        joining=asked.call,
        until_s=float("inf"),
    )
