"""Topics on local files, filled and published, for benchmarks that read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from penstock.log import LogLake, MessageType, Topic, TopicSettings
from penstock.log.format.header import Action
from penstock.log.stores.protocol import ObjectStore
from penstock.log.table.maintenance import TopicMaintenance

TOPIC = "bench"


async def create(lake: LogLake, queues: int) -> Topic:
    await lake.create_topic(TOPIC, TopicSettings(message_type=MessageType.FIFO, queues=queues))
    return await lake.topic(TOPIC, writable=True)


async def fill(lake: LogLake, data: pa.Table, times: int) -> None:
    """Send ``data`` so many times."""
    producer = await lake.producer(TOPIC)
    for _ in range(times):
        await producer.send_batch(data)
    await producer.close()


async def publish(topic: Topic, *, compact: bool = True) -> None:
    """Publish all there is, and merge files until nothing is left to merge."""
    maintenance = maintenance_of(topic.store, topic)
    while not (await maintenance.publish()).caught_up:
        pass
    while compact and (await maintenance.compact()).files:
        pass


def maintenance_of(store: ObjectStore, topic: Topic) -> TopicMaintenance:
    async def append(actions: Sequence[Action]) -> None:
        await topic.act(*actions)

    return TopicMaintenance(store, topic.paths, topic.record, topic.runtime, append)


def table_files(root: Path) -> list[Path]:
    """The Parquet files of the table."""
    return sorted(root.glob(f"topics/{TOPIC}/table/queue=*/*.parquet"))
