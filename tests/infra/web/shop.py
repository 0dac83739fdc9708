"""A lake for the console's tests: a topic, groups that stand still, hostile names."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

from msgspec.structs import replace

from penstock import aio, connect
from penstock.consumers.feed.rows import group_hash
from penstock.coordinator.cells.keys import queue_key
from penstock.coordinator.queues.offsets import OffsetSet
from penstock.log import Message, Runtime
from penstock.log.paths import TopicPaths
from penstock.log.stores import LocalStore
from penstock.log.table.publisher import Publisher
from penstock.log.topic.records import read_record
from tests.cells import change_cell, parked

HOSTILE = "<img src=x onerror=alert(1)>'\"&"
"""A message group that would act in a page that prints it as it is."""


def fill(folder: Path) -> None:
    """Topic orders of two queues with five messages, and group billing that has begun on it."""
    with connect(folder) as lake:
        lake.create_topic("orders", message_type="FIFO", queues=2)
        lake.create_topic("mails", queues=1)
        with lake.producer("orders", linger=timedelta(0)) as producer:
            for queue, group in ((0, "ann"), (0, HOSTILE), (0, "ann"), (0, HOSTILE), (1, "cid")):
                producer.send(Message(b"body", message_group=group), queue=queue)
        lake.create_group("billing", dead_letter_policy="park")
        lake.reset_offsets("billing", "orders", "earliest")


def park(folder: Path) -> None:
    """Let the hostile message group and cid's be parked in group billing."""
    secret = asyncio.run(secret_of(folder, "billing"))
    for queue, head, group in ((0, 1, HOSTILE), (1, 0, "cid")):
        marker, listed, lane = parked(head), OffsetSet.of([(0, head + 1)]), group_hash(group, secret)
        change_cell(
            lambda: aio.connect(folder),
            queue,
            lambda cell, m=marker, behind=listed, at=lane: replace(cell.with_listed(behind), markers={at: m}),  # type: ignore[misc]
        )


async def secret_of(folder: Path, group: str) -> str:
    """What the group's cells know message groups by."""
    async with aio.connect(folder, read_only=True) as lake:
        return (await lake.coordination.groups.get(group)).secret


def still_parked(folder: Path) -> list[str | None]:
    """The message groups of billing that are parked."""

    async def run() -> list[str | None]:
        async with aio.connect(folder, read_only=True) as lake:
            return [one.message_group for one in await lake.parked("billing")]

    return asyncio.run(run())


def write_cell(folder: Path, content: bytes) -> None:
    """Put something else in the place of billing's cell of queue 0."""

    async def run() -> None:
        async with aio.connect(folder) as lake:
            key, cells = queue_key("billing", "orders", 0), lake.coordination.cells
            await cells.write(key, content, on=await cells.read(key), deadline_s=9e18)

    asyncio.run(run())


def publish(folder: Path, topic: str) -> None:
    """Let the topic's table have what its log has: a file for each queue with something new."""

    async def run() -> None:
        store, paths = LocalStore(folder), TopicPaths.of(topic)
        stored = await read_record(store, paths)
        assert stored is not None
        await Publisher(store, paths, stored[0], Runtime()).publish_once()

    asyncio.run(run())
