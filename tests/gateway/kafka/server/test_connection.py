"""A connection's order, its bounds, and its end."""

from __future__ import annotations

import asyncio
import ssl
import struct
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse
from kafka.protocol.producer import ProduceResponse

from penstock.gateway.access.refusals import Forbidden, Unauthorized
from penstock.gateway.kafka.server import calls
from penstock.gateway.kafka.server.calls import AdmitAll, KafkaCall
from penstock.gateway.kafka.server.limits import OTHERS_BYTES_MAX, OVERHEAD_BYTES, ConnectionLimits
from penstock.gateway.kafka.wire.apis import APIS, ApiKey
from penstock.gateway.kafka.wire.errors import ErrorCode, KafkaRefusal
from penstock.gateway.kafka.wire.messages import encode_answer
from penstock.gateway.kafka.wire.produce import ProducedPartition, ProduceRequest, encode_produce_answer
from penstock.gateway.server.options import TlsOptions
from penstock.log.errors import InvalidArgument, StoreUnavailable, TopicNotFound
from penstock.log.limits import KIB, MIB
from tests.gateway.certificates import write_certificate
from tests.gateway.kafka.stage import stage, until
from tests.gateway.kafka.wire.group_requests import GROUP_REQUESTS, group_request
from tests.gateway.kafka.wire.test_records_by_hand import produce_request

ORDERS = struct.pack(">ih", 1, 6) + b"orders"
"""Metadata 1 of one topic."""


def metadata_of(data: bytes) -> Any:
    return MetadataResponse.decode(data, version=1)


async def metadata(request: Any, call: KafkaCall) -> dict[str, object]:
    return {"controller_id": 7, "topics": [{"name": one.name, "partitions": []} for one in request.topics]}


class Appends:
    """A handler of Produce, whose answers come when they are let go."""

    def __init__(self) -> None:
        self.begun: list[ProduceRequest] = []
        self.ended = 0
        self.changed = asyncio.Condition()
        self._gates: list[asyncio.Event] = []

    async def __call__(self, request: ProduceRequest, call: KafkaCall) -> list[Any] | None:
        gate = asyncio.Event()
        self.begun.append(request)
        self._gates.append(gate)
        await self._tell()
        await gate.wait()
        self.ended += 1
        await self._tell()
        if request.acks == 0:
            return None
        return [
            encode_produce_answer(
                call.version, [ProducedPartition(topic=one.topic, partition=one.partition) for one in request.parts]
            )
        ]

    def let_go(self, *which: int) -> None:
        for one in which:
            self._gates[one].set()

    async def until(self, begun: int, ended: int = 0) -> None:
        async with asyncio.timeout(30), self.changed:
            await self.changed.wait_for(lambda: len(self.begun) >= begun and self.ended >= ended)

    async def _tell(self) -> None:
        async with self.changed:
            self.changed.notify_all()


def produce(size: int = 10, acks: int = -1) -> bytes:
    return produce_request(9, [("orders", [(0, b"x" * size)])], acks=acks)


async def settle() -> None:
    """Let everything run that can."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_appends_run_together_and_are_answered_in_the_order_of_their_requests() -> None:
    appends = Appends()
    async with stage({ApiKey.PRODUCE: appends, ApiKey.METADATA: metadata}) as on:
        client = await on.client()
        sent = [client.send(ApiKey.PRODUCE, 9, produce(size)) for size in (1, 2, 3)]
        asked = client.send(ApiKey.METADATA, 1, ORDERS)
        await appends.until(begun=3)
        assert [len(one.parts[0].records or b"") for one in appends.begun] == [1, 2, 3]
        appends.let_go(2, 1)
        await appends.until(begun=3, ended=2)
        appends.let_go(0)
        answers = [await client.answer() for _ in range(4)]
        assert [correlation_id for correlation_id, _ in answers] == [*sent, asked]
        assert metadata_of(answers[-1][1]).topics[0].name == "orders"
        assert [name for name, *_ in on.answered] == ["Produce"] * 3 + ["Metadata"], "Metadata began when the others were answered"


async def test_a_produce_without_acks_has_no_answer() -> None:
    appends = Appends()
    async with stage({ApiKey.PRODUCE: appends, ApiKey.METADATA: metadata}) as on:
        client = await on.client()
        client.send(ApiKey.PRODUCE, 9, produce(acks=0))
        asked = client.send(ApiKey.METADATA, 1, ORDERS)
        await appends.until(begun=1)
        appends.let_go(0)
        assert (await client.answer())[0] == asked


async def test_an_append_outlives_its_client() -> None:
    appends = Appends()
    async with stage({ApiKey.PRODUCE: appends}) as on:
        client = await on.client()
        client.send(ApiKey.PRODUCE, 9, produce())
        await appends.until(begun=1)
        client.writer.transport.abort()
        await until(lambda: not on.server.connections)
        assert on.server.budget.held() > 0, "its bytes are still held"
        appends.let_go(0)
        await appends.until(begun=1, ended=1)
        await settle()


async def test_what_waits_for_a_client_that_is_gone_is_cancelled() -> None:
    waiting, cancelled = asyncio.Event(), asyncio.Event()

    async def wait(request: Any, call: KafkaCall) -> None:
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with stage({ApiKey.METADATA: wait}) as on:
        client = await on.client()
        client.send(ApiKey.METADATA, 1, ORDERS)
        await asyncio.wait_for(waiting.wait(), 30)
        await client.close()
        await asyncio.wait_for(cancelled.wait(), 30)
        await settle()


@pytest.mark.parametrize("share", ["connection", "address", "process"])
async def test_a_connection_is_not_read_beyond_the_bytes_that_it_may_hold(share: str) -> None:
    appends, size = Appends(), 100 * KIB
    bound = 3 * (size + OVERHEAD_BYTES + KIB)
    limits = ConnectionLimits(**{f"{'all' if share == 'process' else share}_bytes": bound})
    async with stage({ApiKey.PRODUCE: appends}, limits) as on:
        client = await on.client()
        sent = [client.send(ApiKey.PRODUCE, 9, produce(size)) for _ in range(10)]
        await appends.until(begun=3)
        await settle()
        assert len(appends.begun) == 3
        assert on.server.budget.held() <= bound
        for which in range(10):
            await appends.until(begun=which + 1)
            assert on.server.budget.held() <= bound
            appends.let_go(which)
            assert (await client.answer())[0] == sent[which]


async def test_small_requests_count_more_than_their_bytes() -> None:
    appends = Appends()
    async with stage({ApiKey.PRODUCE: appends}, ConnectionLimits(connection_bytes=10 * OVERHEAD_BYTES)) as on:
        client = await on.client()
        for _ in range(100):
            client.send(ApiKey.PRODUCE, 9, produce())
        await appends.until(begun=9)
        await settle()
        assert len(appends.begun) == 9
        for which in range(100):
            await appends.until(begun=which + 1)
            appends.let_go(which)
        for _ in range(100):
            await client.answer()


async def test_a_request_that_stops_halfway_holds_its_room_for_a_while_only() -> None:
    appends = Appends()
    limits = ConnectionLimits(address_bytes=MIB, frame_s=0.2)
    async with stage({ApiKey.PRODUCE: appends}, limits) as on:
        slow, client = await on.client(), await on.client()
        slow.writer.write(struct.pack(">i", MIB - OVERHEAD_BYTES) + b"\0" * 100)
        await until(lambda: on.server.budget.held() > 0)
        sent = client.send(ApiKey.PRODUCE, 9, produce())
        await appends.until(begun=1)
        assert await slow.is_closed(), "it makes room for the other one"
        appends.let_go(0)
        assert (await client.answer())[0] == sent


async def test_a_client_that_does_not_read_is_answered_no_further() -> None:
    handled = 0

    async def large(request: Any, call: KafkaCall) -> list[bytes]:
        nonlocal handled
        handled += 1
        return [b"\0" * 8 * MIB]

    async with stage({ApiKey.METADATA: large}, drain=timedelta(0)) as on:
        client = await on.client()
        for _ in range(50):
            client.send(ApiKey.METADATA, 1, ORDERS)
        await until(lambda: handled > 0)
        for _ in range(20):
            await settle()
        assert handled < 5
        for _ in range(50):
            assert len((await client.answer())[1]) == 8 * MIB
        assert handled == 50


async def test_of_what_a_client_does_not_read_little_is_copied() -> None:
    answered = asyncio.Event()

    async def large(request: Any, call: KafkaCall) -> list[bytes]:
        answered.set()
        return [bytes((number,)) * MIB for number in range(40)]

    async with stage({ApiKey.METADATA: large}) as on:
        client = await on.client()
        client.send(ApiKey.METADATA, 1, ORDERS)
        await answered.wait()
        for _ in range(20):
            await settle()
        (connection,) = on.server._connections
        assert connection._transport.get_write_buffer_size() < 4 * MIB
        assert (await client.answer())[1] == b"".join(bytes((number,)) * MIB for number in range(40))


async def test_a_silent_connection_is_closed() -> None:
    async with stage({}, ConnectionLimits(idle_s=0.05)) as on:
        client = await on.client()
        assert await client.is_closed()


@pytest.mark.parametrize(
    ("key", "version"), [(4, 0), (9_999, 0), (ApiKey.METADATA, 13), (ApiKey.FETCH, 4), (ApiKey.PRODUCE, 2)], ids=str
)
async def test_an_api_or_version_that_is_not_served_closes_the_connection_after_the_earlier_answers(key: int, version: int) -> None:
    async with stage({ApiKey.METADATA: metadata, ApiKey.PRODUCE: Appends()}) as on:
        client = await on.client()
        asked = client.send(ApiKey.METADATA, 1, ORDERS)
        client.send(key, version)
        client.send(ApiKey.METADATA, 1, ORDERS)
        assert (await client.answer())[0] == asked
        assert await client.is_closed()
        assert on.answered[1:] == ([] if key in {4, 9_999} else [(APIS[key].name, version, ErrorCode.UNSUPPORTED_VERSION)])


@pytest.mark.parametrize(
    "said",
    [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"\0\0\0\x0c" + b"\0\3\0\1" + b"\0" * 4 + b"\x7f\xff\0\0"],
    ids=repr,
)
async def test_garbage_closes_the_connection(said: bytes) -> None:
    async with stage({ApiKey.METADATA: metadata}) as on:
        client = await on.client()
        client.writer.write(said)
        assert await client.is_closed()


@given(said=st.lists(st.binary(max_size=60), max_size=5))
def test_whatever_is_said_the_next_client_is_served(said: list[bytes]) -> None:
    async def run() -> None:
        async with stage({ApiKey.METADATA: metadata}) as on:
            stranger = await on.client()
            for one in said:
                stranger.writer.write(struct.pack(">i", len(one)) + one)
            await stranger.close()
            client = await on.client()
            client.send(ApiKey.METADATA, 1, ORDERS)
            assert metadata_of((await client.answer())[1]).topics[0].name == "orders"

    asyncio.run(run())


async def test_only_requests_with_records_may_be_large() -> None:
    async with stage({ApiKey.METADATA: metadata}) as on:
        client = await on.client()
        client.send(ApiKey.METADATA, 1, b"\0" * (OTHERS_BYTES_MAX + 1))
        assert await client.is_closed()
        assert on.answered == [("Metadata", 1, ErrorCode.INVALID_REQUEST)]


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 5, 99])
async def test_a_client_of_any_version_is_told_the_versions_of_what_is_served(version: int) -> None:
    async with stage({ApiKey.METADATA: metadata, ApiKey.PRODUCE: Appends()}) as on:
        client = await on.client()
        body = b"\5test\0041.0\0" if version >= 3 else b""
        asked = client.send(ApiKey.API_VERSIONS, version, body if version >= 3 else b"")
        correlation_id, data = await client.answer()
        answer = ApiVersionsResponse.decode(data, version=version if version <= 4 else 0)
        told = [(one.api_key, one.min_version, one.max_version) for one in answer.api_keys]
        assert correlation_id == asked
        assert answer.error_code == (ErrorCode.NONE if version <= 4 else ErrorCode.UNSUPPORTED_VERSION)
        assert told == [(0, 0, 12), (3, 0, 12), (18, 0, 4)], "Fetch has no handler, and is not told"
        (session,) = on.server.sessions()
        assert (session.software, session.version) == (("test", "1.0") if version in (3, 4) else ("", ""))


async def test_what_goes_wrong_has_its_code_and_the_connection_goes_on() -> None:
    errors = [
        StoreUnavailable("down"),
        TopicNotFound("none"),
        KafkaRefusal(ErrorCode.INVALID_CONFIG, "bad"),
        RuntimeError("a secret"),
    ]
    codes = [56, 3, 40, -1]
    left = list(errors)

    async def fail(request: Any, call: KafkaCall) -> None:
        raise left.pop(0)

    async with stage({ApiKey.METADATA: fail}) as on:
        client = await on.client()
        for code in codes:
            client.send(ApiKey.METADATA, 1, ORDERS)
            (topic,) = metadata_of((await client.answer())[1]).topics
            assert (topic.name, topic.error_code) == ("orders", code)
        assert [code for *_, code in on.answered] == codes


async def test_a_failed_produce_without_acks_closes_the_connection() -> None:
    async def fail(request: Any, call: KafkaCall) -> None:
        raise StoreUnavailable("down")

    async with stage({ApiKey.PRODUCE: fail}) as on:
        client = await on.client()
        client.send(ApiKey.PRODUCE, 9, produce())
        (topic,) = ProduceResponse.decode((await client.answer())[1][1:], version=9).responses
        assert topic.partition_responses[0].error_code == 56
        client.send(ApiKey.PRODUCE, 9, produce(acks=0))
        assert await client.is_closed()


class Door(AdmitAll):
    """Admits some clients, until it is locked."""

    is_locked = False

    async def admit(self, call: KafkaCall) -> None:
        if call.client_id != "known":
            raise Unauthorized("who are you?")
        call.session.principal = "alice"

    async def check_again(self, call: KafkaCall) -> None:
        if self.is_locked:
            raise Unauthorized("not any more")


async def test_who_is_not_admitted_is_cut_off_and_what_is_not_allowed_is_answered() -> None:
    principals: list[str] = []
    door = Door()

    async def told(request: Any, call: KafkaCall) -> dict[str, object]:
        principals.append(call.owner)
        await call.check_again()
        if request.topics[0].name == "secrets":
            raise Forbidden("not yours")
        return await metadata(request, call)

    async with stage({ApiKey.METADATA: told}, access=door) as on:
        stranger, client = await on.client(), await on.client()
        stranger.send(ApiKey.METADATA, 1, ORDERS)
        assert await stranger.is_closed()
        client.send(ApiKey.METADATA, 1, struct.pack(">ih", 1, 7) + b"secrets", client_id=b"known")
        client.send(ApiKey.METADATA, 1, ORDERS, client_id=b"known")
        for code in (29, 0):
            (topic,) = metadata_of((await client.answer())[1]).topics
            assert topic.error_code == code
        assert principals == ["alice"] * 2
        door.is_locked = True
        client.send(ApiKey.METADATA, 1, ORDERS, client_id=b"known")
        assert await client.is_closed(), "the session ended during the call"


class AsksProof(AdmitAll):
    """Knows who calls himself known."""

    asks_proof = True

    async def admit(self, call: KafkaCall) -> None:
        if call.client_id == "known":
            call.session.principal = "alice"


async def test_a_connection_without_a_proof_has_little_time() -> None:
    limits = ConnectionLimits(proof_s=0.5)
    async with stage({ApiKey.METADATA: metadata}, limits, AsksProof()) as on:
        known, stranger = await on.client(), await on.client()
        known.send(ApiKey.METADATA, 1, ORDERS, client_id=b"known")
        stranger.send(ApiKey.METADATA, 1, ORDERS)
        await known.answer()
        await stranger.answer()
        assert await stranger.is_closed()
        known.send(ApiKey.METADATA, 1, ORDERS)
        await known.answer()


class Throttle(AdmitAll):
    """Throttles each call for some time."""

    def __init__(self, throttle_ms: int) -> None:
        self.throttle_ms = throttle_ms

    async def admit(self, call: KafkaCall) -> None:
        call.throttle_ms = self.throttle_ms


async def test_a_throttled_client_is_answered_at_once_and_then_not_read() -> None:
    asked: list[str] = []

    async def told(request: Any, call: KafkaCall) -> dict[str, object]:
        asked.append(request.topics[0].name)
        return await metadata(request, call)

    throttle = Throttle(1)
    async with stage({ApiKey.METADATA: told}, access=throttle, drain=timedelta(0)) as on:
        client = await on.client()
        for _ in range(3):
            client.send(ApiKey.METADATA, 3, ORDERS)
            assert struct.unpack_from(">i", (await client.answer())[1]) == (1,), "the time is told"
        assert asked == ["orders"] * 3, "after its time it goes on"
        throttle.throttle_ms = 3_600_000
        client.send(ApiKey.METADATA, 3, ORDERS)
        client.send(ApiKey.METADATA, 3, ORDERS)
        await client.answer()
        await settle()
        assert asked == ["orders"] * 4
        (connection,) = on.server._connections
        assert not connection._transport.is_reading()


async def test_an_address_has_so_many_connections(caplog: pytest.LogCaptureFixture) -> None:
    async with stage({ApiKey.METADATA: metadata}, ConnectionLimits(address_connections=2)) as on:
        first, _, third = [await on.client() for _ in range(3)]
        assert await third.is_closed()
        await first.close()
        await until(lambda: on.server.connections == 1)
        fourth = await on.client()
        fourth.send(ApiKey.METADATA, 1, ORDERS)
        await fourth.answer()
        assert "one more is closed" in caplog.text


async def test_an_address_connects_so_often(caplog: pytest.LogCaptureFixture) -> None:
    limits = ConnectionLimits(address_connections_per_s=0.001, address_connections_at_once=2)
    async with stage({ApiKey.METADATA: metadata}, limits) as on:
        for _ in range(2):
            client = await on.client()
            client.send(ApiKey.METADATA, 1, ORDERS)
            await client.answer()
            await client.close()
        assert await (await on.client()).is_closed()
        assert "connects more than 0.001 times a second" in caplog.text


async def test_a_stop_answers_what_came_and_takes_no_more() -> None:
    appends = Appends()
    async with stage({ApiKey.PRODUCE: appends}) as on:
        client = await on.client()
        sent = client.send(ApiKey.PRODUCE, 9, produce())
        await appends.until(begun=1)
        stopping = asyncio.ensure_future(on.server.stop())
        await settle()
        client.send(ApiKey.PRODUCE, 9, produce())
        with pytest.raises(OSError, match="Connect"):
            await on.client()
        appends.let_go(0)
        assert (await client.answer())[0] == sent
        assert await client.is_closed()
        await stopping
        assert len(appends.begun) == 1


async def test_a_stop_does_not_wait_longer_than_the_drain() -> None:
    async def wait(request: Any, call: KafkaCall) -> None:
        await asyncio.Event().wait()

    async with stage({ApiKey.METADATA: wait}, drain=timedelta(milliseconds=50)) as on:
        client = await on.client()
        client.send(ApiKey.METADATA, 1, ORDERS)
        await settle()
        await on.server.stop()
        assert await client.is_closed()
        await settle()


async def test_a_port_that_is_taken_is_refused_with_its_place() -> None:
    async with stage({}) as on:
        with pytest.raises(InvalidArgument, match=f"127.0.0.1:{on.server.port}"):
            async with stage({}, port=on.server.port):
                pass


async def test_both_ports_answer_and_a_changed_certificate_is_taken(tmp_path: Path) -> None:
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    first = write_certificate(*files)
    tls = TlsOptions(certificate=files[0], key=files[1], port=0)

    async with stage({ApiKey.METADATA: metadata}, tls=tls) as on:

        async def asks(port: int, trusted: bytes | None) -> bool:
            client = await on.client(port, None if trusted is None else ssl.create_default_context(cadata=trusted.decode()))
            client.send(ApiKey.METADATA, 1, ORDERS)
            (topic,) = metadata_of((await client.answer())[1]).topics
            return bool(topic.name == "orders")

        assert await asks(on.server.port, None)
        assert await asks(on.server.tls_port, first)
        second = write_certificate(*files)
        assert await asks(on.server.tls_port, second)
        with pytest.raises(ssl.SSLCertVerificationError):
            await asks(on.server.tls_port, first)


async def test_a_request_that_repeats_the_last_one_is_understood_as_that_and_no_other_is() -> None:
    asked: list[tuple[int, Any]] = []

    async def heartbeat(request: Any, call: KafkaCall) -> dict[str, object]:
        asked.append((call.version, request.generation_id))
        return {"throttle_time_ms": 0, "error_code": 0}

    bodies = {
        (version, generation): group_request(
            ApiKey.HEARTBEAT, version, {**GROUP_REQUESTS[ApiKey.HEARTBEAT], "generation_id": generation}
        ).encode()
        for version in (2, 3)
        for generation in (1, 2)
    }
    sent = [(3, 1), (3, 1), (3, 2), (2, 2), (2, 2), (3, 1)]
    async with stage({ApiKey.HEARTBEAT: heartbeat}) as on:
        one, other = await on.client(), await on.client()
        for version, generation in sent:
            for client in (one, other):
                client.send(ApiKey.HEARTBEAT, version, bodies[version, generation])
                await client.answer()
    assert asked == [each for each in sent for _ in range(2)]


async def test_an_answer_about_all_of_a_large_lake_is_encoded_beside_the_other_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[bool] = []

    def encoded(*asked: Any) -> bytes:
        threads.append(threading.current_thread() is threading.main_thread())
        return encode_answer(*asked)

    async def all_topics(_: Any, __: KafkaCall) -> dict[str, object]:
        partitions = [{"error_code": 0, "partition_index": number, "leader_id": 7} for number in range(5_000)]
        return {"controller_id": 7, "topics": [{"error_code": 3, "name": "orders", "partitions": partitions}]}

    monkeypatch.setattr(calls, "encode_answer", encoded)
    async with stage({ApiKey.METADATA: all_topics}) as on:
        client = await on.client()
        client.send(ApiKey.METADATA, 1, ORDERS)
        _, answer = await client.answer()
    assert [one.partition_index for one in metadata_of(answer).topics[0].partitions] == list(range(5_000))
    assert threads == [False]
    assert on.answered == [("Metadata", 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
