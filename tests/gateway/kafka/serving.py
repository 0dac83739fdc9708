"""A gateway of Kafka's protocol on the test's own event loop, with clients of aiokafka."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from penstock import aio
from penstock.gateway.kafka.gateway import KafkaGateway
from penstock.gateway.kafka.options import KafkaOptions
from penstock.log.stores import MemoryStore
from penstock.log.stores.protocol import ObjectStore

PATIENCE_MS = 60_000


@asynccontextmanager
async def served(store: ObjectStore | None = None, **options: Any) -> AsyncIterator[KafkaGateway]:
    """A gateway of a lake in memory, or in a store. Its groups wait for no further members."""
    made = KafkaOptions(port=0, initial_rebalance_delay=timedelta(0), **options)
    async with (
        aio.connect(store=store or MemoryStore(), coordination="store", maintenance=False) as lake,
        KafkaGateway(lake, made) as gateway,
    ):
        yield gateway


def place(*gateways: KafkaGateway) -> list[str]:
    return [f"127.0.0.1:{one.port}" for one in gateways]


@asynccontextmanager
async def producer(*gateways: KafkaGateway, **options: Any) -> AsyncIterator[AIOKafkaProducer]:
    made = AIOKafkaProducer(bootstrap_servers=place(*gateways), **options)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


@asynccontextmanager
async def consumer(*gateways: KafkaGateway, topic: str, partitions: Sequence[int] = (0,)) -> AsyncIterator[AIOKafkaConsumer]:
    """A consumer at the beginning of some partitions."""
    made = AIOKafkaConsumer(bootstrap_servers=place(*gateways), enable_auto_commit=False, auto_offset_reset="earliest")
    await made.start()
    try:
        made.assign([TopicPartition(topic, partition) for partition in partitions])
        await made.seek_to_beginning()
        yield made
    finally:
        await made.stop()


async def taken(consuming: AIOKafkaConsumer, count: int) -> list[Any]:
    """So many records, by partition and offset."""
    found: list[Any] = []
    while len(found) < count:
        batches = await consuming.getmany(timeout_ms=PATIENCE_MS, max_records=count - len(found))
        assert batches, f"{count} records come, and {len(found)} came"
        found.extend(record for records in batches.values() for record in records)
    return sorted(found, key=lambda record: (record.partition, record.offset))
