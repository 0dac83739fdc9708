"""What a Fetch waits for, and what it does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest, FetchResponse

from penstock import Message, aio
from penstock.aio import TopicSettings
from penstock.gateway.kafka.gateway import KafkaGateway
from penstock.gateway.kafka.metrics import FETCHED_BYTES
from penstock.gateway.kafka.options import KafkaOptions
from penstock.gateway.kafka.wire.apis import ApiKey
from penstock.gateway.kafka.wire.errors import ErrorCode
from penstock.log.limits import KIB
from penstock.log.metrics import MemoryMetrics
from penstock.log.stores import MemoryStore
from tests.gateway.kafka.serving import served
from tests.gateway.kafka.stage import Client, until

VERSION = 11
LONG_MS = 60_000
"""Longer than a test's client has patience."""


@asynccontextmanager
async def client(gateway: KafkaGateway) -> AsyncIterator[Client]:
    made = Client(*await asyncio.open_connection("127.0.0.1", gateway.port))
    try:
        yield made
    finally:
        await made.close()


async def fetched(of: Client, topic: str, **asked: int) -> Any:
    """The answer for partition 0, from its beginning."""
    return (await answered(of, topic, **asked)).responses[0].partitions[0]


async def answered(of: Client, topic: str, *, session_id: int = 0, session_epoch: int = -1, times: int = 1, **asked: int) -> Any:
    limits = {"max_wait_ms": LONG_MS, "min_bytes": 1, "max_bytes": 2**31 - 1, **asked}
    partition = FetchRequest.FetchTopic.FetchPartition(
        partition=0,
        current_leader_epoch=-1,
        fetch_offset=0,
        log_start_offset=-1,
        partition_max_bytes=limits.pop("partition_max_bytes", 2**31 - 1),
    )
    body: bytes = FetchRequest(
        version=VERSION,
        replica_id=-1,
        isolation_level=0,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[partition] * times)],
        forgotten_topics_data=[],
        rack_id="",
        **limits,
    ).encode()
    of.send(ApiKey.FETCH, VERSION, body)
    _, answer = await of.answer()
    return FetchResponse.decode(answer, version=VERSION)


@pytest.mark.parametrize(("session_id", "session_epoch"), [(0, -1), (0, 0), (-1, -1), (7, -1), (7, 0)])
async def test_a_full_fetch_is_answered_without_a_session_whatever_session_it_ends(session_id: int, session_epoch: int) -> None:
    async with served() as gateway, client(gateway) as asking:
        await gateway.lake.create_topic("orders", TopicSettings(queues=1))
        await (await gateway.lake.producer("orders")).send(Message(b"paid"))
        answer = await answered(asking, "orders", session_id=session_id, session_epoch=session_epoch)
        assert (answer.error_code, answer.session_id) == (ErrorCode.NONE, 0)
        assert answer.responses[0].partitions[0].records


async def test_a_fetch_of_what_changed_in_a_session_is_refused() -> None:
    async with served() as gateway, client(gateway) as asking:
        answer = await answered(asking, "orders", session_id=7, session_epoch=1)
        assert (answer.error_code, answer.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])


@pytest.mark.parametrize(
    "asked",
    [
        {"min_bytes": 100 * KIB, "max_bytes": 100 * KIB},
        {"min_bytes": 100 * KIB, "partition_max_bytes": 100 * KIB},
        {"min_bytes": 2**31 - 1, "max_bytes": 60 * KIB},
    ],
    ids=str,
)
async def test_a_fetch_does_not_wait_for_bytes_that_its_limits_leave_out(asked: dict[str, int]) -> None:
    async with served() as gateway, client(gateway) as asking:
        await gateway.lake.create_topic("orders", TopicSettings(queues=1))
        native = await gateway.lake.producer("orders")
        for _ in range(3):
            await native.send(Message(bytes(60 * KIB)))
            await fetched(asking, "orders")  # so that each is a batch of its own
        part = await fetched(asking, "orders", **asked)
        assert 60 * KIB < len(part.records) < 100 * KIB


async def test_a_partition_that_is_named_twice_is_answered_once() -> None:
    async with served() as gateway, client(gateway) as asking:
        await gateway.lake.create_topic("orders", TopicSettings(queues=1))
        await (await gateway.lake.producer("orders")).send(Message(b"paid"))
        (topic,) = (await answered(asking, "orders", times=3)).responses
        assert len(topic.partitions) == 1


async def test_a_fetch_makes_no_topic_and_undoes_no_deletion() -> None:
    async with served(create_topics=True) as gateway, client(gateway) as asking:
        assert (await fetched(asking, "orders")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await gateway.lake.create_topic("orders", TopicSettings(queues=1))
        waiting = asyncio.ensure_future(fetched(asking, "orders"))
        await until(lambda: gateway.server.budget.held() > 0)
        await gateway.lake.delete_topic("orders")
        assert (await waiting).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert not await gateway.lake.topics()


async def test_who_found_the_cache_full_of_what_others_read_comes_again_at_once() -> None:
    async with served() as gateway, client(gateway) as asking:
        await gateway.lake.create_topic("orders", TopicSettings(queues=1))
        native = await gateway.lake.producer("orders")
        await native.send(Message(b"paid"))
        gateway._cache._bytes_max, bytes_max = 0, gateway._cache._bytes_max
        part = await fetched(asking, "orders")
        assert (part.error_code, part.high_watermark, part.records) == (ErrorCode.NONE, 1, b"")
        gateway._cache._bytes_max = bytes_max
        assert (await fetched(asking, "orders")).records


async def test_what_is_fetched_is_counted_by_topic() -> None:
    metrics = MemoryMetrics()
    async with (
        aio.connect(store=MemoryStore(), coordination="store", maintenance=False) as lake,
        KafkaGateway(lake, KafkaOptions(port=0), metrics=metrics) as gateway,
        client(gateway) as one,
    ):
        await lake.create_topic("orders", TopicSettings(queues=1))
        producer = await lake.producer("orders")
        await producer.send(Message(b"paid"))
        sizes = [len((await fetched(one, "orders")).records) for _ in range(2)]
        (counted,) = [sample for sample in metrics.samples() if sample.metric is FETCHED_BYTES]
        assert (counted.labels, counted.value) == (("orders",), sum(sizes))


async def test_what_comes_while_a_fetch_looks_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as gateway, client(gateway) as asking:
        await gateway.lake.create_topic("orders", TopicSettings(queues=1))
        native, look = await gateway.lake.producer("orders"), gateway._fetch._found
        moved = gateway._followers.of(await gateway.lake.topic("orders")).moved()

        async def looked(*asked: Any) -> Any:
            seen, given = await look(*asked), moved.given
            if not seen[0][0].records:
                await native.send(Message(b"paid"))
                await until(lambda: moved.given > given)
            return seen

        monkeypatch.setattr(gateway._fetch, "_found", looked)
        assert (await fetched(asking, "orders")).records


async def test_a_gateway_that_ends_answers_who_waits() -> None:
    async with served() as gateway, client(gateway) as asking:
        await gateway.lake.create_topic("orders", TopicSettings(queues=1))
        waiting = asyncio.ensure_future(fetched(asking, "orders"))
        await until(lambda: bool(gateway._fetch._end._waiting) or waiting.done())
        gateway._fetch.end()
        part = await waiting
        assert (part.error_code, part.records) == (ErrorCode.NONE, b"")
