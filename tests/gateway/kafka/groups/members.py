"""A classic group without a gateway: its members by name, its time, and what each call was answered."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.gateway.kafka.groups.membership.calls import Sync, commit, heartbeat, leave, sync
from penstock.gateway.kafka.groups.membership.group import (
    Answer,
    Group,
    GroupLimits,
    GroupState,
    GroupStep,
    JoinAnswer,
    JoinProtocol,
    MemberClaim,
    SyncAnswer,
)
from penstock.gateway.kafka.groups.membership.joining import Join, join
from penstock.gateway.kafka.groups.membership.rebalancing import expired
from penstock.gateway.kafka.wire.errors import ErrorCode

SESSION_S = 10.0
REBALANCE_S = 60.0
RANGE = (JoinProtocol("range", b"topics"),)


@dataclass
class Play:
    """Events one after the other. Every call has a number, by which its answer is found."""

    limits: GroupLimits = field(default_factory=lambda: GroupLimits(initial_delay_s=0.0))
    group: Group = field(default_factory=Group)
    now_s: float = 0.0
    answers: dict[int, Answer] = field(default_factory=dict)
    calls: int = 0
    durable: list[Group] = field(default_factory=list)
    """Every group that was to be stored."""

    def take(self, step: GroupStep) -> None:
        self.group = step.group
        if step.is_durable:
            self.durable.append(step.group)
        for answer in step.answers:
            assert answer.call not in self.answers, "a call is answered once"
            self.answers[answer.call] = answer

    def join(
        self,
        member_id: str = "",
        *,
        new_id: str | None = None,
        instance: str | None = None,
        protocols: tuple[JoinProtocol, ...] = RANGE,
        kind: str = "consumer",
        session_s: float = SESSION_S,
        rebalance_s: float = REBALANCE_S,
        needs_id: bool = False,
        skips: bool = False,
        principal: str = "",
    ) -> int:
        self.calls += 1
        asked = Join(
            call=self.calls,
            member_id=member_id,
            new_id=new_id or f"m{self.calls}",
            instance_id=instance,
            client_id="app",
            client_host="/10.0.0.1",
            principal=principal,
            session_s=session_s,
            rebalance_s=rebalance_s,
            protocol_type=kind,
            protocols=protocols,
            needs_id=needs_id,
            skips_assignment=skips,
        )
        self.take(join(self.group, asked, self.now_s, self.limits))
        return self.calls

    def sync(
        self,
        member_id: str,
        assignments: dict[str, bytes] | None = None,
        *,
        generation: int | None = None,
        instance: str | None = None,
        kind: str | None = None,
        protocol: str | None = None,
        principal: str = "",
    ) -> int:
        self.calls += 1
        asked = Sync(
            call=self.calls,
            claim=MemberClaim(member_id, instance, principal),
            generation=self.group.generation if generation is None else generation,
            protocol_type=kind,
            protocol=protocol,
            assignments=assignments or {},
        )
        self.take(sync(self.group, asked, self.now_s, self.limits))
        return self.calls

    def beat(self, member_id: str, *, generation: int | None = None, instance: str | None = None, principal: str = "") -> ErrorCode:
        told = self.group.generation if generation is None else generation
        self.group, code = heartbeat(self.group, MemberClaim(member_id, instance, principal), told, self.now_s)
        return code

    def commits(
        self, member_id: str = "", *, generation: int | None = None, instance: str | None = None, principal: str = ""
    ) -> ErrorCode:
        told = self.group.generation if generation is None else generation
        self.group, code = commit(self.group, MemberClaim(member_id, instance, principal), told, self.now_s)
        return code

    def leave(self, *leavers: str | MemberClaim) -> tuple[ErrorCode, ...]:
        named = [MemberClaim(one) if isinstance(one, str) else one for one in leavers]
        step, codes = leave(self.group, named, self.now_s, self.limits)
        self.take(step)
        return codes

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.take(expired(self.group, self.now_s, self.limits))

    def joined(self, call: int) -> JoinAnswer:
        answer = self.answers[call]
        assert isinstance(answer, JoinAnswer)
        return answer

    def synced(self, call: int) -> SyncAnswer:
        answer = self.answers[call]
        assert isinstance(answer, SyncAnswer)
        return answer


def stable(*names: str, play: Play | None = None) -> Play:
    """A group of these members in one generation. The first leads; who is assigned ``<name>`` in bytes."""
    play = play or Play()
    play.join(new_id=names[0])
    others = [play.join(new_id=name) for name in names[1:]]
    if others:
        play.join(names[0])  # a rebalance has begun
    for name in names[1:]:
        play.sync(name)
    play.sync(names[0], {name: name.encode() for name in names})
    assert play.group.state is GroupState.STABLE
    return play
