"""Penstock for asynchronous callers: the same classes, natively on the running event loop.

    async with penstock.aio.connect("./lake") as lake:
        producer = await lake.producer("orders")
        receipt = await producer.send(penstock.Message(b"paid", message_group="user-7"))

``send`` is an ordinary call and returns a receipt at once; awaiting the receipt waits until the message is durable. On the loop's own thread
a full producer raises `BackPressureError`; ``await producer.wait_for_room()`` waits instead.
"""

from penstock.consumers import BroadcastConsumer, PullConsumer, PushConsumer, SimpleConsumer
from penstock.coordinator.transactions.sending.transaction import Transaction
from penstock.log import Producer, Reader, TopicSettings

from .lake import Lake
from .opening import connect
from .transactions import Checking

__all__ = [
    "BroadcastConsumer",
    "Checking",
    "Lake",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "Reader",
    "SimpleConsumer",
    "TopicSettings",
    "Transaction",
    "connect",
]
