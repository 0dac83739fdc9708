"""A group of Kafka's classic protocol at one moment, as its coordinator sees it. Pure.

The behaviour is that of Kafka's own coordinator. Times are seconds of its monotonic clock. A call that waits for its answer is a number.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, TypeAlias

from ...wire.errors import ErrorCode

NO_GENERATION: Final = -1


class GroupState(StrEnum):
    """The states as Kafka names them."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    """Members are to join."""
    COMPLETING = "CompletingRebalance"
    """The leader is to assign."""
    STABLE = "Stable"
    DEAD = "Dead"
    """There is no such group."""


@dataclass(frozen=True, slots=True)
class JoinProtocol:
    """A way of assigning that a member knows, with what it tells the leader. Opaque."""

    name: str
    metadata: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member."""

    id: str
    instance_id: str | None = None
    """The name of a static member, which keeps its assignment over restarts."""
    client_id: str = ""
    client_host: str = ""
    principal: str = ""
    """The principal that alone acts by the id; empty where nobody proves who it is, and until a member of earlier gateways joins again."""
    session_s: float
    """Without a heartbeat for so long it is dead."""
    rebalance_s: float
    """The others wait so long for it to join."""
    protocols: tuple[JoinProtocol, ...]
    """The protocols that it knows, the preferred one first."""
    assignment: bytes = field(default=b"", repr=False)
    joining: int | None = None
    """The call that waits until all have joined."""
    syncing: int | None = None
    """The call that waits for the leader's assignment."""
    owes_sync: bool = False
    """Whether it has joined this generation, and not asked for its assignment."""
    until_s: float = math.inf
    """It is dead from then on; never while a call of it waits, unless it has just been made."""

    @property
    def owner(self) -> str:
        """The owner of what it takes: the principal; without proof of identity, the address."""
        return self.principal or self.client_host.removeprefix("/")

    def metadata(self, protocol: str) -> bytes:
        return next((one.metadata for one in self.protocols if one.name == protocol), b"")

    def alive(self, now_s: float) -> Member:
        """The member with a fresh session time-out."""
        return replace(self, until_s=now_s + self.session_s)


@dataclass(frozen=True, slots=True)
class PendingMember:
    """An id that was given to a client which is to join with it."""

    until_s: float
    principal: str = ""


@dataclass(frozen=True, slots=True)
class MemberClaim:
    """A client's word for the member that it is. Ids are told to all who may ask for the group, so they prove nothing."""

    member_id: str
    instance_id: str | None = None
    principal: str | None = ""
    """None: whoever's the member is, as for an operator who removes it."""

    def is_of(self, principal: str) -> bool:
        """Whether it may act as a member of this principal; as one that nobody proved to be, anybody may."""
        return not principal or self.principal in (None, principal)


@dataclass(frozen=True, slots=True)
class Rebalance:
    """Members are joining until ``until_s``."""

    until_s: float
    is_initial: bool = False
    """Whether the group was empty: then it waits for more members than the first, though all that are known have joined."""
    left_s: float = 0.0
    """How much longer an initial one may wait while there are newcomers."""
    has_newcomer: bool = False
    """Whether a member came since it was last prolonged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One group."""

    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol_type: str = ""
    """Such as ``consumer`` or ``connect``; empty before the first member."""
    protocol: str = ""
    """The protocol of this generation."""
    leader: str = ""
    members: Mapping[str, Member] = field(default_factory=dict)
    """The members in the order of their first joining."""
    pending: Mapping[str, PendingMember] = field(default_factory=dict)
    rebalance: Rebalance | None = None
    """None unless `PREPARING`."""
    sync_until_s: float = math.inf
    """The end of the time for a sync. A member that owes one then is out."""

    def with_members(self, *changed: Member) -> Group:
        return replace(self, members={**self.members, **{one.id: one for one in changed}})

    def without_pending(self, member_id: str) -> Group:
        return replace(self, pending={one: given for one, given in self.pending.items() if one != member_id})

    @property
    def instances(self) -> dict[str, str]:
        """The ids of static members, by instance."""
        return {one.instance_id: one.id for one in self.members.values() if one.instance_id is not None}

    @property
    def rebalance_s(self) -> float:
        return max((one.rebalance_s for one in self.members.values()), default=0.0)

    @property
    def have_all_joined(self) -> bool:
        return not self.pending and all(one.joining is not None for one in self.members.values())

    def supports(self, protocol_type: str, protocols: Sequence[JoinProtocol]) -> bool:
        """Whether a member with these fits the others."""
        if not protocol_type or not protocols:
            return False
        if not self.members:
            return True
        common = self.common_protocols()
        return protocol_type == self.protocol_type and any(one.name in common for one in protocols)

    def common_protocols(self) -> set[str]:
        known = [{one.name for one in member.protocols} for member in self.members.values()]
        return set.intersection(*known) if known else set()

    def chosen_protocol(self) -> str:
        """The protocol that most members prefer among those that all know."""
        common = self.common_protocols()
        votes = Counter(next(one.name for one in member.protocols if one.name in common) for member in self.members.values())
        return min(votes, key=lambda name: (-votes[name], name))

    def told_members(self) -> tuple[ToldMember, ...]:
        """What the leader is told."""
        return tuple(ToldMember(one.id, one.instance_id, one.metadata(self.protocol)) for one in self.members.values())

    def is_pending(self, claim: MemberClaim) -> bool:
        """Whether the id was given to this client, and not used."""
        given = self.pending.get(claim.member_id)
        return given is not None and claim.is_of(given.principal)

    def refusal(self, claim: MemberClaim) -> ErrorCode:
        """`NONE` for a member that is in the group under this id, and this principal's."""
        if claim.instance_id is not None:
            known = self.instances.get(claim.instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != claim.member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        member = self.members.get(claim.member_id)
        return ErrorCode.NONE if member is not None and claim.is_of(member.principal) else ErrorCode.UNKNOWN_MEMBER_ID


@dataclass(frozen=True, slots=True)
class ToldMember:
    """A member as its leader gets to know it."""

    id: str
    instance_id: str | None
    metadata: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinAnswer:
    """The answer to a JoinGroup."""

    call: int
    code: ErrorCode = ErrorCode.NONE
    member_id: str = ""
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: tuple[ToldMember, ...] = ()
    """The members; empty unless this one leads."""
    skips_assignment: bool = False
    """Whether the leader's assignment stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncAnswer:
    """The answer to a SyncGroup."""

    call: int
    code: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = field(default=b"", repr=False)


Answer: TypeAlias = JoinAnswer | SyncAnswer


@dataclass(frozen=True, slots=True)
class GroupStep:
    """What an event makes of a group."""

    group: Group
    answers: tuple[Answer, ...] = ()
    """The answers, given when the group is durable, if it is to be that."""
    is_durable: bool = False
    """Whether the group is to be stored before any further event."""

    def after(self, *earlier: Answer, is_durable: bool = False) -> GroupStep:
        """This step with those answers of what came before it."""
        return GroupStep(self.group, (*earlier, *self.answers), self.is_durable or is_durable)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """The limits of groups, and how long new ones wait."""

    initial_delay_s: float = 3.0
    """An empty group waits so long for further members after each, as Kafka's ``group.initial.rebalance.delay.ms``."""
    gather_commits_s: float = 0.0
    """Commits of a stable group's members are written no sooner than so long after the last ones."""
    session_s_min: float = 6.0
    session_s_max: float = 1_800.0
    rebalance_s_max: float = 86_400.0
    groups_max: int = 20_000
    """The groups of one gateway."""
    members_max: int = 1_000
    pending_max: int = 2_000
    """Ids that were given and not used."""
    metadata_bytes_max: int = 1024 * 1024
    """The most bytes of all members' protocols, or assignments."""
    owner_bytes_max: int = 64 * 1024 * 1024
    """The most that the members of one principal, or address, take of a gateway."""
    all_bytes_max: int = 256 * 1024 * 1024
    new_member_s: float = 300.0
    """A member whose first join has no answer yet counts as dead then, as its client may be gone unnoticed."""


def joined_answer(group: Group, member: Member, call: int) -> JoinAnswer:
    """What a member is told of the present generation."""
    is_leader = group.leader == member.id
    return JoinAnswer(
        call=call,
        member_id=member.id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader,
        members=group.told_members() if is_leader else (),
    )


def synced_answer(group: Group, member: Member, call: int) -> SyncAnswer:
    return SyncAnswer(call=call, protocol_type=group.protocol_type, protocol=group.protocol, assignment=member.assignment)


def dismissed(member: Member, code: ErrorCode) -> tuple[Answer, ...]:
    """The answers to the calls of a member that wait."""
    found: list[Answer] = []
    if member.joining is not None:
        found.append(JoinAnswer(call=member.joining, code=code, member_id=member.id))
    if member.syncing is not None:
        found.append(SyncAnswer(call=member.syncing, code=code))
    return tuple(found)
