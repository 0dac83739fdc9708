"""Groups of Kafka's own unmodified clients: members that share partitions, come and go, and go on from what was committed."""

from __future__ import annotations

import pytest

import penstock
from tests.gateway.kafka.clients.families import FAMILIES, Family
from tests.gateway.kafka.clients.groups import PARTITIONS, GroupTeam, TopicRounds, stored_groups
from tests.gateway.kafka.clients.playing import BORN_MS, Players, in_turns, record, value_of
from tests.gateway.programs import PATIENCE_S
from tests.waiting import wait_until

pytestmark = [pytest.mark.processes, pytest.mark.slow]

STATIC = [one for one in FAMILIES.values() if one.has_static_members]
SEEKING = [one for one in FAMILIES.values() if one.has_seeks]


@pytest.fixture
def team(lake: penstock.Lake, name: str) -> GroupTeam:
    return GroupTeam(TopicRounds(lake, name), f"group of {name}")


@pytest.mark.parametrize("family", in_turns(few=True))
def test_members_come_and_go_and_go_on_from_what_was_committed(players: Players, family: Family, team: GroupTeam) -> None:
    program = players[family]
    for name in ("a", "b", "c"):
        team.join(program, name)
    assert len(team.meet()) == 3
    team.commit()
    team.leave("b")
    assert set().union(*team.meet().values()) == {0, 1, 2, 3}
    team.commit()
    team.leave("c")
    assert team.meet() == {"a": {0, 1, 2, 3}}
    team.commit()
    team.leave("a")
    for partition in PARTITIONS:
        asked = program.call("committed", group=team.group, topic=team.rounds.topic, partition=partition)
        assert asked == team.rounds.count, "all that came is committed"
    number = team.rounds.send()
    late = team.join(program, "d")
    team.await_round(number)
    assert [late.values(partition) for partition in PARTITIONS] == [[number]] * 4


@pytest.mark.parametrize("family", in_turns(STATIC, few=True))
def test_a_static_member_returns_to_its_partitions_without_a_rebalance(players: Players, family: Family, team: GroupTeam) -> None:
    for name in ("a", "b"):
        team.join(players[family], name, instance=name)
    shares = team.meet()
    team.commit()
    before = stored_groups(team.rounds.lake, [team.group])[team.group]
    for name in ("a", "b"):
        team.leave(name)
        team.join(players[family], name, instance=name)
        number = team.rounds.send()
        team.await_round(number)
        assert team.shares(number) == shares
    after = stored_groups(team.rounds.lake, [team.group])[team.group]
    assert after.generation == before.generation
    assert {one.id for one in after.members}.isdisjoint(one.id for one in before.members)


@pytest.mark.parametrize("family", in_turns(SEEKING, few=True))
def test_a_member_seeks_by_time(players: Players, family: Family, team: GroupTeam) -> None:
    rows = [{**record(None, b"%d" % number, time_ms=BORN_MS + 1000 * number), "partition": number % 4} for number in range(20)]
    players[family].call("produce", topic=team.rounds.topic, records=rows, one_by_one=True)
    member = team.join(players[family], "a")

    def has_come(count: int) -> bool:
        member.turn()
        return len(member.came) >= count

    wait_until(lambda: has_come(20), "all of it", timeout_s=PATIENCE_S)
    for partition in PARTITIONS:
        member.seek(partition, time_ms=BORN_MS + 14_500)
    wait_until(lambda: has_come(25), "the last five of it again", timeout_s=PATIENCE_S)
    assert sorted(int(value_of(one)) for one in member.came[20:]) == [15, 16, 17, 18, 19]
