"""What members of a classic group ask besides joining: SyncGroup, Heartbeat, LeaveGroup, and whether they may commit. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...wire.errors import ErrorCode
from .group import Answer, Group, GroupLimits, GroupState, GroupStep, MemberClaim, SyncAnswer, dismissed, synced_answer
from .rebalancing import joined_if_all, removed


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """A SyncGroup."""

    call: int
    claim: MemberClaim
    generation: int
    protocol_type: str | None
    """None: the client does not say."""
    protocol: str | None
    assignments: Mapping[str, bytes]
    """The assignments by member; empty unless it leads."""


def sync(group: Group, asked: Sync, now_s: float, limits: GroupLimits) -> GroupStep:
    """A member asks for its assignment, and the leader gives those of all."""
    code = _member_refusal(group, asked.claim, asked.generation)
    if code is ErrorCode.NONE and (
        asked.protocol_type not in (None, group.protocol_type) or asked.protocol not in (None, group.protocol)
    ):
        code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if code is ErrorCode.NONE and group.state is GroupState.PREPARING:
        code = ErrorCode.REBALANCE_IN_PROGRESS
    if code is ErrorCode.NONE and group.state is GroupState.COMPLETING and group.leader == asked.claim.member_id:
        given = sum(len(asked.assignments.get(one, b"")) for one in group.members)
        code = ErrorCode.GROUP_MAX_SIZE_REACHED if given > limits.metadata_bytes_max else ErrorCode.NONE
    if code is not ErrorCode.NONE:
        return GroupStep(group, (SyncAnswer(call=asked.call, code=code),))
    member = replace(group.members[asked.claim.member_id], owes_sync=False)
    if group.state is GroupState.STABLE:
        return GroupStep(group.with_members(member.alive(now_s)), (synced_answer(group, member, asked.call),))
    repeated = () if member.syncing is None else (SyncAnswer(call=member.syncing, code=ErrorCode.REBALANCE_IN_PROGRESS),)
    group = group.with_members(replace(member, syncing=asked.call, until_s=math.inf))
    if group.leader != member.id:
        return GroupStep(group, repeated)
    return _assigned(group, asked.assignments, now_s).after(*repeated)


def _assigned(group: Group, assignments: Mapping[str, bytes], now_s: float) -> GroupStep:
    """The stable group. Who is not named has an empty assignment. Who owes a sync has until the end of its time to fetch it."""
    members = [replace(one, assignment=assignments.get(one.id, b"")) for one in group.members.values()]
    answers = tuple(synced_answer(group, one, one.syncing) for one in members if one.syncing is not None)
    told = [replace(one, syncing=None).alive(now_s) if one.syncing is not None else one for one in members]
    return GroupStep(replace(group, state=GroupState.STABLE).with_members(*told), answers, is_durable=True)


def heartbeat(group: Group, claim: MemberClaim, generation: int, now_s: float) -> tuple[Group, ErrorCode]:
    """A member lives. `REBALANCE_IN_PROGRESS`: it is to join."""
    code = _member_refusal(group, claim, generation)
    if code is not ErrorCode.NONE:
        return group, code
    return _heard(group, claim.member_id, now_s), (
        ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING else ErrorCode.NONE
    )


def _heard(group: Group, member_id: str, now_s: float) -> Group:
    member = group.members[member_id]
    waits = member.joining is not None or member.syncing is not None
    return group if waits else group.with_members(member.alive(now_s))


def leave(
    group: Group, leavers: Sequence[MemberClaim], now_s: float, limits: GroupLimits
) -> tuple[GroupStep, tuple[ErrorCode, ...]]:
    """Members leave, or are told to: by their ids, or by their instances alone. The codes are in the order of the leavers."""
    codes, gone, pending = [], dict[str, None](), dict(group.pending)
    for one in leavers:
        if not one.member_id and one.instance_id is not None:
            one = replace(one, member_id=group.instances.get(one.instance_id, ""))
        member_id = one.member_id
        if member_id in pending and group.is_pending(one) and one.instance_id is None:
            del pending[member_id]
            codes.append(ErrorCode.NONE)
            continue
        code = ErrorCode.UNKNOWN_MEMBER_ID if member_id in gone else group.refusal(one)
        if code is ErrorCode.NONE:
            gone[member_id] = None
        codes.append(code)
    was_pending = len(pending) < len(group.pending)
    group = replace(group, pending=pending)
    if gone:
        return removed(group, gone, now_s, limits, ErrorCode.UNKNOWN_MEMBER_ID), tuple(codes)
    return joined_if_all(group, now_s) if was_pending else GroupStep(group), tuple(codes)


def commit(group: Group, claim: MemberClaim, generation: int, now_s: float) -> tuple[Group, ErrorCode]:
    """Whether positions may be committed. Who has no generation may do so while the group has no members.

    Members may commit what they have done while the others join already, but not between their own joining and the assignment.
    """
    if generation < 0 and not claim.member_id and claim.instance_id is None:
        is_empty = group.state in (GroupState.EMPTY, GroupState.DEAD)
        return group, ErrorCode.NONE if is_empty else ErrorCode.UNKNOWN_MEMBER_ID
    if generation < 0 and group.state in (GroupState.EMPTY, GroupState.DEAD):
        return group, ErrorCode.NONE
    if group.state is GroupState.DEAD:
        return group, ErrorCode.ILLEGAL_GENERATION
    code = _member_refusal(group, claim, generation)
    if code is not ErrorCode.NONE:
        return group, code
    if group.state is GroupState.COMPLETING:
        return group, ErrorCode.REBALANCE_IN_PROGRESS
    return _heard(group, claim.member_id, now_s), ErrorCode.NONE


def kicked(group: Group) -> tuple[Group, tuple[Answer, ...]]:
    """The group without any member, in a generation of its own. Those that live come again, and see what has changed."""
    answers = tuple(answer for one in group.members.values() for answer in dismissed(one, ErrorCode.UNKNOWN_MEMBER_ID))
    empty = Group(generation=group.generation + 1, protocol_type=group.protocol_type)
    return empty, answers


def _member_refusal(group: Group, claim: MemberClaim, generation: int) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    code = group.refusal(claim)
    if code is ErrorCode.NONE and generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return code
