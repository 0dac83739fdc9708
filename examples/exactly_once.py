"""From topic to topic each message counts exactly once: an order's bill is visible if, and only if, the order is settled.

The worker sends the bill and acknowledges the order in one transaction. A worker that fails between the two, or after both, has billed nothing:
the order is handed out again, and what its transaction had sent is never seen. No database has to remember what was done.

    python examples/exactly_once.py [LAKE]
"""

from __future__ import annotations

import sys
from datetime import timedelta

import penstock
from penstock import Message, MessageView

ORDERS = 12
NOW = timedelta(0)


class Failed(Exception):
    """What goes wrong amid the work: here, each third order's first time."""


def bill(message: MessageView) -> Message:
    """What is made of an order."""
    order = message.json()["order"]
    return Message.json({"order": order, "amount": 10 * order}, keys=[str(order)])


def work(lake: penstock.Lake) -> int:
    """Bill all orders; how often that was tried."""
    billed = tried = 0
    with lake.simple_consumer("orders", group="billing") as consumer:
        while billed < ORDERS:
            for message in consumer.receive(4):
                tried += 1
                try:
                    with lake.transaction(consumer=consumer) as transaction:
                        transaction.send("bills", bill(message))
                        transaction.ack(message)
                        if message.json()["order"] % 3 == 0 and message.delivery_attempt == 1:
                            raise Failed  # leaves the block, which rolls the transaction back
                        transaction.commit()  # the order is settled and its bill is visible, or neither
                    billed += 1
                except Failed:
                    consumer.change_invisible_duration(message, NOW)  # hand it out again
                except penstock.ReceiptRefused:
                    pass  # it took too long, so the order is handed out again
    return tried


def main(lake_url: str) -> None:
    """Bill orders by a worker that fails now and then."""
    with penstock.connect(lake_url) as lake:
        lake.create_topic("orders", message_type="FIFO", queues=2)
        lake.create_topic("bills", message_type="TRANSACTION", queues=2)
        with lake.producer("orders") as producer:
            for order in range(ORDERS):
                producer.send(Message.json({"order": order}, message_group=str(order)))
        tried = work(lake)
        bills = sorted(message.json()["order"] for message in lake.reader("bills").messages())
        left = lake.describe_group("billing").lag
    if bills != list(range(ORDERS)) or left or tried <= ORDERS:
        raise SystemExit(f"billed: {bills}, not settled: {left}, tried: {tried}")
    print(f"{ORDERS} orders billed once each, though some were tried again")


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else "memory://")
