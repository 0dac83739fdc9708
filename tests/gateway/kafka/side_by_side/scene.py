"""What a play is given: connections that say exactly what it wants, names of its own, and the words in which it says what it saw."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.gateway.kafka.records.batches import KafkaBatch, batches_of
from penstock.gateway.kafka.wire.apis import APIS, ApiKey
from penstock.gateway.kafka.wire.errors import ErrorCode
from tests.gateway.kafka.records.oracle import Record, built
from tests.gateway.kafka.stage import Client
from tests.gateway.kafka.wire.requests import made, message_class
from tests.gateway.kafka.wire.test_records_by_hand import produce_request
from tests.waiting import until

CLOSED = "the connection is closed"
SILENT = "no answer"
SILENCE_S = 20.0
TOPIC, BROKER = 2, 4
"""Kinds of resources that have configs, and below what can be done to a config."""
SET, DELETE, APPEND = 0, 1, 2
_NOT_YET = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}


@dataclass(frozen=True)
class Play:
    """One case."""

    name: str
    what: str
    run: Callable[[Scene], Awaitable[str]]


class Wire:
    """One connection."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def ask(self, key: ApiKey, version: int | None = None, /, **fields: Any) -> Any:
        """The answer to a request, of the highest version that a gateway serves unless another is given."""
        version = APIS[key].highest if version is None else version
        return await self.said(key, version, made(message_class(key, "Request"), version, fields).encode())

    async def said(self, key: ApiKey, version: int, body: bytes) -> Any:
        """The answer to a request that is encoded. Raises `asyncio.IncompleteReadError` where the connection ends."""
        self.client.send(key, version, body)
        _, data = await self.client.answer()
        tags = 1 if APIS[key].has_flexible_answer_header(version) else 0
        return message_class(key, "Response").decode(data[tags:], version=version)


@dataclass
class Scene:
    """A play at a server."""

    play: str
    prefix: str
    address: str
    clients: list[Client] = field(default_factory=list)
    _own: Wire | None = None

    def named(self, name: str) -> str:
        """The name that something of this play has."""
        return f"{self.prefix}-{self.play}-{name}"

    async def connect(self) -> Wire:
        host, _, port = self.address.rpartition(":")
        client = Client(*await asyncio.open_connection(host, int(port)))
        self.clients.append(client)
        return Wire(client)

    async def ask(self, key: ApiKey, version: int | None = None, /, **fields: Any) -> Any:
        """As `Wire.ask`, on the play's own connection."""
        return await (await self.own()).ask(key, version, **fields)

    async def own(self) -> Wire:
        if self._own is None:
            self._own = await self.connect()
        return self._own

    async def close(self) -> None:
        for client in self.clients:
            await client.close()

    # --- Topics -----------------------------------------------------------------------------------------------------------------

    async def topic(self, name: str = "t", partitions: int = 1, **configs: str) -> str:
        """A new topic that is ready, by its whole name. In configs ``__`` stands for a point."""
        topic = self.named(name)
        made_configs = [{"name": config.replace("__", "."), "value": value} for config, value in configs.items()]
        code = await self.created(topic, partitions, configs=made_configs)
        assert code is ErrorCode.NONE, code
        await self.ready(topic, partitions)
        return topic

    async def created(self, topic: str, partitions: int = 1, replicas: int = 1, **more: Any) -> ErrorCode:
        """The code that CreateTopics is answered by."""
        asked = {"name": topic, "num_partitions": partitions, "replication_factor": replicas, "assignments": [], "configs": []}
        answer = await self.ask(ApiKey.CREATE_TOPICS, topics=[{**asked, **more}], timeout_ms=30_000, validate_only=False)
        return ErrorCode(answer.topics[0].error_code)

    async def altered(self, topic: str, config: str, value: str | None, operation: int = SET) -> ErrorCode:
        """The code that a change of one config is answered by."""
        changes = [{"name": config, "config_operation": operation, "value": value}]
        resource = {"resource_type": TOPIC, "resource_name": topic, "configs": changes}
        answer = await self.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=[resource], validate_only=False)
        return ErrorCode(answer.responses[0].error_code)

    async def deleted(self, topic: str) -> ErrorCode:
        answer = await self.ask(ApiKey.DELETE_TOPICS, 5, topic_names=[topic], timeout_ms=30_000)
        return ErrorCode(answer.responses[0].error_code)

    async def made_anew(self, topic: str) -> None:
        """Delete a topic, and make it again."""
        assert await self.deleted(topic) is ErrorCode.NONE

        async def code() -> ErrorCode:
            return (await self.offset_of(topic, -1))[0]

        await until(code, lambda found: found is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic} is gone")

        async def created() -> ErrorCode:
            return await self.created(topic)

        await until(created, lambda found: found is ErrorCode.NONE, f"the name {topic} is free")
        await self.ready(topic)

    async def ready(self, topic: str, partitions: int = 1) -> None:
        """Wait until all partitions are led."""

        async def codes() -> set[ErrorCode]:
            return {(await self.offset_of(topic, -1, partition=one))[0] for one in range(partitions)}

        await until(codes, lambda found: not found & _NOT_YET, f"{topic} is ready")

    async def metadata_of(self, *topics: str, creates: bool = False) -> dict[str, Any]:
        """What Metadata says of topics, by their names."""
        asked = [{"name": one, "topic_id": None} for one in topics]
        answer = await self.ask(ApiKey.METADATA, 9, topics=asked, allow_auto_topic_creation=creates)
        return {one.name: one for one in answer.topics}

    # --- Records ----------------------------------------------------------------------------------------------------------------

    async def produce(
        self, topic: str, batch: KafkaBatch | bytes | None, *, partition: int = 0, wire: Wire | None = None, **more: Any
    ) -> Any:
        """What a Produce of one batch is answered by."""
        data = bytes(batch.data) if isinstance(batch, KafkaBatch) else batch
        version = APIS[ApiKey.PRODUCE].highest
        body = produce_request(version, [(topic, [(partition, data)])], **more)
        answer = await (wire or await self.own()).said(ApiKey.PRODUCE, version, body)
        return answer.responses[0].partition_responses[0]

    async def send(self, topic: str, *values: str, partition: int = 0) -> None:
        """Records with these values, a batch each."""
        for value in values:
            answer = await self.produce(topic, built([Record(None, value.encode())]), partition=partition)
            assert not answer.error_code, word(answer.error_code)

    async def fetch(self, topic: str, offset: int = 0, *, partition: int = 0, wire: Wire | None = None, **more: Any) -> Any:
        """What a Fetch of one partition is answered by: the partition, with the whole answer's code if it has one."""
        answer = await self.fetched([(topic, partition, offset)], wire=wire, **more)
        if answer.error_code:
            return answer
        return answer.responses[0].partitions[0]

    async def fetched(self, places: Sequence[tuple[str, int, int]], *, wire: Wire | None = None, **more: Any) -> Any:
        """What a Fetch of topics, partitions and offsets is answered by."""
        of_partition = {name: more.pop(name) for name in ("current_leader_epoch", "partition_max_bytes") if name in more}
        topics = [
            {
                "topic": topic,
                "partitions": [{"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **of_partition}],
            }
            for topic, partition, offset in places
        ]
        asked = {"replica_id": -1, "max_wait_ms": 5_000, "min_bytes": 1, "max_bytes": 1 << 25, "isolation_level": 0, **more}
        asked = {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": [], "rack_id": "", **asked}
        return await (wire or await self.own()).ask(ApiKey.FETCH, topics=topics, **asked)

    async def offset_of(self, topic: str, timestamp: int, *, partition: int = 0, **more: Any) -> tuple[ErrorCode, int, int]:
        """What ListOffsets says: the code, the offset and its time."""
        asked = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": timestamp, **more}
        topics = [{"name": topic, "partitions": [asked]}]
        answer = await self.ask(ApiKey.LIST_OFFSETS, replica_id=-1, isolation_level=0, topics=topics)
        found = answer.topics[0].partitions[0]
        return ErrorCode(found.error_code), found.offset, found.timestamp


def word(code: int) -> str:
    """``OK``, or the protocol's word for the refusal."""
    return "OK" if code == 0 else ErrorCode(code).name


def words(codes: Mapping[str, int]) -> str:
    """The words of several codes, those with the same one together."""
    return each({name: word(code) for name, code in codes.items()})


def records_in(part: Any) -> list[KafkaBatch]:
    return batches_of(part.records or b"")


async def ends(answer: Awaitable[Any]) -> Any:
    """The answer, or the words for a connection that ends without one, or says nothing."""
    try:
        async with asyncio.timeout(SILENCE_S):
            return await answer
    except TimeoutError:
        return SILENT
    except (asyncio.IncompleteReadError, ConnectionError):
        return CLOSED


async def code_of(answer: Awaitable[Any]) -> str:
    """The word for an answer's code, or for there being none."""
    found = await ends(answer)
    return found if isinstance(found, str) else word(found.error_code)


def each(said: Mapping[str, str]) -> str:
    """What was seen in several cases, those with the same together."""
    by_word: dict[str, list[str]] = {}
    for name, found in said.items():
        by_word.setdefault(found, []).append(name)
    return "; ".join(f"{', '.join(names)}: {found}" for found, names in by_word.items())
