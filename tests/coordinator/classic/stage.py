"""A lake with a topic, and a group of Kafka's clients as a gateway leaves it."""

from __future__ import annotations

import asyncio

from penstock import aio
from penstock.coordinator.cells.document import Document
from penstock.coordinator.cells.keys import classic_key, positions_key
from penstock.coordinator.classic.members import MEMBERS_CELL, ClassicGroup, ClassicMember
from penstock.coordinator.classic.positions import POSITIONS_CELL, CommittedPosition, CommittedPositions, caught_up, committed
from penstock.coordinator.groups.record import GroupRecord
from penstock.log import Message, MessageType, TopicSettings

GROUP, TOPIC = "team/billing", "orders"


async def with_messages(lake: aio.Lake, count: int = 10, *, queues: int = 2) -> None:
    await lake.create_topic(TOPIC, TopicSettings(queues=queues, message_type=MessageType.NORMAL))
    producer = await lake.producer(TOPIC)
    await asyncio.gather(*(producer.send(Message(str(n).encode()), queue=n % queues) for n in range(count)))
    await producer.close()


async def begin(lake: aio.Lake, *, queues: int = 2) -> GroupRecord:
    groups = lake.coordination.groups
    await groups.ensure_kafka(GROUP)
    topic = await lake.topic(TOPIC)

    async def nothing() -> tuple[int, ...]:
        return (0,) * queues

    return await groups.begin(GROUP, TOPIC, topic.life, nothing)


async def commit(lake: aio.Lake, record: GroupRecord, offsets: dict[int, int]) -> None:
    cell = Document(
        lake.coordination.cells, lake.runtime.clock, positions_key(GROUP, TOPIC), POSITIONS_CELL, absent=CommittedPositions()
    )
    queues = {queue: CommittedPosition(offset) for queue, offset in offsets.items()}
    await cell.change(lambda found: committed(caught_up(found, record.positions[TOPIC]), queues))


async def join(lake: aio.Lake, record: GroupRecord, *members: ClassicMember) -> None:
    cell = Document(lake.coordination.cells, lake.runtime.clock, classic_key(GROUP), MEMBERS_CELL, absent=ClassicGroup())
    await cell.write(ClassicGroup(life=record.lives, generation=3, protocol_type="consumer", leader="a", members=members))
