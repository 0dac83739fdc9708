"""Gateways' coordinators over one lake, and clients that ask them by encoded requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from penstock import aio
from penstock.gateway.access.rights import CallerRights
from penstock.gateway.kafka.groups.coordinator import GroupCoordinator
from penstock.gateway.kafka.groups.handlers import group_handlers
from penstock.gateway.kafka.groups.membership.group import GroupLimits
from penstock.gateway.kafka.server.calls import AdmitAll, Handler, KafkaCall
from penstock.gateway.kafka.server.session import KafkaSession
from penstock.gateway.kafka.wire.apis import APIS, ApiKey
from penstock.gateway.kafka.wire.errors import KafkaRefusal, refusal_of
from penstock.gateway.kafka.wire.messages import decode_request, encode_answer
from penstock.gateway.kafka.wire.refusals import refused
from penstock.gateway.peers.rendezvous import Peer
from penstock.gateway.server.options import Endpoint
from penstock.log import MessageType, PenstockError, TopicSettings
from penstock.log.stores import MemoryStore
from penstock.log.stores.protocol import ObjectStore
from tests.gateway.kafka.wire.group_requests import group_request
from tests.gateway.kafka.wire.requests import message_class

QUEUES = 4


class Peers:
    """The gateways that one of them believes to live."""

    def __init__(self, own_name: str, *names: str) -> None:
        self.own_name = own_name
        self.names = names or (own_name,)

    async def live(self, *, tls: bool) -> Sequence[Peer]:
        return [] if tls else [Peer(name, Endpoint(name, 9092)) for name in self.names]


class Gateway:
    """The groups of one gateway."""

    def __init__(self, lake: aio.Lake, name: str, *names: str, limits: GroupLimits | None = None) -> None:
        self.lake = lake
        self.peers = Peers(name, *names)
        self.counted = True
        self.coordinator = GroupCoordinator(
            lake.coordination,
            lake.runtime.clock,
            self.peers,
            is_counted=lambda: self.counted,
            limits=limits or GroupLimits(initial_delay_s=0.0),
        )
        self.handlers = group_handlers(self.coordinator, lake.coordination, lake.runtime, topic=lake.topic)

    async def ask(self, key: ApiKey, version: int | None = None, /, **fields: Any) -> Any:
        """The answer to a request of a version, by default of the highest."""
        return await ask(self.handlers, key, version, "app", fields)

    async def close(self) -> None:
        await self.coordinator.close()


async def ask(
    handlers: Mapping[ApiKey, Handler],
    key: ApiKey,
    version: int | None,
    client: str,
    fields: Mapping[str, Any],
    rights: CallerRights | None = None,
) -> Any:
    """A handler's answer to a request as it is encoded and decoded on its way."""
    api = APIS[key]
    version = api.highest if version is None else version
    body = memoryview(group_request(key, version, fields).encode())
    rights = rights or CallerRights()
    session = KafkaSession("10.0.0.1", 1234, principal=rights.principal)
    call = KafkaCall(api, version, 1, client, session, len(body), AdmitAll(), rights=rights)
    asked = decode_request(api, version, body)
    try:
        answer = await handlers[key](asked, call)
    except (KafkaRefusal, PenstockError) as error:  # as the server does
        answer = refused(api, version, asked, refusal_of(error))
    assert isinstance(answer, dict)
    return message_class(key, "Response").decode(encode_answer(api, version, answer), version=version)


class Member:
    """A client that joins a group."""

    def __init__(self, gateway: Gateway, *, group: str = "billing", instance: str | None = None, told: bytes = b"topics") -> None:
        self.gateway = gateway
        self.group = group
        self.instance = instance
        self.told = told
        self.id = ""
        self.generation = -1
        self.members: list[str] = []
        """The members, if it leads."""
        self.assignment = b""

    async def join(self) -> int:
        """Join, with an id if one is asked for. Returns the code."""
        self.assignment = b""
        while True:
            answer = await self.gateway.ask(
                ApiKey.JOIN_GROUP,
                group_id=self.group,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=60_000,
                member_id=self.id,
                group_instance_id=self.instance,
                protocol_type="consumer",
                protocols=[{"name": "range", "metadata": self.told}],
            )
            self.id = answer.member_id
            if answer.error_code != 79:
                break
        self.generation = answer.generation_id
        self.members = [one.member_id for one in answer.members]
        return int(answer.error_code)

    async def sync(self, **assignments: bytes) -> int:
        told = [{"member_id": name, "assignment": value} for name, value in assignments.items()]
        answer = await self.gateway.ask(
            ApiKey.SYNC_GROUP,
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=told,
        )
        self.assignment = answer.assignment
        return int(answer.error_code)

    async def enter(self) -> int:
        """Join and sync; who leads gives each member its own id."""
        code = await self.join()
        return code or await self.sync(**{name: name.encode() for name in self.members})

    async def beat(self) -> int:
        answer = await self.gateway.ask(
            ApiKey.HEARTBEAT, group_id=self.group, generation_id=self.generation, member_id=self.id, group_instance_id=self.instance
        )
        return int(answer.error_code)

    async def leave(self) -> int:
        answer = await self.gateway.ask(
            ApiKey.LEAVE_GROUP, group_id=self.group, members=[{"member_id": self.id, "group_instance_id": self.instance}]
        )
        return int(answer.error_code or answer.members[0].error_code)

    async def commit(self, topic: str, offsets: dict[int, int], *, metadata: str | None = None, version: int = 9) -> dict[int, int]:
        return await commit(
            self.gateway, self.group, topic, offsets, member=self.id, generation=self.generation, metadata=metadata, version=version
        )


async def commit(
    gateway: Gateway,
    group: str,
    topic: str,
    offsets: dict[int, int],
    *,
    member: str = "",
    generation: int = -1,
    metadata: str | None = None,
    version: int = 9,
) -> dict[int, int]:
    """The code of each queue."""
    partitions = [
        {"partition_index": queue, "committed_offset": offset, "committed_leader_epoch": 1, "committed_metadata": metadata}
        for queue, offset in offsets.items()
    ]
    answer = await gateway.ask(
        ApiKey.OFFSET_COMMIT,
        version,
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[{"name": topic, "partitions": partitions}],
    )
    return {one.partition_index: one.error_code for one in answer.topics[0].partitions}


async def fetch(gateway: Gateway, group: str, topic: str, *queues: int) -> dict[int, int]:
    """The committed offset of each queue."""
    asked = [{"group_id": group, "topics": [{"name": topic, "partition_indexes": list(queues)}]}]
    answer = (await gateway.ask(ApiKey.OFFSET_FETCH, groups=asked)).groups[0]
    assert not answer.error_code, answer
    return {one.partition_index: one.committed_offset for one in answer.topics[0].partitions}


async def together(*members: Member) -> None:
    """All of them in one generation."""

    def have_met() -> bool:
        return len({one.generation for one in members}) == 1 and all(one.assignment for one in members)

    async def live(one: Member) -> None:
        while not have_met():
            if await one.beat() and await one.enter():
                continue
            await asyncio.sleep(0)

    await asyncio.gather(*map(live, members))


@asynccontextmanager
async def open_lake(store: ObjectStore | None = None) -> AsyncIterator[aio.Lake]:
    """By default in memory."""
    async with aio.Lake(store or MemoryStore()) as lake:
        await lake.create_topic("orders", TopicSettings(queues=QUEUES, message_type=MessageType.MIXED))
        yield lake


@asynccontextmanager
async def gateway(name: str = "g0", *, limits: GroupLimits | None = None) -> AsyncIterator[Gateway]:
    async with open_lake() as lake:
        one = Gateway(lake, name, limits=limits)
        try:
            yield one
        finally:
            await one.close()
