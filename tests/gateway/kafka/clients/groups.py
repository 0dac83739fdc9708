"""A group of Kafka's clients at gateways: members that are polled all the time, and who of them has which partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any

import penstock
from penstock import aio
from penstock.coordinator.cells.keys import KAFKA_GATEWAYS, classic_key
from penstock.coordinator.classic.members import ClassicGroup, decode_members
from penstock.gateway.peers.entries import decode_gateways
from penstock.gateway.peers.rendezvous import Peer
from penstock.gateway.server.options import Endpoint
from tests.gateway.kafka.clients.playing import Record, value_of
from tests.gateway.programs import PATIENCE_S, Program
from tests.waiting import wait_until

PARTITIONS = range(4)
_POLL_S = 0.5
_SESSION_S = 9
_COUNT = 1000
Shares = Mapping[str, set[int]]
"""The partitions of each member."""


class GroupMember:
    """A member at a family's program, which does one thing at a time."""

    def __init__(self, program: Program, name: str, *, group: str, topic: str, instance: str | None = None) -> None:
        self.name = name
        self.came: list[Record] = []
        self._program = program
        self._topic = topic
        options = {} if instance is None else {"instance_id": instance}
        self._doing: Future[Any] = program.start(
            "join", name=name, group=group, topics=[topic], session_timeout_s=_SESSION_S, **options
        )

    def turn(self) -> None:
        """Take what came, and poll for more."""
        if self._doing.done():
            self.came += self._doing.result() or []
            self._doing = self._program.start("poll", name=self.name, count=_COUNT, timeout_s=_POLL_S)

    def commit(self) -> None:
        self._call("commit")

    def close(self) -> None:
        self._call("close")

    def seek(self, partition: int, *, time_ms: int) -> None:
        self._call("seek", topic=self._topic, partition=partition, at={"time_ms": time_ms})

    def _call(self, op: str, **arguments: Any) -> None:
        self.came += self._doing.result(PATIENCE_S) or []
        self._doing = self._program.start(op, name=self.name, **arguments)
        self._doing.result(PATIENCE_S)

    def values(self, partition: int) -> list[int]:
        """What came of a partition."""
        return [int(value_of(one)) for one in self.came if one["partition"] == partition]


class TopicRounds:
    """Rounds of a topic: a record of each partition, with the number of the round."""

    def __init__(self, lake: penstock.Lake, topic: str) -> None:
        self.lake, self.topic = lake, topic
        self.count = 0
        lake.create_topic(topic, message_type="MIXED", queues=len(PARTITIONS))

    def send(self) -> int:
        """One more round. Returns its number."""
        with self.lake.producer(self.topic) as producer:
            for partition in PARTITIONS:
                producer.send(penstock.Message(b"%d" % self.count), queue=partition)
        self.count += 1
        return self.count - 1


class GroupTeam:
    """The members of one group."""

    def __init__(self, rounds: TopicRounds, group: str) -> None:
        self.rounds, self.group = rounds, group
        self.members: dict[str, GroupMember] = {}

    def join(self, program: Program, name: str, *, instance: str | None = None) -> GroupMember:
        topic = self.rounds.topic
        self.members[name] = GroupMember(program, f"{self.group}-{name}", group=self.group, topic=topic, instance=instance)
        return self.members[name]

    def leave(self, name: str) -> None:
        self.members.pop(name).close()

    def shares(self, number: int) -> Shares:
        """Who got which partition's record of a round."""
        return {
            name: {partition for partition in PARTITIONS if number in member.values(partition)}
            for name, member in self.members.items()
        }

    def turn(self) -> None:
        for member in self.members.values():
            member.turn()

    def has_come(self, number: int) -> bool:
        """Whether all of a round has come to somebody. Polls."""
        self.turn()
        return set(PARTITIONS) == set().union(*self.shares(number).values())

    def await_round(self, number: int) -> None:
        wait_until(lambda: self.has_come(number), f"round {number} of {self.group}", timeout_s=PATIENCE_S)

    def meet(self) -> Shares:
        """Send rounds until each member has partitions of its own."""
        while True:
            number = self.rounds.send()
            self.await_round(number)
            shares = self.shares(number)
            if all(shares.values()) and sum(map(len, shares.values())) == len(PARTITIONS):
                return shares

    def commit(self) -> None:
        for member in self.members.values():
            member.commit()

    def committed(self) -> dict[int, int]:
        """The group's positions, as operators see them."""
        return {one.queue: one.committed_offset for one in self.rounds.lake.describe_group(self.group).queues}


def stored_groups(lake: penstock.Lake, groups: Iterable[str]) -> dict[str, ClassicGroup]:
    """The groups as their coordinators have written them."""
    keys = {group: classic_key(group) for group in groups}
    cells = _cells(lake, keys.values())
    return {group: decode_members(cells[key], where=key) for group, key in keys.items()}


def stored_peers(lake: penstock.Lake) -> list[Peer]:
    """The gateways as they have told each other."""
    entries = decode_gateways(_cells(lake, [KAFKA_GATEWAYS])[KAFKA_GATEWAYS], where=KAFKA_GATEWAYS)
    return [Peer(name, Endpoint(entry.host, entry.port)) for name, entry in entries.items()]


def _cells(lake: penstock.Lake, keys: Iterable[str]) -> dict[str, bytes]:
    async def read() -> dict[str, bytes]:
        async with aio.connect(lake.url, maintenance=False) as opened:
            found = {key: await opened.coordination.cells.read(key) for key in keys}
        return {key: stored.data for key, stored in found.items() if stored is not None}

    return asyncio.run(read())
