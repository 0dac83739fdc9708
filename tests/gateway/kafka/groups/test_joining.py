"""Members of a classic group come, and come again."""

from __future__ import annotations

import pytest

from penstock.gateway.kafka.groups.membership.group import GroupLimits, GroupState, JoinProtocol
from penstock.gateway.kafka.wire.errors import ErrorCode
from tests.gateway.kafka.groups.members import REBALANCE_S, SESSION_S, Play, stable


def test_the_first_member_leads_at_once_without_a_delay() -> None:
    play = Play()
    answer = play.joined(play.join(new_id="a"))
    assert (answer.code, answer.generation, answer.leader, answer.member_id) == (ErrorCode.NONE, 1, "a", "a")
    assert [one.id for one in answer.members] == ["a"]
    assert answer.members[0].metadata == b"topics"
    assert play.group.state is GroupState.COMPLETING


def test_an_empty_group_waits_for_more_members() -> None:
    play = Play(GroupLimits(initial_delay_s=3.0))
    first = play.join(new_id="a")
    play.wait(2.0)
    second = play.join(new_id="b")
    play.wait(1.0)  # there was a newcomer, so it waits again
    assert not play.answers
    play.wait(3.0)
    assert {play.joined(first).generation, play.joined(second).generation} == {1}
    assert [one.id for one in play.joined(first).members] == ["a", "b"]
    assert play.joined(second).members == ()


def test_the_initial_wait_ends_with_the_rebalance_time_out() -> None:
    play = Play(GroupLimits(initial_delay_s=3.0))
    first = play.join(rebalance_s=7.0, session_s=100.0)
    for _ in range(6):
        play.join(rebalance_s=7.0)
        play.wait(1.0)
    assert first not in play.answers
    play.wait(1.0)
    assert play.joined(first).code is ErrorCode.NONE


def test_a_client_without_an_id_is_given_one_first() -> None:
    play = Play()
    refused = play.joined(play.join(new_id="a", needs_id=True))
    assert (refused.code, refused.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "a")
    assert play.group.state is GroupState.EMPTY
    assert not play.group.members
    assert play.joined(play.join("a", needs_id=True)).generation == 1


def test_an_id_that_nobody_uses_is_forgotten() -> None:
    play = Play()
    play.join(new_id="a", needs_id=True)
    play.wait(SESSION_S)
    assert play.joined(play.join("a", needs_id=True)).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_who_was_given_an_id() -> None:
    play = stable("a")
    play.join(new_id="b", needs_id=True)
    again = play.join("a")
    assert again not in play.answers
    play.join("b")
    assert [one.id for one in play.joined(again).members] == ["a", "b"]


def test_who_does_not_join_in_time_is_out() -> None:
    play = stable("a", "b")
    again = play.join("a")
    play.beat("b")
    for _ in range(8):
        play.wait(REBALANCE_S / 8)
        play.beat("b")
    assert [one.id for one in play.joined(again).members] == ["a"]
    assert play.beat("b") is ErrorCode.UNKNOWN_MEMBER_ID


def test_another_leads_if_the_leader_does_not_join() -> None:
    play = stable("a", "b")
    joined = play.join("b", protocols=(JoinProtocol("range", b"other"),))
    play.wait(REBALANCE_S)
    assert play.joined(joined).leader == "b"
    assert play.joined(joined).generation == 3


def test_a_follower_that_comes_again_unchanged_is_told_the_generation() -> None:
    play = stable("a", "b")
    answer = play.joined(play.join("b"))
    assert (answer.generation, answer.leader, answer.members) == (2, "a", ())
    assert play.group.state is GroupState.STABLE


def test_a_leader_that_comes_again_begins_a_rebalance() -> None:
    play = stable("a", "b")
    play.join("a")
    assert play.group.state is GroupState.PREPARING
    assert play.beat("b") is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_lost_its_answer_gets_it_again() -> None:
    play = Play()
    play.join(new_id="a")
    answer = play.joined(play.join("a"))
    assert (answer.generation, [one.id for one in answer.members]) == (1, ["a"])
    assert play.group.state is GroupState.COMPLETING


def test_the_earlier_call_of_a_member_that_comes_again_is_answered() -> None:
    play = stable("a", "b")
    first = play.join("a")
    second = play.join("a")
    assert play.joined(first).code is ErrorCode.REBALANCE_IN_PROGRESS
    assert second not in play.answers
    play.join("b")
    assert play.joined(second).generation == 3


def test_the_protocol_is_what_all_know_and_most_prefer() -> None:
    sticky, ranged, robin = (JoinProtocol(name, name.encode()) for name in ("sticky", "range", "robin"))
    play = Play(GroupLimits(initial_delay_s=1.0))
    calls = [play.join(new_id="a", protocols=(sticky, ranged, robin)), play.join(new_id="b", protocols=(robin, ranged))]
    play.join(new_id="c", protocols=(ranged, robin))
    play.join(new_id="d", protocols=(ranged, robin))
    play.wait(1.0)
    play.wait(1.0)
    assert play.joined(calls[0]).protocol == "range"
    assert play.joined(calls[0]).members[0].metadata == b"range"


@pytest.mark.parametrize(
    "unfit", [{"kind": "connect"}, {"protocols": (JoinProtocol("robin", b""),)}, {"protocols": ()}, {"kind": ""}]
)
def test_who_does_not_fit_the_others_is_refused(unfit: dict[str, object]) -> None:
    play = stable("a")
    assert play.joined(play.join(**unfit)).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL  # type: ignore[arg-type]
    assert play.group.state is GroupState.STABLE


def test_an_empty_group_takes_another_type() -> None:
    play = stable("a")
    play.leave("a")
    assert play.joined(play.join(kind="connect")).protocol_type == "connect"


@pytest.mark.parametrize("session_s", [5.9, 1_801.0, -1.0])
def test_session_time_outs_have_limits(session_s: float) -> None:
    play = Play()
    assert play.joined(play.join(session_s=session_s)).code is ErrorCode.INVALID_SESSION_TIMEOUT


def test_a_group_has_only_so_many_members() -> None:
    play = Play(GroupLimits(initial_delay_s=0.0, members_max=2))
    stable("a", "b", play=play)
    assert play.joined(play.join(needs_id=True)).code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert play.joined(play.join("b")).code is ErrorCode.NONE
    assert play.group.state is GroupState.STABLE


def test_what_members_tell_has_a_limit_over_all() -> None:
    play = Play(GroupLimits(initial_delay_s=0.0, metadata_bytes_max=100))
    stable("a", play=play)
    assert play.joined(play.join(protocols=(JoinProtocol("range", bytes(100)),))).code is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_ids_that_nobody_uses_have_a_limit() -> None:
    play = Play(GroupLimits(pending_max=1))
    play.join(needs_id=True)
    assert play.joined(play.join(needs_id=True)).code is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_an_unknown_member_begins_anew() -> None:
    play = stable("a")
    assert play.joined(play.join("ghost")).code is ErrorCode.UNKNOWN_MEMBER_ID


# --- Static members ---------------------------------------------------------------------------------------------------------------


def test_a_static_member_keeps_its_assignment_over_a_restart() -> None:
    play = Play()
    play.join(new_id="a1", instance="a")
    play.sync("a1", {"a1": b"p0"}, instance="a")
    answer = play.joined(play.join(new_id="a2", instance="a", skips=True))
    assert (answer.member_id, answer.generation, answer.leader, answer.skips_assignment) == ("a2", 1, "a2", True)
    assert [one.id for one in answer.members] == ["a2"]
    assert play.group.state is GroupState.STABLE
    assert play.durable[-1].members.keys() == {"a2"}
    assert play.synced(play.sync("a2", instance="a")).assignment == b"p0"


def test_a_client_that_does_not_know_of_skipping_is_told_that_it_follows() -> None:
    play = Play()
    play.join(new_id="a1", instance="a")
    play.sync("a1", {"a1": b"p0"}, instance="a")
    answer = play.joined(play.join(new_id="a2", instance="a"))
    assert (answer.member_id, answer.leader, answer.members, answer.skips_assignment) == ("a2", "a1", (), False)


def test_the_former_process_of_a_static_member_is_fenced() -> None:
    play = Play()
    play.join(new_id="a1", instance="a")
    play.sync("a1", {}, instance="a")
    play.join(new_id="a2", instance="a")
    assert play.beat("a1", instance="a") is ErrorCode.FENCED_INSTANCE_ID
    assert play.commits("a1", instance="a") is ErrorCode.FENCED_INSTANCE_ID
    assert play.synced(play.sync("a1", instance="a")).code is ErrorCode.FENCED_INSTANCE_ID
    assert play.joined(play.join("a1", instance="a")).code is ErrorCode.FENCED_INSTANCE_ID


def test_the_waiting_call_of_a_former_process_is_answered() -> None:
    play = Play(GroupLimits(initial_delay_s=3.0))
    first = play.join(new_id="a1", instance="a")
    second = play.join(new_id="a2", instance="a")
    assert play.joined(first).code is ErrorCode.FENCED_INSTANCE_ID
    play.wait(3.0)
    play.wait(3.0)
    assert play.joined(second).members[0].id == "a2"


def test_a_static_member_that_changes_its_protocol_begins_a_rebalance() -> None:
    play = Play()
    play.join(new_id="a1", instance="a", protocols=(JoinProtocol("range", b""), JoinProtocol("robin", b"")))
    play.sync("a1", {}, instance="a")
    answer = play.joined(play.join(new_id="a2", instance="a", protocols=(JoinProtocol("robin", b""),)))
    assert (answer.generation, answer.protocol, answer.leader) == (2, "robin", "a2")


def test_a_static_member_keeps_its_place_while_it_is_away() -> None:
    play = Play()
    play.join(new_id="a1", instance="a", session_s=200.0)
    play.join(new_id="b")
    play.join("a1", instance="a", session_s=200.0)
    play.sync("b")
    play.sync("a1", {"a1": b"0", "b": b"1"}, instance="a")
    play.join(new_id="c")
    again = play.join("b")
    play.wait(REBALANCE_S)
    assert [one.id for one in play.joined(again).members or play.group.told_members()] == ["a1", "b", "c"]
