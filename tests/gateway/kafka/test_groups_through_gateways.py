"""Consumer groups of Kafka's clients: shared partitions, positions that last, and gateways that go."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from penstock.aio import TopicSettings
from penstock.gateway.kafka.gateway import KafkaGateway
from penstock.gateway.kafka.options import GATHER_COMMITS_MAX, KafkaOptions
from penstock.log import MessageType
from penstock.log.errors import InvalidArgument
from penstock.log.stores import MemoryStore
from tests.gateway.kafka.serving import place, producer, served, taken

GROUP = "billing team/1"
MIXED = TopicSettings(message_type=MessageType.MIXED, queues=4)
COUNT = 40


@asynccontextmanager
async def member(*gateways: KafkaGateway, **options: Any) -> AsyncIterator[AIOKafkaConsumer]:
    made = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=place(*gateways),
        group_id=GROUP,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=200,
        **options,
    )
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


async def sent(gateway: KafkaGateway, first: int = 0) -> None:
    async with producer(gateway) as sending:
        for number in range(first, first + COUNT):
            await sending.send_and_wait("orders", b"%d" % number, partition=number % 4)


async def test_a_group_goes_on_where_it_committed_and_lag_shows_it() -> None:
    async with served() as gateway:
        await gateway.lake.create_topic("orders", MIXED)
        await sent(gateway)
        async with member(gateway) as first:
            await taken(first, COUNT)
            await first.commit()
        await sent(gateway, COUNT)
        assert (await gateway.lake.describe_group(GROUP)).lag == COUNT
        async with member(gateway) as second:
            values = sorted(int(one.value) for one in await taken(second, COUNT))
            assert values == list(range(COUNT, 2 * COUNT))
            assert await second.committed(TopicPartition("orders", 0)) == COUNT // 4


async def test_two_members_share_the_partitions() -> None:
    async with served() as gateway:
        await gateway.lake.create_topic("orders", MIXED)
        async with member(gateway) as first, member(gateway) as second:
            shares: list[set[TopicPartition]] = []
            while not shares or any(len(one) != 2 for one in shares):
                await first.getmany(timeout_ms=50)
                await second.getmany(timeout_ms=50)
                shares = [set(first.assignment()), set(second.assignment())]
            assert len(shares[0] | shares[1]) == 4


async def test_members_go_on_at_another_gateway_and_keep_what_they_had() -> None:
    store = MemoryStore()
    async with served(store) as staying:
        await staying.lake.create_topic("orders", MIXED)
        await sent(staying)
        async with served(store) as going, member(going, staying) as consuming:
            await taken(consuming, COUNT)
            await consuming.commit()
            await going.stop()
            await sent(staying, COUNT)
            values = sorted(int(one.value) for one in await taken(consuming, COUNT))
            assert values == list(range(COUNT, 2 * COUNT))
            await consuming.commit()
        assert (await staying.lake.describe_group(GROUP)).lag == 0


@pytest.mark.parametrize("gather", [timedelta(seconds=-1), GATHER_COMMITS_MAX + timedelta(seconds=1)])
def test_commits_are_not_gathered_for_longer_than_members_are_waited_for(gather: timedelta) -> None:
    with pytest.raises(InvalidArgument, match="gathered"):
        KafkaOptions(gather_commits=gather)
