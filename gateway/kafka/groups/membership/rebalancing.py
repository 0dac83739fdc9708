"""Rebalances of a classic group: their beginning, their end, and what time does to members. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace

from ...wire.errors import ErrorCode
from .group import (
    Answer,
    Group,
    GroupLimits,
    GroupState,
    GroupStep,
    Member,
    Rebalance,
    SyncAnswer,
    dismissed,
    joined_answer,
)


def rebalanced(group: Group, now_s: float, limits: GroupLimits) -> GroupStep:
    """Let all members join anew, or see whether they have."""
    if group.state is GroupState.PREPARING:
        return joined_if_all(group, now_s)
    if group.state is GroupState.EMPTY:
        delay_s = min(limits.initial_delay_s, group.rebalance_s)
        rebalance = Rebalance(now_s + delay_s, is_initial=True, left_s=group.rebalance_s - delay_s)
        group = replace(group, state=GroupState.PREPARING, rebalance=rebalance)
        return GroupStep(group) if delay_s > 0 else _generation(group, now_s)
    answers = tuple(
        SyncAnswer(call=one.syncing, code=ErrorCode.REBALANCE_IN_PROGRESS)
        for one in group.members.values()
        if one.syncing is not None
    )
    group = replace(group, state=GroupState.PREPARING, rebalance=Rebalance(now_s + group.rebalance_s), sync_until_s=math.inf)
    return joined_if_all(group.with_members(*(_sent_back(one, now_s) for one in group.members.values())), now_s).after(*answers)


def _sent_back(member: Member, now_s: float) -> Member:
    """A member whose assignment does not come."""
    waited = member.syncing is not None and member.joining is None
    member = replace(member, syncing=None, owes_sync=False)
    return member.alive(now_s) if waited else member


def joined_if_all(group: Group, now_s: float) -> GroupStep:
    """The next generation if everybody has joined. An initial rebalance waits for its time."""
    rebalance = group.rebalance
    if group.state is not GroupState.PREPARING or rebalance is None or not group.have_all_joined:
        return GroupStep(group)
    return GroupStep(group) if rebalance.is_initial and group.members else _generation(group, now_s)


def _generation(group: Group, now_s: float) -> GroupStep:
    """The next generation of those that have joined, and of static members, who keep their places."""
    members = {one.id: one for one in group.members.values() if one.joining is not None or one.instance_id is not None}
    group = replace(group, members=members, leader=group.leader if group.leader in members else "")
    if not members:
        return GroupStep(
            replace(group, state=GroupState.EMPTY, generation=group.generation + 1, protocol="", leader="", rebalance=None),
            is_durable=True,
        )
    joined = [one.id for one in members.values() if one.joining is not None]
    if not joined:  # only static members that are silent: until their sessions end
        return GroupStep(replace(group, rebalance=Rebalance(now_s + group.rebalance_s)))
    group = replace(
        group,
        state=GroupState.COMPLETING,
        generation=group.generation + 1,
        protocol=group.chosen_protocol(),
        leader=group.leader if group.leader in joined else joined[0],
        rebalance=None,
        sync_until_s=now_s + group.rebalance_s,
    )
    answers = tuple(joined_answer(group, one, one.joining) for one in group.members.values() if one.joining is not None)
    told = (
        replace(one, joining=None, owes_sync=True).alive(now_s) if one.joining is not None else replace(one, owes_sync=True)
        for one in group.members.values()
    )
    return GroupStep(group.with_members(*told), answers)


def removed(group: Group, gone: Collection[str], now_s: float, limits: GroupLimits, code: ErrorCode) -> GroupStep:
    """The group without these members, which rebalances. Their calls are answered with the code."""
    answers = tuple(answer for one in gone for answer in dismissed(group.members[one], code))
    members = {one.id: one for one in group.members.values() if one.id not in gone}
    group = replace(group, members=members, leader=group.leader if group.leader in members else "")
    if not members and group.state is GroupState.PREPARING and not group.pending:
        return _generation(group, now_s).after(*answers)
    return rebalanced(group, now_s, limits).after(*answers)


def expired(group: Group, now_s: float, limits: GroupLimits) -> GroupStep:
    """What the time that passed has ended: sessions, waiting, and ids that nobody used."""
    answers: tuple[Answer, ...] = ()
    is_durable = False
    for look in (_forgotten, _silent, _overdue, _unsynced):
        step = look(group, now_s, limits)
        group, answers, is_durable = step.group, (*answers, *step.answers), is_durable or step.is_durable
    return GroupStep(group, answers, is_durable)


def _forgotten(group: Group, now_s: float, _: GroupLimits) -> GroupStep:
    pending = {one: given for one, given in group.pending.items() if given.until_s > now_s}
    return GroupStep(group) if len(pending) == len(group.pending) else joined_if_all(replace(group, pending=pending), now_s)


def _silent(group: Group, now_s: float, limits: GroupLimits) -> GroupStep:
    silent = [one.id for one in group.members.values() if one.until_s <= now_s]
    return removed(group, silent, now_s, limits, ErrorCode.UNKNOWN_MEMBER_ID) if silent else GroupStep(group)


def _overdue(group: Group, now_s: float, limits: GroupLimits) -> GroupStep:
    rebalance = group.rebalance
    if rebalance is None or rebalance.until_s > now_s:
        return GroupStep(group)
    if rebalance.is_initial and rebalance.has_newcomer and rebalance.left_s > 0:
        more_s = min(limits.initial_delay_s, rebalance.left_s)
        return GroupStep(replace(group, rebalance=Rebalance(now_s + more_s, is_initial=True, left_s=rebalance.left_s - more_s)))
    return _generation(group, now_s)


def _unsynced(group: Group, now_s: float, limits: GroupLimits) -> GroupStep:
    if group.sync_until_s > now_s:
        return GroupStep(group)
    late = [one.id for one in group.members.values() if one.owes_sync]
    group = replace(group, sync_until_s=math.inf)
    return removed(group, late, now_s, limits, ErrorCode.UNKNOWN_MEMBER_ID) if late else GroupStep(group)


def next_due_s(group: Group) -> float:
    """When `expired` has something to do; `math.inf`: never."""
    waiting = group.rebalance.until_s if group.rebalance is not None else math.inf
    sessions = (one.until_s for one in group.members.values())
    given = (one.until_s for one in group.pending.values())
    return min((waiting, group.sync_until_s, *sessions, *given))


def heard_again(group: Group, now_s: float, grace_s: float) -> Group:
    """All times later, the first of them ``grace_s`` from now: the coordinator did not hear its members, through no fault of theirs."""
    # What came behind the stop may have made the first time a later one, or ended all.
    by_s = max(0.0, now_s - next_due_s(group)) + grace_s
    rebalance = group.rebalance
    return replace(
        group,
        members={one.id: replace(one, until_s=one.until_s + by_s) for one in group.members.values()},
        pending={one: replace(given, until_s=given.until_s + by_s) for one, given in group.pending.items()},
        rebalance=None if rebalance is None else replace(rebalance, until_s=rebalance.until_s + by_s),
        sync_until_s=group.sync_until_s + by_s,
    )
