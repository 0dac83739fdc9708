"""What the next coordinator knows of a group."""

from __future__ import annotations

from penstock.coordinator.classic.members import decode_members, encode_members
from penstock.gateway.kafka.groups.membership.group import Group, GroupState
from penstock.gateway.kafka.groups.membership.stored_group import stored_group, taken_over
from penstock.gateway.kafka.wire.errors import ErrorCode
from tests.gateway.kafka.groups.members import SESSION_S, Play


def led_by_shop() -> Play:
    """A stable group of one static member, which is the principal ``shop``."""
    play = Play()
    play.join(new_id="a", instance="i", principal="shop")
    play.sync("a", {"a": b"p0"}, instance="i", principal="shop")
    return play


def after_its_coordinator(play: Play, *, life: int = 1) -> Group:
    """The group as another coordinator reads it, in the ``life`` that the group has by then."""
    stored = stored_group(play.group, epoch=1, coordinator="dead", life=1)
    return taken_over(decode_members(encode_members(stored), where="cell"), life=life, now_s=play.now_s, grace_s=5.0)


def test_the_next_coordinator_goes_on_with_the_same_members() -> None:
    play = led_by_shop()
    (before,) = play.group.members.values()
    play.group = after_its_coordinator(play)
    (member,) = play.group.members.values()
    assert (play.group.state, play.group.generation, play.group.leader) == (GroupState.STABLE, 1, "a")
    assert (member.instance_id, member.protocols, member.assignment) == ("i", before.protocols, b"p0")
    assert member.until_s == play.now_s + SESSION_S + 5.0


def test_a_member_is_its_principals_at_the_next_coordinator_too() -> None:
    play = led_by_shop()
    play.group = after_its_coordinator(play)
    assert play.beat("a", instance="i", principal="other") is ErrorCode.UNKNOWN_MEMBER_ID
    assert play.joined(play.join(instance="i", principal="other")).code is ErrorCode.FENCED_INSTANCE_ID
    assert play.beat("a", instance="i", principal="shop") is ErrorCode.NONE


def test_of_an_earlier_life_the_generation_alone_counts() -> None:
    play = led_by_shop()
    play.group = after_its_coordinator(play, life=2)
    assert (play.group.state, play.group.generation, dict(play.group.members)) == (GroupState.EMPTY, 1, {})
