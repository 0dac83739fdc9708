"""Calls that neither mypy nor pyright may find fault with, in both faces."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal

import penstock
from penstock import BatchResult, ConsumeResult, Message, MessageView, RetryAfter, TransactionResolution
from penstock.infra.tracing import traced

SUCCESS = ConsumeResult.SUCCESS


def listen(message: MessageView) -> ConsumeResult:
    return SUCCESS if message.body else ConsumeResult.DEAD_LETTER


def listen_later(message: MessageView) -> ConsumeResult | RetryAfter:
    return SUCCESS if message.tag else RetryAfter(timedelta(seconds=10), "no tag yet")


async def listen_async(message: MessageView) -> ConsumeResult:
    return listen(message)


def listen_with(database: str, message: MessageView) -> ConsumeResult:
    return SUCCESS if database else listen(message)


def listen_to_anything(message: Any) -> Any:
    return message


class Listening:
    def __call__(self, message: MessageView) -> ConsumeResult:
        return listen(message)

    async def listen(self, message: MessageView) -> ConsumeResult:
        return listen(message)


def made(again: Callable[[MessageView], Awaitable[ConsumeResult]]) -> penstock.Listener:
    return again


def listen_to_all(messages: list[MessageView]) -> BatchResult:
    return BatchResult(len(messages), RetryAfter(1))


def listen_to_some(messages: Sequence[MessageView]) -> ConsumeResult:
    return SUCCESS if messages else ConsumeResult.FAILURE


async def listen_to_all_async(messages: list[MessageView]) -> ConsumeResult | BatchResult:
    return listen_to_all(messages)


@dataclass
class Order:
    id: int
    amount: float


def listen_to_rows(message: MessageView) -> ConsumeResult:
    order = message.as_(Order)
    return SUCCESS if order is not None and order.amount > message.value["amount"] else ConsumeResult.FAILURE


def listeners(lake: penstock.Lake) -> None:
    lake.push_consumer("orders", group="g", listener=listen)
    lake.push_consumer("orders", group="g", listener=listen_later)
    lake.push_consumer("orders", group="g", listener=listen_async)
    lake.push_consumer("orders", group="g", listener=partial(listen_with, "sqlite:///x"))
    lake.push_consumer("orders", group="g", listener=listen_to_anything)
    lake.push_consumer("orders", group="g", listener=Listening())
    lake.push_consumer("orders", group="g", listener=Listening().listen)
    lake.push_consumer("orders", group="g", listener=made(listen_async))
    lake.push_consumer("orders", group="g", listener=traced(listen), batch=None)
    lake.push_consumer("orders", group="g", listener=lambda message: SUCCESS if message.body else ConsumeResult.FAILURE)
    lake.push_consumer({"orders": "paid", "typed": None}, group="g", listener=listen_to_rows)
    lake.push_consumer("orders", group="g", listener=listen_to_all, batch="queue", batch_messages=10)
    lake.push_consumer("orders", group="g", listener=listen_to_some, batch="group")
    lake.push_consumer("orders", group="g", listener=listen_to_all_async, batch="group")
    lake.push_consumer("orders", group="g", listener=traced(listen_to_all), batch="queue")
    lake.push_consumer("orders", group="g", listener=lambda messages: BatchResult(len(messages)), batch="queue")
    lake.broadcast_consumer("orders", group="g", member="one", listener=listen_later)
    lake.broadcast_consumer("orders", group="g", member="one", listener=lambda _: SUCCESS)


def a_batch_or_not(lake: penstock.Lake, batch: Literal["group", "queue"] | None) -> None:
    def either(given: MessageView | list[MessageView]) -> ConsumeResult:
        return listen_to_some(given) if isinstance(given, list) else listen(given)

    lake.push_consumer("orders", group="g", listener=either, batch=batch, start="latest", threads=2, max_attempts=None)
    lake.push_consumer("orders", group="g", listener=listen_to_anything, batch=batch)


async def on_an_event_loop(lake: penstock.aio.Lake) -> None:
    await lake.create_topic("orders", penstock.aio.TopicSettings(message_type="FIFO", retention=3600))
    await lake.push_consumer("orders", group="g", listener=listen)
    await lake.push_consumer("orders", group="g", listener=listen_async, delivery_order="CONCURRENT")
    await lake.push_consumer("orders", group="g", listener=listen_to_all_async, batch="queue")
    async with lake.push_consumer("orders", group="g", listener=lambda _: SUCCESS) as consumer:
        print(consumer.group)
    async with lake.broadcast_consumer("orders", group="g", member="one", listener=listen_async):
        await lake.alter_group("g", retry=penstock.RetryPolicy(schedule="exponential", interval=0.5), filters={"orders": "paid"})


def words_of_a_file(lake: penstock.Lake, file: Path) -> None:
    read = json.loads(file.read_text())
    lake.create_topic("orders", message_type=read["type"], routing=read["routing"])
    text: str = read["order"]
    lake.create_group("g", delivery_order=penstock.DeliveryOrder(text), dead_letter_policy=penstock.DeadLetterPolicy.PARK)
    kinds: dict[str, penstock.MessageTypeLike] = {"orders": "FIFO", "later": penstock.MessageType.DELAY}
    for topic, kind in kinds.items():
        lake.create_topic(topic, message_type=kind)
    settings = penstock.GroupSettings(delivery_order="CONCURRENT")
    order: penstock.DeliveryOrder = settings.delivery_order
    lake.create_group("h", delivery_order=order, retry=penstock.RetryPolicy(schedule=penstock.RetrySchedule.ROCKETMQ))


def changes(lake: penstock.Lake) -> None:
    lake.reset_offsets("g", "orders", datetime.now(UTC))
    lake.alter_topic("orders", queues=32, retention=None, limits=penstock.TopicLimits(max_body_bytes=1))
    lake.alter_group("g", max_attempts=None, dead_letter_policy="park")


def checkers(lake: penstock.Lake) -> None:
    async def check(transaction: penstock.CheckedTransaction) -> TransactionResolution:
        return TransactionResolution.UNKNOWN if transaction.checks else TransactionResolution.COMMIT

    lake.check_transactions("shop", check)
    lake.check_transactions("shop", lambda _: TransactionResolution.ROLLBACK)


def delayed_messages(lake: penstock.Lake) -> None:
    with lake.producer("later") as producer:
        sent = producer.send(Message(b"pay now", delay=timedelta(days=3))).result()
    print(lake.recall(sent.recall_handle).body)
    for message in lake.reader("later").messages():
        print(message.store_timestamp >= message.delivery_timestamp)


def messages(lake: penstock.Lake) -> None:
    with lake.producer("orders", linger=0.01) as producer:
        producer.send(Message(b"paid", keys=["order-7"], properties={"amount": "10"}, delay=5))
        producer.send(Message(b"paid", keys=("order-7", penstock.MessageType.FIFO)))
        producer.send(Message(None, headers=[("name", b"value"), ("none", None)]))
