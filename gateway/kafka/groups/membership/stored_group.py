"""A group as its cell has it, and back. Pure."""

from __future__ import annotations

from .....coordinator.classic.members import ClassicGroup, ClassicMember, ClassicProtocol, format_of
from .group import Group, GroupState, JoinProtocol, Member


def stored_group(group: Group, *, epoch: int, coordinator: str, life: int) -> ClassicGroup:
    """What the next coordinator needs to go on."""
    members = tuple(map(_stored_member, group.members.values()))
    return ClassicGroup(
        format=format_of(members),
        epoch=epoch,
        coordinator=coordinator,
        life=life,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader,
        members=members,
    )


def _stored_member(member: Member) -> ClassicMember:
    return ClassicMember(
        id=member.id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        principal=member.principal,
        session_ms=round(1_000 * member.session_s),
        rebalance_ms=round(1_000 * member.rebalance_s),
        protocols=tuple(ClassicProtocol(one.name, one.metadata) for one in member.protocols),
        assignment=member.assignment,
    )


def taken_over(found: ClassicGroup, *, life: int, now_s: float, grace_s: float) -> Group:
    """The group as its members know it, who all have a fresh session time-out and ``grace_s`` more to find the new coordinator.

    Of an earlier life only the generation counts, which is never given again.
    """
    members = [_member(one, now_s + grace_s) for one in found.members] if found.life == life else []
    if not members:
        return Group(generation=found.generation, protocol_type=found.protocol_type if found.life == life else "")
    return Group(
        state=GroupState.STABLE,
        generation=found.generation,
        protocol_type=found.protocol_type,
        protocol=found.protocol,
        leader=found.leader,
        members={one.id: one for one in members},
    )


def _member(found: ClassicMember, now_s: float) -> Member:
    return Member(
        id=found.id,
        instance_id=found.instance_id,
        client_id=found.client_id,
        client_host=found.client_host,
        principal=found.principal,
        session_s=found.session_ms / 1_000,
        rebalance_s=found.rebalance_ms / 1_000,
        protocols=tuple(JoinProtocol(one.name, one.metadata) for one in found.protocols),
        assignment=found.assignment,
    ).alive(now_s)
