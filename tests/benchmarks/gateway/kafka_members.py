"""The cheapest member of a Kafka group there is: one connection to the coordinator and one to fetch by, requests encoded once where they repeat."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from penstock.gateway.kafka.wire.apis import APIS, ApiKey
from penstock.gateway.kafka.wire.errors import ErrorCode
from penstock.log.limits import MIB
from tests.gateway.kafka.wire.requests import made, message_class

JOIN, SYNC, HEARTBEAT, FETCH, COMMIT = (
    (ApiKey.JOIN_GROUP, 5),
    (ApiKey.SYNC_GROUP, 3),
    (ApiKey.HEARTBEAT, 3),
    (ApiKey.FETCH, 11),
    (ApiKey.OFFSET_COMMIT, 7),
)
"""APIs and versions, as librdkafka and Java's client of some years ago ask."""
_Asked = tuple[ApiKey, int]
_CLIENT_ID = b"bench"


class Connection:
    """One connection, one request after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._turn = asyncio.Lock()

    async def ask(self, asked: _Asked, **fields: Any) -> Any:
        """The answer as kafka-python reads it."""
        key, version = asked
        return message_class(key, "Response").decode(await self.repeat(encoded(asked, **fields)), version=version)

    async def repeat(self, request: bytes) -> bytes:
        """The body of the answer to an encoded request."""
        async with self._turn:
            self._writer.write(request)
            (length,) = struct.unpack(">i", await self._reader.readexactly(4))
            return (await self._reader.readexactly(length))[4:]

    def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def connection(endpoints: str) -> AsyncIterator[Connection]:
    host, _, port = endpoints.rpartition(":")
    opened = Connection(*await asyncio.open_connection(host, int(port), limit=4_096))
    try:
        yield opened
    finally:
        opened.close()


def encoded(asked: _Asked, **fields: Any) -> bytes:
    """A request with its length and header."""
    key, version = asked
    assert not APIS[key].is_flexible(version), "headers of these versions have no tags"
    body: bytes = made(message_class(key, "Request"), version, fields).encode()
    frame = struct.pack(">hhih", key, version, 1, len(_CLIENT_ID)) + _CLIENT_ID + body
    return struct.pack(">i", len(frame)) + frame


class GroupMember:
    """A member of a group: it joins, and joins again when it is told to."""

    def __init__(self, coordinator: Connection, group: str) -> None:
        self._coordinator = coordinator
        self._group = group
        self._generation = -1
        self._id = ""
        self._heartbeat = b""

    @property
    def _membership(self) -> dict[str, Any]:
        return {"group_id": self._group, "generation_id": self._generation, "member_id": self._id}

    async def join(self) -> None:
        """Return with an assignment."""
        while await self._joined() or await self._synced():
            pass
        self._heartbeat = encoded(HEARTBEAT, **self._membership)

    async def _joined(self) -> int:
        answer = await self._coordinator.ask(
            JOIN,
            group_id=self._group,
            session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
            member_id=self._id,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b"topics"}],
        )
        self._id, self._generation = answer.member_id, answer.generation_id
        self._others = [one.member_id for one in answer.members]
        return _checked(answer.error_code)

    async def _synced(self) -> int:
        told = [{"member_id": one, "assignment": b"all"} for one in self._others]
        return _checked((await self._coordinator.ask(SYNC, **self._membership, assignments=told)).error_code)

    async def beat(self) -> None:
        """Say that it lives."""
        (code,) = struct.unpack(">h", (await self._coordinator.repeat(self._heartbeat))[-2:])
        if _checked(code):
            await self.join()

    async def commit(self, topic: str, partition: int, offset: int) -> None:
        """Commit a position."""
        position = {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
        answer = await self._coordinator.ask(
            COMMIT,
            group_id=self._group,
            generation_id_or_member_epoch=self._generation,
            member_id=self._id,
            topics=[{"name": topic, "partitions": [position]}],
        )
        if _checked(answer.topics[0].partitions[0].error_code):
            await self.join()


def _checked(code: int) -> int:
    if code not in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS):
        raise RuntimeError(f"{ErrorCode(code).name} in answer to a member")
    return code


def fetch_of(topic: str, partition: int, *, wait_ms: int) -> bytes:
    """A fetch of all that comes to a partition."""
    place = {
        "partition": partition,
        "current_leader_epoch": -1,
        "fetch_offset": 0,
        "log_start_offset": -1,
        "partition_max_bytes": MIB,
    }
    topics = [{"topic": topic, "partitions": [place]}]
    return encoded(FETCH, replica_id=-1, max_wait_ms=wait_ms, min_bytes=1, max_bytes=50 * MIB, topics=topics, rack_id="")
