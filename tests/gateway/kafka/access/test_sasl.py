"""Connections that prove who they are, and those that do not, byte by byte."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from kafka.protocol.admin import DescribeAclsRequest, DescribeAclsResponse
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataResponse
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from penstock.coordinator.access.grants import Grant, Verb
from penstock.gateway.access.refusals import Unauthorized
from penstock.gateway.kafka.access.sasl import MESSAGE_BYTES_MAX
from penstock.gateway.kafka.access.scram import HASHES, ScramChallenge
from penstock.gateway.kafka.gateway import KafkaGateway
from penstock.gateway.kafka.server.calls import KafkaCall
from penstock.gateway.kafka.server.session import KafkaSession
from penstock.gateway.kafka.wire.apis import APIS, ApiKey
from penstock.gateway.kafka.wire.errors import ErrorCode
from penstock.gateway.server.options import AccessOptions
from penstock.log import Message, TopicSettings
from tests.gateway.kafka.access.test_clients import principal, some_seconds_later
from tests.gateway.kafka.access.test_scram import answer
from tests.gateway.kafka.serving import served
from tests.gateway.kafka.stage import Client, until
from tests.gateway.principals import KEYS, secret_of

METADATA_OF_ALL = struct.pack(">i", -1)
_BEFORE_PROOF = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


@asynccontextmanager
async def asking(calls_per_s: float | None = None, connections: int | None = None, **options: Any) -> AsyncIterator[KafkaGateway]:
    """A gateway that asks for proofs, with the principal shop."""
    access = AccessOptions(keys=KEYS, calls_per_s=calls_per_s, connections=connections)
    async with served(access=access, **options) as gateway:
        await principal(gateway, "shop", Grant(Verb.SEND, "orders"), Grant(Verb.RECEIVE, "orders"))
        yield gateway


@asynccontextmanager
async def connected(gateway: KafkaGateway) -> AsyncIterator[Client]:
    client = Client(*await asyncio.open_connection("127.0.0.1", gateway.port))
    try:
        yield client
    finally:
        await client.close()


async def handshake(client: Client, mechanism: str) -> Any:
    client.send(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism=mechanism, version=1).encode())
    return SaslHandshakeResponse.decode((await client.answer())[1], version=1)


async def authenticate(client: Client, data: bytes) -> Any:
    client.send(ApiKey.SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=data, version=1).encode())
    return SaslAuthenticateResponse.decode((await client.answer())[1], version=1)


async def challenged(client: Client, name: str, mechanism: str = "SCRAM-SHA-256") -> ScramChallenge:
    await handshake(client, mechanism)
    told = await authenticate(client, f"n,,n={name},r=abc".encode())
    assert told.error_code == 0, told.error_message
    text = told.auth_bytes.decode()
    return ScramChallenge(HASHES[mechanism], name, b"n,,", text.split(",")[0][2:], f"n={name},r=abc", text)


async def proved(client: Client, name: str = "shop", secret: str | None = None, mechanism: str = "SCRAM-SHA-256") -> Any:
    """The answer to a proof of a name."""
    asked = await challenged(client, name, mechanism)
    return await authenticate(client, answer(asked, secret or secret_of(name)))


async def topics_of(client: Client) -> list[str]:
    client.send(ApiKey.METADATA, 1, METADATA_OF_ALL)
    return [one.name for one in MetadataResponse.decode((await client.answer())[1], version=1).topics]


@pytest.mark.parametrize("key", [key for key in APIS if key not in _BEFORE_PROOF])
async def test_nothing_else_is_answered_before_a_proof(key: int) -> None:
    async with asking() as gateway, connected(gateway) as client:
        versions = ApiVersionsRequest(client_software_name="a", client_software_version="b", version=0).encode()
        client.send(ApiKey.API_VERSIONS, 0, versions)
        await client.answer()
        client.send(key, APIS[ApiKey(key)].lowest, b"\xff" * 40)
        assert await client.is_closed()


async def test_a_stranger_has_small_requests_and_a_proved_client_has_others() -> None:
    async with asking() as gateway, connected(gateway) as stranger, connected(gateway) as client:
        stranger.writer.write(struct.pack(">i", gateway.server.limits.stranger_request_bytes + 1))
        assert await stranger.is_closed(), "before the request came"
        assert (await proved(client)).error_code == 0
        names = [f"t{number:05}" for number in range(2_000)]
        body = struct.pack(">i", len(names)) + b"".join(struct.pack(">h", len(one)) + one.encode() for one in names)
        assert len(body) > gateway.server.limits.stranger_request_bytes
        client.send(ApiKey.METADATA, 1, body)
        found = MetadataResponse.decode((await client.answer())[1], version=1).topics
        assert {one.error_code for one in found} == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_proof_lets_a_connection_see_what_is_granted(mechanism: str) -> None:
    async with asking(session_lifetime=timedelta(minutes=5)) as gateway, connected(gateway) as client:
        for topic in ("orders", "secrets"):
            await gateway.lake.create_topic(topic, TopicSettings(queues=1))
        told = await proved(client, mechanism=mechanism)
        assert (told.error_code, told.session_lifetime_ms) == (0, 300_000)
        assert await topics_of(client) == ["orders"]


async def test_unknown_names_are_challenged_as_known_ones_are() -> None:
    async with asking() as gateway:
        salts: dict[str, set[str]] = {"shop": set(), "nobody": set()}
        for _ in range(2):
            for name, found in salts.items():
                async with connected(gateway) as client:
                    asked = await challenged(client, name)
                    found.add(asked.text.split(",", 1)[1])
        assert [len(found) for found in salts.values()] == [1, 1], "the same each time"
        assert salts["shop"] != salts["nobody"]
        texts = []
        for name in salts:
            async with connected(gateway) as client:
                refused = await proved(client, name, "not the secret of anybody")
                texts.append((refused.error_code, refused.error_message, refused.auth_bytes))
                assert await client.is_closed()
        assert texts[0] == texts[1]
        assert texts[0][0] == ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_plain_is_not_offered_without_tls() -> None:
    async with asking() as gateway, connected(gateway) as client:
        told = await handshake(client, "PLAIN")
        assert told.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert told.mechanisms == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
        assert await client.is_closed()


async def test_messages_out_of_turn_or_too_long_end_the_connection() -> None:
    async with asking() as gateway:
        async with connected(gateway) as client:
            assert (await authenticate(client, b"n,,n=shop,r=abc")).error_code == ErrorCode.ILLEGAL_SASL_STATE
            assert await client.is_closed()
        async with connected(gateway) as client:
            await handshake(client, "SCRAM-SHA-256")
            long = await authenticate(client, b"x" * (MESSAGE_BYTES_MAX + 1))
            assert long.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert await client.is_closed()
        async with connected(gateway) as client:
            asked = await challenged(client, "shop")
            proof = answer(asked, secret_of("shop"))
            await handshake(client, "SCRAM-SHA-256")
            late = await authenticate(client, proof)
            assert "no first message" in late.error_message, "a handshake begins anew"


async def test_a_connection_keeps_its_principal() -> None:
    async with asking() as gateway, connected(gateway) as client:
        await principal(gateway, "other")
        some_seconds_later(gateway)
        assert (await proved(client)).error_code == 0
        assert (await proved(client)).error_code == 0, "again"
        assert (await proved(client, "other")).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await client.is_closed()


async def test_a_session_ends_with_its_time_and_with_its_secret() -> None:
    async with asking(session_lifetime=timedelta(0)) as gateway, connected(gateway) as client:
        assert (await proved(client)).error_code == 0
        client.send(ApiKey.METADATA, 1, METADATA_OF_ALL)
        assert await client.is_closed()
    async with asking() as gateway, connected(gateway) as before, connected(gateway) as kept, connected(gateway) as client:
        access = gateway.lake.coordination.access
        assert (await proved(before)).error_code == 0
        await access.rotate("shop", secret_of("shop-again"), KEYS, keep=timedelta(hours=1))
        some_seconds_later(gateway)
        assert await topics_of(before) == []
        assert (await proved(kept)).error_code == 0, "the former secret is kept"
        assert (await proved(client, secret=secret_of("shop-again"))).error_code == 0
        await access.rotate("shop", secret_of("shop-at-last"), KEYS, keep=timedelta(0))
        some_seconds_later(gateway)
        for one in (before, kept, client):
            one.send(ApiKey.METADATA, 1, METADATA_OF_ALL)
            assert await one.is_closed()


async def test_a_fetch_that_waits_ends_with_its_principal() -> None:
    async with asking() as gateway, connected(gateway) as client:
        await gateway.lake.create_topic("orders", TopicSettings(queues=1))
        assert (await proved(client)).error_code == 0
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000}
        fetch = FetchRequest(
            replica_id=-1,
            max_wait_ms=30_000,
            min_bytes=1,
            max_bytes=1_000,
            isolation_level=0,
            topics=[FetchRequest.FetchTopic(topic="orders", partitions=[FetchRequest.FetchTopic.FetchPartition(**partition)])],
            version=4,
        )
        client.send(ApiKey.FETCH, 4, fetch.encode())
        await topics_of_another(gateway)
        await gateway.lake.coordination.access.remove("shop")
        some_seconds_later(gateway)
        producer = await gateway.lake.producer("orders")
        await producer.send(Message(b"a secret"))
        assert await client.is_closed(), "the message is not told"


async def test_a_proof_that_takes_long_is_no_session_that_ended() -> None:
    async with asking() as gateway:
        assert gateway.authorizer is not None
        session = KafkaSession("127.0.0.1", 1)
        for key in _BEFORE_PROOF:
            await KafkaCall(APIS[key], 1, 1, "", session, 10, gateway.authorizer).check_again()
        with pytest.raises(Unauthorized, match="proves who it is first"):
            await KafkaCall(APIS[ApiKey.FETCH], 4, 1, "", session, 10, gateway.authorizer).check_again()


async def topics_of_another(gateway: KafkaGateway) -> None:
    """Wait for a call of another connection, which is answered after what came before."""
    async with connected(gateway) as client:
        await proved(client)
        await topics_of(client)


async def test_a_principal_has_so_many_connections() -> None:
    async with asking(connections=1) as gateway, connected(gateway) as first:
        assert (await proved(first)).error_code == 0
        async with connected(gateway) as second:
            assert (await proved(second)).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
            assert await second.is_closed()
        assert (await proved(first)).error_code == 0, "again, on the same one"
        await first.close()
        await until(lambda: not gateway.server.connections)
        async with connected(gateway) as third:
            assert (await proved(third)).error_code == 0


async def test_who_calls_too_often_is_answered_and_told_to_wait() -> None:
    async with asking(calls_per_s=20) as gateway, connected(gateway) as client:
        await proved(client)
        waits = []
        for _ in range(30):
            client.send(ApiKey.LIST_OFFSETS, 2, struct.pack(">ibi", -1, 0, 0))
            waits.append(struct.unpack(">i", (await client.answer())[1][:4])[0])
        assert waits[0] == 0
        assert 0 < max(waits) <= 1_000
        await topics_of(client)


async def described(client: Client, **asked: Any) -> set[tuple[object, ...]]:
    names = dict.fromkeys(("resource_name_filter", "principal_filter", "host_filter"))
    filters = {**names, "resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1, **asked}
    client.send(ApiKey.DESCRIBE_ACLS, 1, DescribeAclsRequest(**filters, version=1).encode())
    told = DescribeAclsResponse.decode((await client.answer())[1], version=1)
    assert told.error_code == 0
    return {
        (one.resource_type, one.resource_name, one.pattern_type, acl.principal, acl.operation)
        for one in told.resources
        for acl in one.acls
    }


async def test_grants_are_told_as_acls_to_whom_they_concern() -> None:
    async with asking() as gateway, connected(gateway) as client, connected(gateway) as operator:
        everything = [Grant(Verb.MANAGE, "*"), Grant(Verb.JOIN, "team-*")]
        await principal(gateway, "ops", *everything)
        some_seconds_later(gateway)
        await proved(client)
        await proved(operator, "ops")
        own = {(2, "orders", 3, "User:shop", 3), (2, "orders", 3, "User:shop", 4)}
        assert await described(client) == own
        managed = {(2, "*", 3, "User:ops", operation) for operation in (5, 6, 11)}
        joined = {(3, "team-", 4, "User:ops", 3)}
        assert await described(operator) == own | managed | joined
        assert await described(operator, principal_filter="User:shop", operation=4) == {(2, "orders", 3, "User:shop", 4)}
        assert await described(operator, resource_type_filter=3, resource_name_filter="team-7", pattern_type_filter=2) == joined
        assert await described(operator, resource_type_filter=3, resource_name_filter="team-7", pattern_type_filter=3) == set()
        assert await described(operator, resource_name_filter="orders", pattern_type_filter=2) == own | managed
        assert await described(operator, permission_type=2) == set()
