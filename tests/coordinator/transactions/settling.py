"""Orders that are received and paid in transactions: what the tests of that share."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from penstock.consumers.membership import Subscription
from penstock.consumers.simple import SimpleConsumer
from penstock.coordinator.cells.cells import WRITE_ID_BYTES
from penstock.coordinator.cells.keys import queue_key
from penstock.coordinator.queues.cell import QueueCell
from penstock.coordinator.queues.codec import decode_cell
from penstock.coordinator.transactions.sending.transaction import Transaction
from penstock.log import Message, MessageType, MessageView, ProducerOptions, TopicSettings
from tests.coordinator.transactions.stage import GROUP, Member, Stage

TEN = timedelta(seconds=10)
BODIES = [b"a0", b"b1", b"a2", b"c3"]


async def consuming(member: Member, *, group: str = "pricing", order: str = "ORDERLY") -> SimpleConsumer:
    consumer = SimpleConsumer(
        member.lake, member.coordination, group=group, subscriptions={"orders": Subscription()}, stated={"delivery_order": order}
    )
    await consumer.start()
    return consumer


def begun(member: Member, consumer: SimpleConsumer) -> Transaction:
    return Transaction(member.transactions, GROUP, first_check=None, settler=consumer)


async def ordered(stage: Stage, bodies: Sequence[bytes] = BODIES) -> None:
    """Orders to be processed."""
    shop = stage.member("shop")

    async def send() -> None:
        await shop.lake.create_topic("orders", TopicSettings(queues=1, message_type=MessageType.FIFO))
        producer = await shop.lake.producer("orders", options=ProducerOptions(linger=timedelta(0)))
        # In one entry, so that whoever receives the first of a message group receives all of it.
        await asyncio.gather(*(producer.send(Message(body, message_group=body[:1].decode())) for body in bodies))
        await producer.close()

    await shop.run(send())


async def cell_of(stage: Stage, group: str = "pricing") -> QueueCell:
    key = queue_key(group, "orders", 0)
    stored = await stage.table.memory.get(key)
    assert stored is not None
    return decode_cell(stored.data[WRITE_ID_BYTES:], where=key)


async def received(consumer: SimpleConsumer, count: int = len(BODIES), *, invisible: timedelta = TEN) -> list[MessageView]:
    found: list[MessageView] = []
    while len(found) < count:
        found += await consumer.receive(count - len(found), invisible, timedelta(seconds=60))
    return found


def bodies(messages: Sequence[MessageView]) -> list[bytes]:
    return [message.body for message in messages]
