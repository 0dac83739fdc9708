"""`penstock gateway kafka check` tells what a client would meet."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from penstock import Message
from penstock.aio import TopicSettings
from penstock.coordinator.access.grants import Grant, Verb
from penstock.gateway.kafka.check import client as check_client
from penstock.gateway.kafka.check.checker import KafkaChecker, KafkaCheckTarget, is_of_own_machine
from penstock.gateway.kafka.check.proof import scram_proof
from penstock.gateway.kafka.gateway import KafkaGateway
from penstock.gateway.server.check_finding import CheckFailed, CheckFinding
from penstock.gateway.server.options import Endpoint, TlsOptions
from penstock.log.runtime.runtime import Runtime
from tests.gateway.certificates import write_certificate
from tests.gateway.kafka.access.test_clients import ACCESS, principal
from tests.gateway.kafka.serving import served
from tests.gateway.principals import secret_of

SETTINGS = TopicSettings(queues=2)


async def findings(
    gateway: KafkaGateway, *, send: bool = False, port: int | None = None, **said: object
) -> dict[str, CheckFinding]:
    target = KafkaCheckTarget(place=Endpoint("localhost", port or gateway.port), **said)  # type: ignore[arg-type]
    return {one.name: one async for one in KafkaChecker(target, Runtime()).run(send=send)}


def problems(found: dict[str, CheckFinding]) -> dict[str, str]:
    return {name: one.observed for name, one in found.items() if not one.is_ok}


async def test_a_gateway_that_is_well() -> None:
    async with served() as gateway:
        await gateway.lake.create_topic("orders", SETTINGS)
        found = await findings(gateway, topic="orders", group="billing", send=True)
        assert not problems(found)
        assert list(found) == ["connection", "versions", "identity", "brokers", "places", "group", "topic", "send", "fetch"]
        place = f"127.0.0.1:{gateway.port}"
        assert found["places"].observed.startswith(f"{place} in ")
        assert found["topic"].observed == f"orders: 2 partitions, led by {place}"
        assert found["group"].observed.startswith(f"billing: not there yet; {place} coordinates it, and answered in ")
        assert found["send"].observed.endswith("at offset 0 of partition 0")
        assert found["fetch"].observed.startswith("what was sent came in ")
        assert "billing" not in await gateway.lake.coordination.groups.all(), "it makes no group"


async def test_an_access_key_where_nobody_asks_for_one() -> None:
    async with served() as gateway:
        found = problems(await findings(gateway, access_key="shop", secret=secret_of("shop")))
        assert found == {"identity": "it asks nobody who he is, so an access key is refused"}


async def test_a_topic_that_is_not_there_is_told_with_what_makes_it() -> None:
    async with served() as gateway:
        told = (await findings(gateway, topic="nosuch"))["topic"]
        assert told.observed == "topic nosuch: 3 UNKNOWN_TOPIC_OR_PARTITION"
        assert "penstock topic create" in told.fix


async def test_without_sending_nothing_is_written() -> None:
    async with served() as gateway:
        await gateway.lake.create_topic("orders", TopicSettings(queues=1))
        assert (await findings(gateway, topic="orders"))["fetch"].observed == "partition 0 is empty"
        producer = await gateway.lake.producer("orders")
        await producer.send(Message(b"paid"))
        found = await findings(gateway, topic="orders")
        assert found["fetch"].observed.startswith("offset 0 of partition 0, the last one, in ")
        assert problems(await findings(gateway, topic="absent")) == {"topic": "topic absent: 3 UNKNOWN_TOPIC_OR_PARTITION"}


async def test_an_address_that_clients_are_told_and_cannot_reach_is_named() -> None:
    async with served(address="kafka.invalid") as gateway:
        found = await findings(gateway)
        assert problems(found).keys() == {"places"}
        assert found["places"].observed.startswith(
            f"clients are told kafka.invalid:{gateway.port}, which is not reached from here: "
        )
        assert "--address HOST" in found["places"].fix


@pytest.mark.parametrize(
    ("host", "is_own"),
    [("localhost", True), ("127.0.0.1", True), ("::1", True), ("0.0.0.0", True), ("10.0.0.1", False), ("kafka-1", False)],
)
def test_addresses_that_are_each_clients_own_machine(host: str, is_own: bool) -> None:
    assert is_of_own_machine(host) == is_own


async def test_a_gateway_with_tls_and_proofs(tmp_path: Path) -> None:
    root = write_certificate(tmp_path / "cert.pem", tmp_path / "key.pem")
    tls = TlsOptions(certificate=tmp_path / "cert.pem", key=tmp_path / "key.pem", port=0)
    async with served(access=ACCESS, tls=tls, address="localhost") as gateway:
        await gateway.lake.create_topic("orders", SETTINGS)
        await principal(gateway, "shop", Grant(Verb.SEND, "orders"), Grant(Verb.RECEIVE, "orders"))
        proved = {"access_key": "shop", "secret": secret_of("shop")}
        trusting = {"tls": ssl.create_default_context(cadata=root.decode()), "port": gateway.tls_port}
        found = await findings(gateway, topic="orders", send=True, **trusting, **proved)  # type: ignore[arg-type]
        assert not problems(found)
        assert found["connection"].observed.endswith("TLS")
        assert found["identity"].observed.startswith("shop, by SCRAM-SHA-512 in ")
        assert problems(await findings(gateway)) == {"identity": "it asks clients who they are"}
        wrong = problems(await findings(gateway, access_key="shop", secret="not-the-secret-of-anybody"))
        assert wrong == {"identity": "the access key is not known, or the secret is not its own"}
        told = problems(await findings(gateway, topic="secrets", group="billing", **proved))  # type: ignore[arg-type]
        assert told["topic"] == "topic secrets: 29 TOPIC_AUTHORIZATION_FAILED"
        assert told["group"].startswith("group billing: 30 GROUP_AUTHORIZATION_FAILED, shop may not join group billing")
        untrusting = await findings(gateway, tls=ssl.create_default_context(), port=gateway.tls_port)
        assert "certificate" in problems(untrusting)["connection"]
        assert "versions" in problems(await findings(gateway, port=gateway.tls_port)), "TLS there, and none here"


async def test_what_is_no_gateway_is_told_within_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_client, "PATIENCE_S", 0.2)

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with served() as gateway, await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        found = await findings(gateway, port=port)
        assert problems(found).keys() == {"versions"}
        assert "a gateway of Kafka's protocol" in found["versions"].fix
    assert problems(await findings(gateway)).keys() == {"connection"}, "nobody is there"


@pytest.mark.parametrize("challenge", ["", "r=a", "r=a,s=AAAA,i=x", "r=a,s=AAAA,i=0", "r=a,s=AAAA,i=99999999"])
def test_a_challenge_that_is_none_is_refused(challenge: str) -> None:
    with pytest.raises(CheckFailed, match="its challenge"):
        scram_proof("secret", "n=shop,r=a", challenge)
