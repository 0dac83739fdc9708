"""A gateway that is killed beneath idempotent producers, whose records are written once, in order, and beneath members of groups, who go on."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

import penstock
from penstock.gateway.peers.rendezvous import Peer, by_rendezvous
from tests.figures import FIGURES
from tests.gateway.gateways import RunningGateway, gateway
from tests.gateway.kafka.clients.groups import PARTITIONS, GroupTeam, TopicRounds, stored_groups, stored_peers
from tests.gateway.kafka.clients.playing import Players, record, together
from tests.gateway.programs import PATIENCE_S
from tests.lakes import read_all
from tests.waiting import wait_until

pytestmark = [pytest.mark.processes, pytest.mark.slow]

COUNT = 1000
"""The records of each producer."""


def leader_of(topic: str, *gateways: RunningGateway) -> RunningGateway:
    """The gateway that clients send the topic's records to."""
    cluster = AdminClient({"bootstrap.servers": gateways[0].endpoints}).list_topics(topic)
    leader = cluster.brokers[cluster.topics[topic].partitions[0].leader]
    (found,) = (one for one in gateways if one.endpoints == f"{leader.host}:{leader.port}")
    return found


def know_each_other(*gateways: RunningGateway) -> bool:
    return all(len(AdminClient({"bootstrap.servers": one.endpoints}).list_topics().brokers) == len(gateways) for one in gateways)


def group_of(peers: Sequence[Peer], gateway: RunningGateway, family: str) -> str:
    """The name of a group that the gateway coordinates."""
    names = (f"{family} {number}" for number in itertools.count())
    return next(name for name in names if str(by_rendezvous(name, peers)[0].endpoint) == gateway.endpoints)


def test_nothing_is_lost_or_written_twice(lake: penstock.Lake, tmp_path: Path) -> None:
    senders = [one for one in together() if one.is_idempotent]
    lake.create_topic("orders", message_type="MIXED", queues=len(senders))
    with (
        gateway(lake.url, tmp_path / "first", protocol="kafka") as first,
        gateway(lake.url, tmp_path / "second", protocol="kafka") as second,
        Players(f"{first.endpoints},{second.endpoints}", tmp_path) as players,
        lake.reader("orders") as reader,
    ):
        leader = leader_of("orders", second, first)
        sent = [
            players[sender].start(
                "produce",
                topic="orders",
                records=[{**record(b"k", b"%d" % number), "partition": partition} for number in range(COUNT)],
                idempotent=True,
                batch_bytes=1000,
            )
            for partition, sender in enumerate(senders)
        ]

        def are_sending() -> bool:
            return all(end > 0 for _, end in reader.offsets().values())

        wait_until(are_sending, "all producers have begun")
        leader.kill()
        assert not all(one.done() for one in sent)
        for one in sent:
            one.result(2 * PATIENCE_S)
    stored = read_all(lake)
    for queue, sender in enumerate(senders):
        assert [int(one.body) for one in stored if one.queue == queue] == list(range(COUNT)), sender.name


@pytest.mark.timeout(300)
def test_members_go_on_and_no_position_is_lost(
    lake: penstock.Lake, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    families = {one.name: one for one in together()}
    rounds = TopicRounds(lake, "invoices")
    with (
        gateway(lake.url, tmp_path / "first", protocol="kafka") as first,
        gateway(lake.url, tmp_path / "second", protocol="kafka") as second,
        Players(f"{first.endpoints},{second.endpoints}", tmp_path) as players,
    ):
        wait_until(lambda: know_each_other(first, second), "the gateways know each other")
        victim, peers = leader_of(rounds.topic, second, first), stored_peers(lake)
        teams = {name: GroupTeam(rounds, group_of(peers, victim, name)) for name in families}
        groups = {team.group: name for name, team in teams.items()}
        for name, team in teams.items():
            team.join(players[families[name]], "a")
            team.join(players[families[name]], "b")
        shares = {name: team.meet() for name, team in teams.items()}
        for team in teams.values():
            team.commit()
        positions = {name: team.committed() for name, team in teams.items()}
        before = stored_groups(lake, groups)
        (dying,) = (one.name for one in peers if str(one.endpoint) == victim.endpoints)
        assert {name: before[group].coordinator for group, name in groups.items()} == dict.fromkeys(families, dying)
        victim.kill()
        killed_s = time.monotonic()
        number = rounds.send()
        went_on_s: dict[str, float] = {}

        def have_gone_on() -> bool:
            for name, team in teams.items():
                if name not in went_on_s and team.has_come(number):
                    went_on_s[name] = time.monotonic() - killed_s
            return len(went_on_s) == len(teams)

        wait_until(have_gone_on, "members of all families go on", timeout_s=120)
        assert {name: team.committed() for name, team in teams.items()} == positions
        for name, team in teams.items():
            if not families[name].keeps_its_place:
                team.meet()
            team.commit()
            last = rounds.send()
            team.await_round(last)
            assert set(team.committed()) == set(PARTITIONS)
            if families[name].keeps_its_place:
                assert team.shares(last) == team.shares(number) == shares[name], name
                for member, its in shares[name].items():
                    for partition in its:
                        came = [one for one in team.members[member].values(partition) if one >= number]
                        assert came == list(range(number, last + 1)), name
        after = stored_groups(lake, groups)
    for group, name in groups.items():
        assert after[group].coordinator != dying, name
        if families[name].keeps_its_place:
            assert after[group].generation == before[group].generation, name
    record_property(FIGURES, f"seconds from a gateway's SIGKILL until members had their next records: {went_on_s}")
