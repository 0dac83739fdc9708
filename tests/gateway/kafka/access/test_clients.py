"""Kafka's own clients prove who they are, and do what they may."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.errors
import aiokafka.helpers
import confluent_kafka
import kafka
import kafka.errors
import pytest

from penstock.coordinator.access.grants import Grant, Verb
from penstock.gateway.kafka.gateway import KafkaGateway
from penstock.gateway.server.options import AccessOptions, TlsOptions
from penstock.log import TopicSettings
from tests.gateway.certificates import write_certificate
from tests.gateway.kafka.serving import PATIENCE_MS, served
from tests.gateway.principals import KEYS, secret_of

ACCESS = AccessOptions(keys=KEYS)
GROUP = "readers"
"""The group that librdkafka must be told, and whose coordinator it asks for even where it commits nothing."""
ORDERS = (*(Grant(verb, "orders") for verb in (Verb.SEND, Verb.RECEIVE, Verb.MANAGE)), Grant(Verb.JOIN, GROUP))
WAYS = ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"]


@asynccontextmanager
async def secured(folder: Path, **options: Any) -> AsyncIterator[tuple[KafkaGateway, str]]:
    """A gateway that asks for proofs, with TLS and without, and the file of its certificate."""
    certificate, key = folder / "tls.pem", folder / "tls.key"
    write_certificate(certificate, key)
    tls = TlsOptions(certificate=certificate, key=key, port=0)
    async with served(access=ACCESS, tls=tls, address="localhost", create_topics=True, **options) as gateway:
        await principal(gateway, "shop", *ORDERS)
        yield gateway, str(certificate)


async def principal(gateway: KafkaGateway, name: str, *grants: Grant) -> None:
    access = gateway.lake.coordination.access
    await access.add(name, secret_of(name), KEYS)
    if grants:
        await access.grant(name, grants)


def some_seconds_later(gateway: KafkaGateway) -> None:
    """The record of principals is read again at the next call."""
    assert gateway.authorizer is not None
    gateway.authorizer.principals.cache._read_s = None


def where(gateway: KafkaGateway, mechanism: str) -> tuple[str, str]:
    """The protocol and the place: PLAIN goes over TLS only."""
    if mechanism == "PLAIN":
        return "SASL_SSL", f"localhost:{gateway.server.tls_port}"
    return "SASL_PLAINTEXT", f"localhost:{gateway.port}"


def confluent(gateway: KafkaGateway, certificate: str, mechanism: str, **more: Any) -> dict[str, Any]:
    protocol, place = where(gateway, mechanism)
    return {
        "bootstrap.servers": place,
        "security.protocol": protocol,
        "ssl.ca.location": certificate,
        "sasl.mechanism": mechanism,
        "sasl.username": "shop",
        "sasl.password": secret_of("shop"),
        "broker.address.family": "v4",
        **more,
    }


def by_confluent(settings: Mapping[str, Any]) -> bytes:
    producer = confluent_kafka.Producer({**settings})
    producer.produce("orders", b"by confluent", partition=0)
    assert producer.flush(PATIENCE_MS / 1000) == 0
    consumer = confluent_kafka.Consumer({**settings, "group.id": GROUP, "enable.auto.commit": False})
    try:
        consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
        message = consumer.poll(PATIENCE_MS / 1000)
        assert message is not None
        assert message.error() is None, message.error()
        value = message.value()
        assert isinstance(value, bytes)
        return value
    finally:
        consumer.close()


def python_settings(gateway: KafkaGateway, certificate: str, mechanism: str) -> dict[str, Any]:
    protocol, place = where(gateway, mechanism)
    return {
        "bootstrap_servers": place,
        "security_protocol": protocol,
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "shop",
        "sasl_plain_password": secret_of("shop"),
        **({"ssl_cafile": certificate} if protocol == "SASL_SSL" else {}),
    }


def by_kafka_python(settings: Mapping[str, Any]) -> bytes:
    producer = kafka.KafkaProducer(**settings)
    try:
        producer.send("orders", b"by kafka-python", partition=0).get(timeout=PATIENCE_MS / 1000)
    finally:
        producer.close()
    consumer = kafka.KafkaConsumer(**settings, consumer_timeout_ms=PATIENCE_MS)
    try:
        consumer.assign([kafka.TopicPartition("orders", 0)])
        consumer.seek_to_beginning()
        return bytes(next(consumer).value)
    finally:
        consumer.close()


async def by_aiokafka(settings: dict[str, Any]) -> bytes:
    if certificate := settings.pop("ssl_cafile", None):
        settings["ssl_context"] = aiokafka.helpers.create_ssl_context(cafile=certificate)
    producer = aiokafka.AIOKafkaProducer(**settings)
    await producer.start()
    try:
        await producer.send_and_wait("orders", b"by aiokafka", partition=0)
    finally:
        await producer.stop()
    consumer = aiokafka.AIOKafkaConsumer(**settings, enable_auto_commit=False, auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign([aiokafka.TopicPartition("orders", 0)])
        await consumer.seek_to_beginning()
        record = await asyncio.wait_for(consumer.getone(), PATIENCE_MS / 1000)
        return bytes(record.value or b"")
    finally:
        await consumer.stop()


@pytest.mark.parametrize("mechanism", WAYS)
async def test_librdkafka_sends_and_reads(tmp_path: Path, mechanism: str) -> None:
    async with secured(tmp_path) as (gateway, certificate):
        assert await asyncio.to_thread(by_confluent, confluent(gateway, certificate, mechanism)) == b"by confluent"


@pytest.mark.parametrize("mechanism", WAYS)
async def test_kafka_python_sends_and_reads(tmp_path: Path, mechanism: str) -> None:
    async with secured(tmp_path) as (gateway, certificate):
        settings = python_settings(gateway, certificate, mechanism)
        assert await asyncio.to_thread(by_kafka_python, settings) == b"by kafka-python"


@pytest.mark.parametrize("mechanism", WAYS)
async def test_aiokafka_sends_and_reads(tmp_path: Path, mechanism: str) -> None:
    async with secured(tmp_path) as (gateway, certificate):
        assert await by_aiokafka(python_settings(gateway, certificate, mechanism)) == b"by aiokafka"


def first_error(settings: Mapping[str, Any]) -> str:
    """What librdkafka says of its first failure."""
    told: list[str] = []

    def error(found: confluent_kafka.KafkaError) -> None:
        told.append(found.str())

    producer = confluent_kafka.Producer({**settings, "error_cb": error})
    for _ in range(200):
        producer.poll(0.1)
        if told:
            return told[0]
    raise AssertionError("no error came")


@pytest.mark.parametrize("mechanism", WAYS)
@pytest.mark.parametrize("name", ["shop", "nobody"])
async def test_a_wrong_secret_and_an_unknown_name_are_refused_alike(
    tmp_path: Path, mechanism: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "penstock.gateway")
    wrong = {"sasl.username": name, "sasl.password": "not-the-secret-of-anybody"}
    async with secured(tmp_path) as (gateway, certificate):
        told = await asyncio.to_thread(first_error, confluent(gateway, certificate, mechanism, **wrong))
    assert "the access key is not known, or the secret is not its own" in told
    audited = [one.getMessage() for one in caplog.records if one.name == "penstock.gateway.audit"]
    assert any(line.endswith(f"SaslAuthenticate {name}: SASL_AUTHENTICATION_FAILED") for line in audited), audited
    assert "is refused with 58" in caplog.text
    assert "not-the-secret" not in caplog.text


async def test_a_secret_is_not_told_without_tls(tmp_path: Path) -> None:
    async with secured(tmp_path) as (gateway, certificate):
        plain = {**confluent(gateway, certificate, "SCRAM-SHA-256"), "sasl.mechanism": "PLAIN"}
        told = await asyncio.to_thread(first_error, plain)
        assert "SCRAM-SHA-256,SCRAM-SHA-512" in told.replace(" ", "")


async def test_a_session_goes_on_by_proving_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock.gateway.audit")
    async with secured(tmp_path, audit=True, session_lifetime=timedelta(seconds=1)) as (gateway, certificate):
        settings = confluent(gateway, certificate, "SCRAM-SHA-512")

        def work() -> int:
            failed: list[object] = []
            producer = confluent_kafka.Producer({**settings, "error_cb": failed.append})
            while sum(" SaslAuthenticate " in one.getMessage() for one in caplog.records) < 8:
                producer.produce("orders", b"again", partition=0)
                assert producer.flush(PATIENCE_MS / 1000) == 0
            return len(failed)

        assert await asyncio.to_thread(work) == 0, "the connection stays"


async def test_a_removed_principal_and_a_lost_grant_end_what_is_under_way(tmp_path: Path) -> None:
    async with secured(tmp_path) as (gateway, certificate):
        access = gateway.lake.coordination.access
        consumer = aiokafka.AIOKafkaConsumer(
            **python_settings(gateway, certificate, "SCRAM-SHA-256"), enable_auto_commit=False, auto_offset_reset="earliest"
        )
        await by_aiokafka(python_settings(gateway, certificate, "SCRAM-SHA-256"))
        await consumer.start()
        try:
            consumer.assign([aiokafka.TopicPartition("orders", 0)])
            await consumer.seek_to_beginning()
            assert (await consumer.getone()).value == b"by aiokafka"
            await access.revoke("shop", [Grant(Verb.RECEIVE, "orders")])
            some_seconds_later(gateway)
            with pytest.raises(aiokafka.errors.TopicAuthorizationFailedError):
                await asyncio.wait_for(consumer.getone(), PATIENCE_MS / 1000)
        finally:
            await consumer.stop()
        producer = aiokafka.AIOKafkaProducer(**python_settings(gateway, certificate, "SCRAM-SHA-256"), request_timeout_ms=2_000)
        await producer.start()
        try:
            await producer.send_and_wait("orders", b"one more", partition=0)
            await access.remove("shop")
            some_seconds_later(gateway)
            with pytest.raises(aiokafka.errors.KafkaError):
                await producer.send_and_wait("orders", b"too late", partition=0)
        finally:
            await producer.stop()


def refusals(settings: Mapping[str, Any]) -> tuple[set[str], list[str]]:
    """The topics that a client sees, and how what it may not is refused."""
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    admin = AdminClient({**settings})
    seen = set(admin.list_topics(timeout=PATIENCE_MS / 1000).topics)
    named = admin.list_topics("secrets", timeout=PATIENCE_MS / 1000).topics["secrets"].error
    codes = [named.name() if named is not None else "seen"]
    works: list[Callable[[], Mapping[Any, Any]]] = [
        lambda: admin.create_topics([NewTopic("bills", 1)]),
        lambda: admin.delete_topics(["secrets"]),
        lambda: admin.delete_topics(["orders"]),
    ]
    for work in works:
        (future,) = work().values()
        try:
            future.result(PATIENCE_MS / 1000)
            codes.append("done")
        except confluent_kafka.KafkaException as error:
            codes.append(error.args[0].name())
    return seen, codes


async def test_what_is_not_granted_is_hidden_or_refused_by_its_topic(tmp_path: Path) -> None:
    async with secured(tmp_path) as (gateway, certificate):
        for topic in ("orders", "secrets"):
            await gateway.lake.create_topic(topic, TopicSettings(queues=1))
        seen, codes = await asyncio.to_thread(refusals, confluent(gateway, certificate, "SCRAM-SHA-256"))
        assert seen == {"orders"}
        refused = "TOPIC_AUTHORIZATION_FAILED"
        assert codes == [refused, refused, refused, "done"]
        assert set(await gateway.lake.topics()) == {"secrets"}
