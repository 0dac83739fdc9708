"""Plays about transactions, and about the wire itself."""

from __future__ import annotations

import asyncio
import logging
import struct

from confluent_kafka import KafkaException, Producer

from penstock.gateway.kafka.wire.apis import ApiKey
from penstock.gateway.kafka.wire.errors import ErrorCode
from tests.gateway.kafka.wire.requests import made, message_class
from tests.waiting import until

from .scene import Play, Scene, code_of, each, ends, word

# --- Transactions -----------------------------------------------------------------------------------------------------------------


async def transactional_id(scene: Scene) -> str:
    wire = await scene.own()
    asked = {"transactional_id": scene.named("x"), "transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}

    async def code() -> int:
        return int((await wire.ask(ApiKey.INIT_PRODUCER_ID, **asked)).error_code)

    passing = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    return word(await until(code, lambda found: found not in passing, "the coordinator is there"))


async def transaction_of_a_client(scene: Scene) -> str:
    topic = await scene.topic()

    def play() -> str:
        settings = {"bootstrap.servers": scene.address, "transactional.id": scene.named("c"), "log_level": 0}
        producer = Producer(settings, logger=logging.getLogger("librdkafka"))
        try:
            producer.init_transactions(30)
            producer.begin_transaction()
            producer.produce(topic, "v")
            producer.commit_transaction(30)
        except KafkaException as error:
            return str(error.args[0].name())
        return "OK"

    return await asyncio.to_thread(play)


async def transaction_coordinator(scene: Scene) -> str:
    async def code() -> int:
        answer = await scene.ask(ApiKey.FIND_COORDINATOR, key_type=1, coordinator_keys=[scene.named("x")])
        return int(answer.coordinators[0].error_code)

    return word(await until(code, lambda found: found != ErrorCode.COORDINATOR_NOT_AVAILABLE, "it is answered"))


# --- The wire ---------------------------------------------------------------------------------------------------------------------


async def unknown_versions(scene: Scene) -> str:
    wire = await scene.connect()
    wire.client.send(ApiKey.API_VERSIONS, 99)
    _, data = await wire.client.answer()
    code, count = struct.unpack_from(">hi", data)
    keys = [struct.unpack_from(">hhh", data, 6 + 6 * at)[0] for at in range(count)]
    told = f"{word(code)} in version 0, {'with' if ApiKey.API_VERSIONS in keys else 'without'} its versions"
    again = (await wire.ask(ApiKey.API_VERSIONS, 3, client_software_name="test", client_software_version="1")).error_code
    return f"{told}; then version 3: {word(again)}"


async def bad_software(scene: Scene) -> str:
    wire, asked = await scene.connect(), {"client_software_name": "a b", "client_software_version": "1"}
    wire.client.send(ApiKey.API_VERSIONS, 3, made(message_class(ApiKey.API_VERSIONS, "Request"), 3, asked).encode())
    _, data = await wire.client.answer()
    return word(struct.unpack_from(">h", data)[0])


async def unserved(scene: Scene) -> str:
    said = {}
    for name, key, version in (
        ("API 999", 999, 0),
        ("Produce 2", 0, 2),
        ("Fetch 3", 1, 3),
        ("Metadata 99", 3, 99),
        ("LeaderAndIsr", 4, 0),
    ):
        wire = await scene.connect()
        wire.client.send(key, version, b"\0" * 64)
        answer = await ends(wire.client.answer())
        said[name] = answer if isinstance(answer, str) else "an answer"
    return each(said)


async def malformed(scene: Scene) -> str:
    cases = {
        "200 MiB": struct.pack(">i", 200 << 20),
        "-1 bytes": struct.pack(">i", -1),
        "0 bytes": struct.pack(">i", 0),
        "a request cut short": struct.pack(">ihhihh", 12, 3, 1, 1, 0, 0)[:16],
        "half a header": struct.pack(">ihh", 4, 3, 1),
    }
    said = {}
    for name, data in cases.items():
        wire = await scene.connect()
        wire.client.writer.write(data)
        answer = await ends(wire.client.answer())
        said[name] = answer if isinstance(answer, str) else "an answer"
    return each(said)


async def pipelined(scene: Scene) -> str:
    topic, wire = await scene.topic(), await scene.connect()
    empty = scene.fetch(topic, wire=wire, max_wait_ms=300)
    fetching = asyncio.ensure_future(empty)
    await asyncio.sleep(0)
    asked = wire.client.send(ApiKey.API_VERSIONS, 0)
    await fetching
    number, _ = await wire.client.answer()
    return "in the order of requests" if number == asked else "another order"


async def sasl(scene: Scene) -> str:
    handshake = (await scene.connect()).ask(ApiKey.SASL_HANDSHAKE, mechanism="PLAIN")
    proof = (await scene.connect()).ask(ApiKey.SASL_AUTHENTICATE, auth_bytes=b"\0a\0b")
    return each({"SaslHandshake": await code_of(handshake), "SaslAuthenticate": await code_of(proof)})


async def told_apis(scene: Scene) -> str:
    answer = await scene.ask(ApiKey.API_VERSIONS, 0)
    told = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
    return ", ".join(
        f"{key.name.title().replace('_', '')} {told[key][0]}-{told[key][1]}"
        if key in told
        else f"no {key.name.title().replace('_', '')}"
        for key in ApiKey
    )


PLAYS = (
    Play("transactional-id", "InitProducerId with a transactional id", transactional_id),
    Play("transaction", "a transaction of librdkafka", transaction_of_a_client),
    Play("transaction-coordinator", "FindCoordinator of a transactional id", transaction_coordinator),
    Play("unknown-versions", "ApiVersions 99", unknown_versions),
    Play("bad-software", "ApiVersions of the software `a b`", bad_software),
    Play("unserved", "a request that is not served", unserved),
    Play("malformed", "a frame of", malformed),
    Play("pipelined", "a waiting Fetch, and ApiVersions behind it", pipelined),
    Play("sasl", "SASL where none is set up", sasl),
    Play("told-apis", "ApiVersions tells", told_apis),
)
