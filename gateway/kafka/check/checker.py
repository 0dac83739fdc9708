"""The checks of a gateway, from where its clients are."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any, Final

import pyarrow as pa

from ....log.runtime.runtime import Runtime
from ...server.check_finding import CheckFailed, CheckFinding
from ...server.options import Endpoint
from ..records.batches import batches_of
from ..records.decoding import RECORDS_SCHEMA, decode
from ..records.encoding import encode
from ..wire.apis import ApiKey
from ..wire.errors import ErrorCode
from .client import PATIENCE_S, CheckClient, ConnectionClosed
from .proof import mechanisms, prove

_ADDRESS: Final = (
    "Give each gateway --address HOST, a name by which its clients reach it: they are told it, and speak with it from then on"
)
_FIXES: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "An operator grants rights to it by `penstock access grant`",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "Make it by `penstock topic create`, or an admin client, or start the gateway with --create-topics",
}
_EARLIEST: Final = -2
_LATEST: Final = -1
_NONCE_BYTES: Final = 18
_FETCH_BYTES_MAX: Final = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class KafkaCheckTarget:
    """A gateway, as a client is told it, and the client's credentials."""

    place: Endpoint
    topic: str | None = None
    group: str | None = None
    tls: ssl.SSLContext | None = None
    access_key: str = ""
    secret: str = ""


class KafkaChecker:
    """The checks in turn."""

    def __init__(self, target: KafkaCheckTarget, runtime: Runtime) -> None:
        self._target, self._runtime = target, runtime
        self._clients: dict[Endpoint, CheckClient] = {}
        """The connections, each proved."""
        self._brokers: dict[int, Endpoint] = {}
        self._cluster = ""
        self._leaders: dict[int, int] = {}
        """The leaders of the topic's partitions."""
        self._sent: tuple[int, bytes] | None = None
        """The offset and the value of what was sent."""

    async def run(self, *, send: bool = False) -> AsyncIterator[CheckFinding]:
        """The findings, up to a problem that hides the rest. Without ``send`` nothing is written."""
        target = self._target
        steps: list[tuple[str, Callable[[], Awaitable[str]], bool]] = [
            ("connection", self._connect, True),
            ("versions", self._versions, True),
            ("identity", self._prove, True),
            ("brokers", self._list_brokers, True),
            ("places", self._visit_brokers, False),
        ]
        if target.group is not None:
            steps.append(("group", self._coordinator, False))
        if target.topic is not None:
            steps.append(("topic", self._describe, True))
        if send:
            steps.append(("send", self._send, True))
        if target.topic is not None:
            steps.append(("fetch", self._fetch, False))
        try:
            for name, work, hides_rest in steps:
                found = await _finding(name, work)
                yield found
                if hides_rest and not found.is_ok:
                    return
        finally:
            await asyncio.gather(*(client.close() for client in self._clients.values()))

    # --- The gateway --------------------------------------------------------------------------------------------------------------

    async def _connect(self) -> str:
        place = self._target.place
        self._clients[place] = await CheckClient.connect(place, self._target.tls)
        return f"{place}, {'TLS' if self._target.tls is not None else 'plaintext'}"

    async def _versions(self) -> str:
        client, started_s = self._clients[self._target.place], self._runtime.clock.monotonic_s()
        try:
            await client.versions()
        except (ConnectionClosed, TimeoutError) as error:
            raise CheckFailed(_said(error), "Is it a gateway of Kafka's protocol, and is TLS used by both or none?") from None
        return f"{len(client.highest)} APIs, answered in {self._took(started_s)}"

    async def _prove(self) -> str:
        client = self._clients[self._target.place]
        if not self._target.access_key:
            if await self._asks_for_proof():
                raise CheckFailed("it asks clients who they are", "Give --access-key and --secret-file")
            return "nobody is asked who he is"
        started_s = self._runtime.clock.monotonic_s()
        mechanism = await self._proved(client)
        return f"{self._target.access_key}, by {mechanism} in {self._took(started_s)}"

    async def _asks_for_proof(self) -> bool:
        """The question has a connection of its own, as it ends that where nobody is asked."""
        client = await CheckClient.connect(self._target.place, self._target.tls)
        try:
            await client.versions()
            return bool(await mechanisms(client))
        finally:
            await client.close()

    async def _proved(self, client: CheckClient) -> str:
        nonce = self._runtime.random.randbytes(_NONCE_BYTES).hex()
        return await prove(client, self._target.access_key, self._target.secret, nonce)

    async def _list_brokers(self) -> str:
        answer = await self._metadata(self._clients[self._target.place], [])
        self._cluster = answer.cluster_id
        self._brokers = {one.node_id: Endpoint(one.host, one.port) for one in answer.brokers}
        if not self._brokers:
            raise CheckFailed("it names no broker")
        return f"cluster {self._cluster}: {', '.join(sorted(map(str, self._brokers.values())))}"

    async def _visit_brokers(self) -> str:
        """Connect to every address that clients are told."""
        told = []
        for place in sorted(set(self._brokers.values()), key=str):
            started_s = self._runtime.clock.monotonic_s()
            if is_of_own_machine(place.host) and not is_of_own_machine(self._target.place.host):
                raise CheckFailed(f"clients are told {place}, which is each client's own machine", _ADDRESS)
            try:
                client = await self._client(place)
                cluster = (await self._metadata(client, [])).cluster_id
            except (OSError, TimeoutError, ConnectionClosed) as error:
                raise CheckFailed(f"clients are told {place}, which is not reached from here: {_said(error)}", _ADDRESS) from None
            if cluster != self._cluster:
                raise CheckFailed(f"clients are told {place}, and another cluster answers there: {cluster}", _ADDRESS)
            told.append(f"{place} in {self._took(started_s)}")
        return ", ".join(told)

    # --- Topic and group ----------------------------------------------------------------------------------------------------------

    async def _describe(self) -> str:
        (topic,) = (await self._metadata(self._clients[self._target.place], [{"name": self._target.topic}])).topics
        _check(topic.error_code, f"topic {self._target.topic}")
        self._leaders = {one.partition_index: one.leader_id for one in topic.partitions}
        leaders = sorted({str(self._brokers.get(one, one)) for one in self._leaders.values()})
        return f"{self._target.topic}: {len(self._leaders)} partitions, led by {', '.join(leaders)}"

    async def _coordinator(self) -> str:
        group = self._target.group
        fields = {"key": group, "key_type": 0, "coordinator_keys": [group]}
        answer = await self._clients[self._target.place].ask(ApiKey.FIND_COORDINATOR, fields)
        found = answer.coordinators[0] if answer.coordinators else answer
        _check(found.error_code, f"group {group}", found.error_message)
        place, started_s = Endpoint(found.host, found.port), self._runtime.clock.monotonic_s()
        try:
            client = await self._client(place)
            described = (await client.ask(ApiKey.DESCRIBE_GROUPS, {"groups": [group]})).groups[0]
        except (OSError, TimeoutError, ConnectionClosed) as error:
            raise CheckFailed(f"{place} coordinates it, and is not reached from here: {_said(error)}", _ADDRESS) from None
        is_new = described.error_code == ErrorCode.GROUP_ID_NOT_FOUND or described.group_state == "Dead"
        if not is_new:
            _check(described.error_code, f"group {group}", getattr(described, "error_message", None))
        state = "not there yet" if is_new else f"{described.group_state}, {len(described.members)} members"
        return f"{group}: {state}; {place} coordinates it, and answered in {self._took(started_s)}"

    # --- Records ------------------------------------------------------------------------------------------------------------------

    async def _send(self) -> str:
        partition, client = await self._leader()
        value = self._runtime.new_id().encode()
        now = datetime.fromtimestamp(self._runtime.clock.wall_ms() / 1000, UTC)
        record = {"offset_delta": 0, "timestamp": now, "key": b"penstock-check", "value": value, "headers": None}
        (batch,) = encode(pa.RecordBatch.from_pylist([record], RECORDS_SCHEMA), base_offset=0, leader_epoch=-1)
        parts = [{"index": partition, "records": bytes(batch.data)}]
        fields = {
            "transactional_id": None,
            "acks": -1,
            "timeout_ms": round(1000 * PATIENCE_S),
            "topic_data": [{"name": self._target.topic, "partition_data": parts}],
        }
        started_s = self._runtime.clock.monotonic_s()
        (answer,) = (await client.ask(ApiKey.PRODUCE, fields)).responses[0].partition_responses
        _check(answer.error_code, f"topic {self._target.topic}", answer.error_message)
        self._sent = answer.base_offset, value
        return f"durable in {self._took(started_s)}, at offset {answer.base_offset} of partition {partition}"

    async def _fetch(self) -> str:
        partition, client = await self._leader()
        if self._sent is not None:
            return await self._fetch_back(client, partition, *self._sent)
        earliest, limit = [await self._offset(client, partition, at) for at in (_EARLIEST, _LATEST)]
        if earliest == limit:
            return f"partition {partition} is empty"
        started_s = self._runtime.clock.monotonic_s()
        await self._records(client, partition, limit - 1)
        return f"offset {limit - 1} of partition {partition}, the last one, in {self._took(started_s)}"

    async def _fetch_back(self, client: CheckClient, partition: int, offset: int, value: bytes) -> str:
        started_s = self._runtime.clock.monotonic_s()
        records = await self._records(client, partition, offset)
        took = self._took(started_s)
        batch = next((one for one in batches_of(records) if one.header.base_offset == offset), None)
        if batch is None or decode([batch], limit_bytes=_FETCH_BYTES_MAX)["value"].to_pylist() != [value]:
            raise CheckFailed(f"what was sent is not at offset {offset} of partition {partition}")
        return f"what was sent came in {took}"

    async def _leader(self) -> tuple[int, CheckClient]:
        partition, leader = min(self._leaders.items())
        if leader not in self._brokers:
            raise CheckFailed(f"partition {partition} is led by {leader}, which is none of the brokers")
        return partition, await self._client(self._brokers[leader])

    async def _offset(self, client: CheckClient, partition: int, timestamp: int) -> int:
        asked = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": timestamp}
        topics = [{"name": self._target.topic, "partitions": [asked]}]
        answer = await client.ask(ApiKey.LIST_OFFSETS, {"replica_id": -1, "isolation_level": 0, "topics": topics})
        (found,) = answer.topics[0].partitions
        _check(found.error_code, f"topic {self._target.topic}")
        return int(found.offset)

    async def _records(self, client: CheckClient, partition: int, offset: int) -> bytes:
        asked = {
            "partition": partition,
            "current_leader_epoch": -1,
            "fetch_offset": offset,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": _FETCH_BYTES_MAX,
        }
        fields = {
            "replica_id": -1,
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_bytes": _FETCH_BYTES_MAX,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [{"topic": self._target.topic, "partitions": [asked]}],
            "forgotten_topics_data": [],
            "rack_id": "",
        }
        (found,) = (await client.ask(ApiKey.FETCH, fields)).responses[0].partitions
        _check(found.error_code, f"topic {self._target.topic}")
        return bytes(found.records or b"")

    # --- Connections --------------------------------------------------------------------------------------------------------------

    async def _client(self, place: Endpoint) -> CheckClient:
        """A proved connection to a broker. Raises as `CheckClient.connect` and `CheckClient.ask`, and `CheckFailed`."""
        known = self._clients.get(place)
        if known is None:
            known = self._clients[place] = await CheckClient.connect(place, self._target.tls)
            await known.versions()
            if self._target.access_key:
                await self._proved(known)
        return known

    async def _metadata(self, client: CheckClient, topics: list[Mapping[str, object]]) -> Any:  # noqa: ANN401 - the protocol's answer
        return await client.ask(ApiKey.METADATA, {"topics": topics, "allow_auto_topic_creation": False})

    def _took(self, started_s: float) -> str:
        return f"{(self._runtime.clock.monotonic_s() - started_s) * 1000:.1f} ms"


async def _finding(name: str, work: Callable[[], Awaitable[str]]) -> CheckFinding:
    try:
        return CheckFinding(name, True, await work())
    except CheckFailed as failed:
        return CheckFinding(name, False, failed.observed, failed.fix)
    except ssl.SSLError as error:
        return CheckFinding(name, False, _said(error), "Is TLS used by both, and is the certificate trusted (--tls-root)?")
    except (OSError, TimeoutError, ConnectionClosed) as error:
        return CheckFinding(
            name, False, _said(error), "Is it running there, and is TLS used by both or none?" if name == "connection" else ""
        )


def _said(error: Exception) -> str:
    if isinstance(error, TimeoutError) and not error.args:
        return f"no answer within {PATIENCE_S:.0f} s"
    return str(error) or type(error).__name__


def _check(code: int, what: str, message: str | None = None) -> None:
    if code:
        name, fix = "an unknown code", ""
        if code in set(ErrorCode):
            name, fix = ErrorCode(code).name, _FIXES.get(ErrorCode(code), "")
        raise CheckFailed(f"{what}: {code} {name}{f', {message}' if message else ''}", fix)


def is_of_own_machine(host: str) -> bool:
    """Whether a host is the machine of whoever asks, or no host at all."""
    try:
        address = ip_address(host)
    except ValueError:
        return host.lower() in ("localhost", "localhost.")
    return address.is_loopback or address.is_unspecified
