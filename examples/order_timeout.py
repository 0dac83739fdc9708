"""An order that is not paid within half an hour is cancelled.

Each order sends itself a message that is due when its time is over. Whoever takes the payment calls the message back, if it has the handle at
hand; if not, or too late, nothing is lost: the message is delivered, and the worker sees that the order is paid.

    python examples/order_timeout.py [LAKE [SECONDS]]
"""

from __future__ import annotations

import sys
import threading
from datetime import timedelta

import penstock
from penstock import ConsumeResult, Message, MessageView

HALF_AN_HOUR = timedelta(minutes=30)
ORDERS = 12
PATIENCE = timedelta(minutes=2)
"""Beyond the time that an order has."""


class Shop:
    """The orders; a database in earnest."""

    def __init__(self) -> None:
        self.state: dict[str, str] = {}
        self.handles: dict[str, str] = {}
        self.overdue: dict[str, MessageView] = {}
        """The messages that were delivered, by id."""
        self.changed = threading.Condition()

    def place(self, producer: penstock.Producer, order: str, unpaid: timedelta) -> None:
        """Take an order that is to be paid in time."""
        self.state[order] = "placed"
        sent = producer.send(Message.json({"order": order}, keys=[order], delay=unpaid)).result()
        assert sent.recall_handle is not None
        self.handles[order] = sent.recall_handle

    def pay(self, order: str) -> bool:
        """Whether it was paid in time: an order that was cancelled is not."""
        with self.changed:
            in_time = self.state[order] == "placed"
            if in_time:
                self.state[order] = "paid"
        return in_time

    def on_overdue(self, message: MessageView) -> ConsumeResult:
        """Cancel an order whose time is over, unless it is paid. May come twice: the second time there is nothing to do."""
        order = message.json()["order"]
        with self.changed:
            if self.state[order] == "placed":
                self.state[order] = "cancelled"
            self.overdue[message.message_id] = message
            self.changed.notify_all()
        return ConsumeResult.SUCCESS


def main(lake_url: str, unpaid: timedelta = HALF_AN_HOUR) -> None:
    """Of three orders one is paid and called back, one is paid, and one is not."""
    shop = Shop()
    orders = [f"order-{n}" for n in range(ORDERS)]
    recalled, paid, forgotten = orders[0::3], orders[1::3], orders[2::3]
    with penstock.connect(lake_url) as lake:
        lake.create_topic("overdue", message_type="DELAY", queues=4)
        with lake.producer("overdue") as producer:
            for order in orders:
                shop.place(producer, order, unpaid)
        with lake.push_consumer("overdue", group="canceller", listener=shop.on_overdue, delivery_order="CONCURRENT"):
            late = 0
            refused = [order for order in [*recalled, *paid] if not shop.pay(order)]  # they came when the time was over
            for order in recalled:
                try:
                    lake.recall(shop.handles[order])
                except penstock.NotRecallable:  # its time came a moment before: the worker finds it paid
                    late += 1
            expected, patience_s = ORDERS - len(recalled) + late, (unpaid + PATIENCE).total_seconds()
            with shop.changed:
                if not shop.changed.wait_for(lambda: len(shop.overdue) >= expected, timeout=patience_s):
                    raise SystemExit(f"{len(shop.overdue)} of {expected} messages were delivered within {patience_s:,.0f} s")
        waiting = lake.waiting("overdue")
    early = [one for one in shop.overdue.values() if one.delivery_timestamp is None or one.store_timestamp < one.delivery_timestamp]
    wrong = [order for order, state in shop.state.items() if (state == "cancelled") is not (order in [*forgotten, *refused])]
    if early or wrong or waiting:
        raise SystemExit(f"early: {early}, wrong: {wrong}, still waiting: {waiting}")
    print(
        f"{len(forgotten) + len(refused)} of {ORDERS} orders cancelled after {unpaid}, {len(recalled) - late} messages called back"
    )


if __name__ == "__main__":
    main(
        sys.argv[1] if sys.argv[1:] else "memory://",
        timedelta(seconds=float(sys.argv[2])) if sys.argv[2:] else HALF_AN_HOUR,
    )
