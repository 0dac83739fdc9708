"""Assignments, heartbeats, leaving and commits of a classic group."""

from __future__ import annotations

import math

from penstock.gateway.kafka.groups.membership.calls import kicked
from penstock.gateway.kafka.groups.membership.group import Group, GroupLimits, GroupState, MemberClaim
from penstock.gateway.kafka.groups.membership.rebalancing import heard_again, next_due_s
from penstock.gateway.kafka.wire.errors import ErrorCode
from tests.gateway.kafka.groups.members import REBALANCE_S, SESSION_S, Play, stable


def test_followers_wait_for_the_leader() -> None:
    play = Play(GroupLimits(initial_delay_s=1.0))
    play.join(new_id="a")
    play.join(new_id="b")
    play.wait(1.0)
    play.wait(1.0)
    follower = play.sync("b")
    assert follower not in play.answers
    leader = play.sync("a", {"a": b"p0", "b": b"p1"})
    assert play.synced(follower).assignment == b"p1"
    assert play.synced(leader).assignment == b"p0"
    assert play.synced(leader).protocol == "range"
    assert play.durable[-1].state is GroupState.STABLE


def test_who_the_leader_does_not_name_has_an_empty_assignment() -> None:
    play = Play()
    play.join(new_id="a")
    assert play.synced(play.sync("a", {"ghost": b"p9"})).assignment == b""
    assert play.group.members.keys() == {"a"}


def test_a_late_follower_gets_its_assignment() -> None:
    play = Play()
    play.join(new_id="a")
    play.join(new_id="b")
    play.join("a")
    play.sync("a", {"b": b"p1"})
    assert play.synced(play.sync("b")).assignment == b"p1"


def test_who_does_not_fetch_its_assignment_is_out() -> None:
    play = Play()
    play.join(new_id="a", session_s=1_000.0)
    play.join(new_id="b", session_s=1_000.0)
    play.join("a", session_s=1_000.0)
    play.sync("a", {})
    play.wait(REBALANCE_S)
    assert play.group.members.keys() == {"a"}
    assert play.group.state is GroupState.PREPARING


def test_a_leader_that_does_not_assign_is_out() -> None:
    play = Play()
    play.join(new_id="a", session_s=1_000.0)
    play.join(new_id="b", session_s=1_000.0)
    play.join("a", session_s=1_000.0)
    follower = play.sync("b")
    play.wait(REBALANCE_S)
    assert play.synced(follower).code is ErrorCode.REBALANCE_IN_PROGRESS
    assert play.joined(play.join("b")).leader == "b"


def test_a_member_that_waits_for_its_assignment_does_not_die_of_it() -> None:
    play = Play()
    play.join(new_id="a", session_s=1_000.0)
    play.join(new_id="b")
    play.join("a", session_s=1_000.0)
    follower = play.sync("b")
    play.wait(3 * SESSION_S)
    play.sync("a", {"b": b"p1"})
    assert play.synced(follower).assignment == b"p1"
    play.wait(SESSION_S - 0.1)
    assert "b" in play.group.members


def test_a_newcomer_sends_those_who_wait_back() -> None:
    play = Play()
    play.join(new_id="a")
    play.join(new_id="b")
    play.join("a")
    follower = play.sync("b")
    play.join(new_id="c")
    assert play.synced(follower).code is ErrorCode.REBALANCE_IN_PROGRESS
    play.wait(SESSION_S - 0.1)
    assert "b" in play.group.members


def test_sync_is_checked() -> None:
    play = stable("a", "b")

    def code(member: str, **asked: object) -> ErrorCode:
        return play.synced(play.sync(member, **asked)).code  # type: ignore[arg-type]

    assert code("ghost") is ErrorCode.UNKNOWN_MEMBER_ID
    assert code("a", generation=1) is ErrorCode.ILLEGAL_GENERATION
    assert code("a", kind="connect") is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert code("a", protocol="robin") is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert code("a", kind="consumer", protocol="range") is ErrorCode.NONE
    play.join("a")
    assert code("b") is ErrorCode.REBALANCE_IN_PROGRESS


def test_assignments_have_a_limit_over_all() -> None:
    play = Play(GroupLimits(initial_delay_s=0.0, metadata_bytes_max=100))
    play.join(new_id="a")
    assert play.synced(play.sync("a", {"a": bytes(101)})).code is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_silent_member_is_out() -> None:
    play = stable("a", "b")
    play.wait(SESSION_S / 2)
    assert play.beat("a") is ErrorCode.NONE
    play.wait(SESSION_S / 2)
    assert play.group.members.keys() == {"a"}
    assert play.beat("a") is ErrorCode.REBALANCE_IN_PROGRESS
    assert play.joined(play.join("a")).generation == 3


def test_the_last_silent_member_leaves_an_empty_group_in_a_generation_of_its_own() -> None:
    play = stable("a")
    play.wait(SESSION_S)
    assert (play.group.state, play.group.generation) == (GroupState.EMPTY, 2)
    assert play.durable[-1] == play.group


def test_heartbeats_are_checked() -> None:
    play = stable("a")
    assert play.beat("a", generation=0) is ErrorCode.ILLEGAL_GENERATION
    assert play.beat("ghost") is ErrorCode.UNKNOWN_MEMBER_ID
    assert play.beat("a", instance="i") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_leaves_at_once() -> None:
    play = stable("a", "b")
    assert play.leave("b") == (ErrorCode.NONE,)
    assert play.group.state is GroupState.PREPARING
    assert play.leave("b") == (ErrorCode.UNKNOWN_MEMBER_ID,)


def test_several_leave_together() -> None:
    play = Play()
    play.join(new_id="a1", instance="a")
    play.sync("a1", {}, instance="a")
    play.join(new_id="p", needs_id=True)
    codes = play.leave(MemberClaim("", "a"), MemberClaim("p", None), MemberClaim("ghost", None), MemberClaim("x", "a"))
    assert codes == (ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
    assert play.group.state is GroupState.EMPTY
    assert not play.group.pending


def test_who_leaves_while_others_wait_ends_their_waiting() -> None:
    play = stable("a", "b")
    waiting = play.join("a")
    play.leave("b")
    assert [one.id for one in play.joined(waiting).members] == ["a"]


def test_a_pending_id_that_leaves_ends_the_waiting_for_it() -> None:
    play = stable("a")
    play.join(new_id="b", needs_id=True)
    waiting = play.join("a")
    play.leave("b")
    assert play.joined(waiting).generation == 2


def test_members_commit_in_their_generation() -> None:
    play = stable("a", "b")
    assert play.commits("a") is ErrorCode.NONE
    assert play.commits("a", generation=1) is ErrorCode.ILLEGAL_GENERATION
    assert play.commits("ghost") is ErrorCode.UNKNOWN_MEMBER_ID
    play.join("a")
    assert play.commits("b", generation=2) is ErrorCode.NONE, "what was done before is committed while the others join"
    play.join("b")
    assert play.group.state is GroupState.COMPLETING
    assert play.commits("b") is ErrorCode.REBALANCE_IN_PROGRESS


def test_who_has_no_generation_commits_while_there_are_no_members() -> None:
    play = Play()
    assert play.commits(generation=-1) is ErrorCode.NONE
    stable("a", play=play)
    assert play.commits(generation=-1) is ErrorCode.UNKNOWN_MEMBER_ID
    play.leave("a")
    assert play.commits(generation=-1) is ErrorCode.NONE
    assert play.commits("a", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_counts_as_a_heartbeat() -> None:
    play = stable("a")
    play.wait(SESSION_S - 1)
    play.commits("a")
    play.wait(SESSION_S - 1)
    assert play.beat("a") is ErrorCode.NONE


def test_a_group_that_is_none_answers_so() -> None:
    play = Play(group=Group(state=GroupState.DEAD))
    assert play.joined(play.join()).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert play.commits("a", generation=3) is ErrorCode.ILLEGAL_GENERATION
    assert play.beat("a", generation=3) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_members_that_are_kicked_out_come_again() -> None:
    play = stable("a", "b")
    waiting = play.join("a")
    group, answers = kicked(play.group)
    assert [(one.call, one.code) for one in answers] == [(waiting, ErrorCode.UNKNOWN_MEMBER_ID)]
    assert (group.state, group.generation, dict(group.members)) == (GroupState.EMPTY, 3, {})


def test_what_the_coordinator_missed_is_not_held_against_members() -> None:
    play = stable("a")
    due_s = next_due_s(play.group)
    play.group = heard_again(play.group, due_s + 90.0, 10.0)
    assert next_due_s(play.group) == due_s + 100.0
    play.wait(100.0)
    assert play.beat("a") is ErrorCode.NONE


def test_a_members_id_is_its_principals_alone() -> None:
    play = Play()
    play.join(new_id="a", principal="shop")
    play.sync("a", {"a": b"p0"}, principal="shop")
    for other in ("other", ""):
        assert play.beat("a", principal=other) is ErrorCode.UNKNOWN_MEMBER_ID
        assert play.commits("a", principal=other) is ErrorCode.UNKNOWN_MEMBER_ID
        assert play.synced(play.sync("a", principal=other)).code is ErrorCode.UNKNOWN_MEMBER_ID
        assert play.joined(play.join("a", principal=other)).code is ErrorCode.UNKNOWN_MEMBER_ID
        assert play.leave(MemberClaim("a", None, other)) == (ErrorCode.UNKNOWN_MEMBER_ID,)
    assert play.beat("a", principal="shop") is play.commits("a", principal="shop") is ErrorCode.NONE
    assert play.synced(play.sync("a", principal="shop")).assignment == b"p0"


def test_a_static_member_is_replaced_and_removed_by_its_principal_alone() -> None:
    play = Play()
    play.join(new_id="a1", instance="a", principal="shop")
    play.sync("a1", {"a1": b"p0"}, instance="a", principal="shop")
    assert play.joined(play.join(instance="a", principal="other")).code is ErrorCode.FENCED_INSTANCE_ID
    assert play.leave(MemberClaim("", "a", "other")) == (ErrorCode.UNKNOWN_MEMBER_ID,)
    assert play.beat("a1", instance="a", principal="shop") is ErrorCode.NONE
    assert play.joined(play.join(new_id="a2", instance="a", principal="shop")).member_id == "a2"
    assert play.leave(MemberClaim("", "a", None)) == (ErrorCode.NONE,), "an operator"


def test_members_of_before_there_were_principals_are_those_that_come_as_them() -> None:
    play = Play()
    play.join(new_id="a1", instance="a")
    play.sync("a1", {"a1": b"p0"}, instance="a")
    assert play.beat("a1", instance="a", principal="shop") is ErrorCode.NONE
    assert play.commits("a1", instance="a", principal="shop") is ErrorCode.NONE
    assert play.joined(play.join(new_id="a2", instance="a", principal="shop")).member_id == "a2"
    assert play.joined(play.join(instance="a", principal="other")).code is ErrorCode.FENCED_INSTANCE_ID, "from then on it is shop's"


def test_a_stop_that_others_ended_before_it_was_seen_makes_no_time_shorter() -> None:
    play = stable("a")
    due_s = next_due_s(play.group)
    assert next_due_s(heard_again(play.group, play.now_s, 10.0)) == due_s + 10.0, "it was heard meanwhile"
    play.leave("a")
    empty = heard_again(play.group, play.now_s, 10.0)
    assert (next_due_s(empty), empty.sync_until_s) == (math.inf, math.inf)


def test_an_id_that_was_given_is_used_by_its_principal_alone() -> None:
    play = Play()
    play.join(new_id="a", needs_id=True, principal="shop")
    assert play.joined(play.join("a", principal="other")).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert play.leave(MemberClaim("a", None, "other")) == (ErrorCode.UNKNOWN_MEMBER_ID,)
    assert play.joined(play.join("a", principal="shop")).code is ErrorCode.NONE
