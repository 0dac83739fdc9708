"""Metadata, DescribeCluster and DescribeTopicPartitions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final
from uuid import UUID

from ....aio import Lake
from ....log import PenstockError, TopicNotFound
from ....log.topic.topics import Topic
from ...peers.reachable_peers import ReachablePeers
from ...peers.rendezvous import Peer
from ...topics.directory import TopicDirectory
from ..server.calls import KafkaCall
from ..wire.errors import ErrorCode, KafkaRefusal, refusal_of
from ..wire.messages import Fields, Request
from ..wire.names import INTERNAL, topic_of
from .cluster import cluster_id, leader_of, node_of

_NAMES_S: Final = 10.0
"""All names of the lake are listed again after this time: consoles and consumers by pattern ask every few seconds."""
_OPENED_AT_ONCE: Final = 16
_LOOKED_UP_MAX: Final = 64
"""The most names of a request that are looked up each by itself. More are looked up in the list of all names, which is some seconds old."""
_ASKED_AT_ONCE: Final = 256
"""Other clients' calls go on between so many topics of a request."""
_NO_ID: Final = UUID(int=0)
_DESCRIBED_MAX: Final = 2_000
"""The most partitions of one answer to DescribeTopicPartitions, as in Kafka."""
_BROKERS: Final = 1
"""The kind of endpoints that clients speak with, by Kafka's number."""
_NOTHING_MORE: Final[Fields] = {}
_NO_ELIGIBLE: Final[Fields] = {"eligible_leader_replicas": [], "last_known_elr": []}
"""What the partitions of DescribeTopicPartitions have beside those of Metadata. Java's admin client takes no null."""


class MetadataService:
    """Tells clients which brokers, topics and partitions there are."""

    def __init__(self, lake: Lake, names: TopicDirectory, peers: ReachablePeers, *, create_topics: bool) -> None:
        self._lake, self._names, self._peers, self._create_topics = lake, names, peers, create_topics
        self._clock = lake.runtime.clock
        self._cluster_id = cluster_id(lake.url)
        self._listed: tuple[float, Mapping[str, str]] | None = None
        """When, and the incarnations by names."""
        self._looked_s: dict[str, float] = {}
        self._changes = 0
        self._opening = asyncio.Semaphore(_OPENED_AT_ONCE)

    async def metadata(self, request: Request, call: KafkaCall) -> Fields:
        peers = await self._peers.live(tls=call.session.is_tls)
        asks_all = request.topics is None or (call.version == 0 and not request.topics)
        if asks_all:
            topics = await self._all(peers, call)
        else:
            creates = self._create_topics and (request.allow_auto_topic_creation is not False)
            names = await self.names_by_id(call) if any(one.name is None for one in request.topics) else {}
            listed = await self._list_names() if len(request.topics) > _LOOKED_UP_MAX and not creates else None
            topics = []
            for start in range(0, len(request.topics), _ASKED_AT_ONCE):
                some = request.topics[start : start + _ASKED_AT_ONCE]
                topics += await asyncio.gather(
                    *(self._asked(one, names, peers, call, creates=creates, listed=listed) for one in some)
                )
        return {
            "throttle_time_ms": 0,
            "brokers": [
                {"node_id": node.node_id, "host": node.endpoint.host, "port": node.endpoint.port, "rack": None}
                for node in map(node_of, peers)
            ],
            "cluster_id": self._cluster_id,
            "controller_id": self._controller(peers),
            "topics": topics,
        }

    async def describe_cluster(self, request: Request, call: KafkaCall) -> Fields:
        if call.version >= 1 and request.endpoint_type != _BROKERS:
            raise KafkaRefusal(ErrorCode.MISMATCHED_ENDPOINT_TYPE, "this is a broker's endpoint: there are no controllers beside")
        peers = await self._peers.live(tls=call.session.is_tls)
        return {
            "throttle_time_ms": 0,
            "error_code": ErrorCode.NONE,
            "error_message": None,
            "endpoint_type": _BROKERS,
            "cluster_id": self._cluster_id,
            "controller_id": self._controller(peers),
            "brokers": [
                {"broker_id": node.node_id, "host": node.endpoint.host, "port": node.endpoint.port, "rack": None}
                for node in map(node_of, peers)
            ],
        }

    async def describe_topic_partitions(self, request: Request, call: KafkaCall) -> Fields:
        peers = await self._peers.live(tls=call.session.is_tls)
        names = sorted({one.name for one in request.topics} or await self._all_names(call))
        first, start = ("", 0) if request.cursor is None else (request.cursor.topic_name, request.cursor.partition_index)
        start = max(0, start) if first in names else 0
        limit = max(1, min(request.response_partition_limit, _DESCRIBED_MAX))
        names = [name for name in names if name >= first]
        found: list[Fields] = []
        left = start + limit
        for at in range(0, len(names), _OPENED_AT_ONCE):
            if left < 0:  # the page is full, and it is known where the next one begins
                break
            some = names[at : at + _OPENED_AT_ONCE]
            opened = await asyncio.gather(*(self._one(name, peers, call, creates=False, more=_NO_ELIGIBLE) for name in some))
            found += opened
            left -= sum(len(_partitions(one)) for one in opened)
        topics, following = page_of(found, start=start, limit=limit)
        return {"throttle_time_ms": 0, "topics": topics, "next_cursor": following}

    def _controller(self, peers: Sequence[Peer]) -> int:
        """This gateway, as any answers what a controller is asked."""
        own = next((peer for peer in peers if peer.name == self._peers.own_name), None)
        return node_of(own).node_id if own is not None else leader_of("", peers)

    async def _all(self, peers: Sequence[Peer], call: KafkaCall) -> Sequence[Fields]:
        names = await self._all_names(call)
        found: list[Fields] = []
        for start in range(0, len(names), _ASKED_AT_ONCE):
            some = names[start : start + _ASKED_AT_ONCE]
            found += await asyncio.gather(*(self._one(name, peers, call, creates=False) for name in some))
        return [one for one in found if one["error_code"] == ErrorCode.NONE]  # those that have gone meanwhile

    async def _all_names(self, call: KafkaCall) -> Sequence[str]:
        """The names that the caller may know of."""
        return [name for name in sorted(await self._list_names()) if call.rights.has_any(name)]

    async def _list_names(self) -> Mapping[str, str]:
        now_s = self._clock.monotonic_s()
        if self._listed is not None and now_s - self._listed[0] <= _NAMES_S:
            return self._listed[1]
        changes = self._changes
        known = await self._lake.topics(damaged="skip")
        self._names.note(known)
        names = {name: record.incarnation for name, record in known.items() if INTERNAL not in name}
        if changes == self._changes:  # else the list may be older than what this gateway made or deleted meanwhile
            self._listed = (now_s, names)
        return names

    async def _asked(
        self,
        asked: Request,
        names: Mapping[UUID, str],
        peers: Sequence[Peer],
        call: KafkaCall,
        *,
        creates: bool,
        listed: Mapping[str, str] | None,
    ) -> Fields:
        if asked.name is None:
            name = names.get(asked.topic_id)
            if name is None:
                return _absent(None, ErrorCode.UNKNOWN_TOPIC_ID, asked.topic_id)
            return await self._one(name, peers, call, creates=False)
        return await self._one(asked.name, peers, call, creates=creates, listed=listed)

    async def check_collision(self, name: str) -> None:
        """Raise `KafkaRefusal` for a new name that differs from another in ``.`` for ``_`` alone: names of metrics are the same then."""
        alike = name.replace(".", "_")
        known = await self._list_names() if "_" in alike else ()
        found = next((one for one in known if one != name and one.replace(".", "_") == alike), None)
        if found is not None:
            raise KafkaRefusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} and the topic {found} differ in . for _ alone")

    def forget_names(self) -> None:
        """List all names anew when they are asked for, as this gateway made or deleted a topic."""
        self._listed = None
        self._changes += 1

    async def names_by_id(self, call: KafkaCall) -> Mapping[UUID, str]:
        """The topics that the caller may know of, by their ids."""
        found = await self._lake.topics(damaged="skip")
        return {id_of(record.incarnation): name for name, record in found.items() if call.rights.has_any(name)}

    async def _one(
        self,
        name: str,
        peers: Sequence[Peer],
        call: KafkaCall,
        *,
        creates: bool,
        listed: Mapping[str, str] | None = None,
        more: Fields = _NOTHING_MORE,
    ) -> Fields:
        """``listed``: the names that there are; None: the store is asked. ``more``: what each partition has beside."""
        try:
            call.rights.check_any(topic_of(name))
            if listed is not None and name not in listed:
                return _absent(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            topic = await self._open(name, creates=creates)
        except (KafkaRefusal, PenstockError) as error:
            return _absent(name, refusal_of(error).code)
        leader, epoch = leader_of(name, peers), topic.tail.state.generation
        return {
            "error_code": ErrorCode.NONE,
            "name": name,
            "topic_id": id_of(topic.record.incarnation),
            "is_internal": False,
            "partitions": [{**_partition(number, leader, epoch), **more} for number in range(topic.settings.queues)],
        }

    async def _open(self, name: str, *, creates: bool) -> Topic:
        async with self._opening:
            topic = await self._found(name, creates=creates)
            if not self._is_looked_at(name, topic):
                with suppress(PenstockError):  # a store that is down hides no topics
                    await topic.tail.catch_up()
                    await self._names.renew(topic)
                    self._looked_s[name] = self._clock.monotonic_s()
                topic = await self._found(name, creates=creates)
        if self._listed is not None and name not in self._listed[1]:
            self.forget_names()
        return topic

    async def _found(self, name: str, *, creates: bool) -> Topic:
        try:
            return await self._names.known_topic(name)
        except TopicNotFound:
            if not creates:
                raise
        await self.check_collision(name)
        return await self._names.topic(name)

    def _is_looked_at(self, name: str, topic: Topic) -> bool:
        """Whether it is known that the topic was there lately: nothing follows the log of a topic that clients only ask for."""
        now_s = self._clock.monotonic_s()
        if self._listed is not None and now_s - self._listed[0] <= _NAMES_S:
            return self._listed[1].get(name) == topic.record.incarnation
        return now_s - self._looked_s.get(name, float("-inf")) <= _NAMES_S


def page_of(topics: Iterable[Fields], *, start: int, limit: int) -> tuple[list[Fields], Fields | None]:
    """The topics with so many partitions in all, of the first one from ``start`` on, and where those behind begin."""
    page: list[Fields] = []
    for topic in topics:
        if limit == 0:
            return page, {"topic_name": topic["name"], "partition_index": 0}
        partitions = _partitions(topic)
        some = partitions[start : start + limit]
        page.append({**topic, "partitions": some})
        if start + limit < len(partitions):
            return page, {"topic_name": topic["name"], "partition_index": start + limit}
        limit -= len(some)
        start = 0
    return page, None


def _partitions(topic: Fields) -> list[Fields]:
    partitions = topic["partitions"]
    assert isinstance(partitions, list), "an answer's own"
    return partitions


def id_of(incarnation: str) -> UUID:
    """A topic that is made anew has another id."""
    try:
        return UUID(hex=incarnation)
    except ValueError:
        raise ValueError(f"an incarnation that is no number of 128 bits: {incarnation!r}") from None


def _partition(number: int, leader: int, epoch: int) -> Fields:
    return {
        "error_code": ErrorCode.NONE,
        "partition_index": number,
        "leader_id": leader,
        "leader_epoch": epoch,
        "replica_nodes": [leader],
        "isr_nodes": [leader],
        "offline_replicas": [],
    }


def _absent(name: str | None, code: ErrorCode, topic_id: UUID = _NO_ID) -> Fields:
    return {"error_code": code, "name": name, "topic_id": topic_id, "is_internal": False, "partitions": []}
