"""An exchange: orders for each instrument are matched first come, first served.

The message group is the instrument: its orders reach the matching engine one after the other, in the order in which they were stored, while
other instruments are matched beside it. That holds when a handler fails: the order is tried again before the next one of its instrument.

    python examples/order_matching.py [LAKE]
"""

from __future__ import annotations

import heapq
import random
import sys
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

import penstock
from penstock import ConsumeResult, Message, MessageView, RetryAfter

INSTRUMENTS = [f"share-{n}" for n in range(20)]


class Trade(NamedTuple):
    """A purchase of ``quantity`` at ``price``; buyer and seller are message ids."""

    buyer: str
    seller: str
    price: int
    quantity: int


@dataclass
class Book:
    """The open orders of one instrument. The best price is first; of equal prices, the one that came first."""

    bids: list[tuple[int, int, str, int]] = field(default_factory=list)
    """Heap of (-price, arrival, id, quantity)."""
    asks: list[tuple[int, int, str, int]] = field(default_factory=list)
    """Heap of (price, arrival, id, quantity)."""
    trades: list[Trade] = field(default_factory=list)
    last_offset: int = -1

    def match(self, arrival: int, order_id: str, side: str, price: int, quantity: int) -> None:
        """Trade with the best orders of the other side, and keep what is left."""
        own, other, sign = (self.bids, self.asks, 1) if side == "buy" else (self.asks, self.bids, -1)
        while quantity and other and sign * abs(other[0][0]) <= sign * price:
            key, came, other_id, left = heapq.heappop(other)
            traded = min(quantity, left)
            buyer, seller = (order_id, other_id) if side == "buy" else (other_id, order_id)
            self.trades.append(Trade(buyer, seller, abs(key), traded))
            quantity -= traded
            if left > traded:
                heapq.heappush(other, (key, came, other_id, left - traded))
        if quantity:
            heapq.heappush(own, (-sign * price, arrival, order_id, quantity))


class Exchange:
    """The matching engine."""

    def __init__(self, orders: int) -> None:
        self.books: defaultdict[str, Book] = defaultdict(Book)
        self.finished = threading.Event()
        self._left = orders
        self._lock = threading.Lock()

    def listen(self, message: MessageView) -> ConsumeResult | RetryAfter:
        """Match one order. No other handler has this instrument meanwhile, so its book needs no lock."""
        if message.offset % 50 == 7 and message.delivery_attempt == 1:
            return RetryAfter(timedelta(milliseconds=10), "the risk check did not answer")
        assert message.message_group is not None
        book, order = self.books[message.message_group], message.json()
        if message.offset > book.last_offset:  # after a crash an order may come again
            book.match(message.offset, message.message_id, order["side"], order["price"], order["quantity"])
            book.last_offset = message.offset
            with self._lock:
                self._left -= 1
                if self._left == 0:
                    self.finished.set()
        return ConsumeResult.SUCCESS


def send_orders(lake: penstock.Lake, count: int) -> None:
    """From three brokers at once."""
    chance = random.Random(7)
    brokers = [lake.producer("orders") for _ in range(3)]
    for n in range(count):
        order = {"side": chance.choice(["buy", "sell"]), "price": chance.randint(95, 105), "quantity": chance.randint(1, 20)}
        brokers[n % 3].send(Message.json(order, message_group=chance.choice(INSTRUMENTS)))
    for broker in brokers:
        broker.close()


@dataclass
class Order:
    """An order of the plain reference."""

    id: str
    side: str
    price: int
    quantity: int


def plain_reference(orders: list[MessageView]) -> list[Trade]:
    """What price-time priority says of one instrument, by looking through all open orders each time."""
    trades: list[Trade] = []
    waiting: list[Order] = []
    for message in orders:
        order = Order(message.message_id, **message.json())
        while order.quantity:
            others = [one for one in waiting if one.side != order.side]
            if order.side == "buy":
                best = min((one for one in others if one.price <= order.price), key=lambda one: one.price, default=None)
            else:
                best = max((one for one in others if one.price >= order.price), key=lambda one: one.price, default=None)
            if best is None:  # of equal prices, min and max give the first
                waiting.append(order)
                break
            traded = min(order.quantity, best.quantity)
            buyer, seller = (order, best) if order.side == "buy" else (best, order)
            trades.append(Trade(buyer.id, seller.id, best.price, traded))
            order.quantity -= traded
            best.quantity -= traded
            if not best.quantity:
                waiting.remove(best)
    return trades


def main(lake_url: str, count: int = 2_000) -> None:
    """Send orders, match them, and compare every trade with the plain reference."""
    with penstock.connect(lake_url) as lake:
        lake.create_topic("orders", message_type="FIFO", queues=4)
        exchange = Exchange(count)
        with lake.push_consumer("orders", group="matching", listener=exchange.listen, delivery_order="ORDERLY"):
            send_orders(lake, count)
            exchange.finished.wait()
        stored = list(lake.reader("orders").messages())
    for instrument in INSTRUMENTS:
        expected = plain_reference([one for one in stored if one.message_group == instrument])
        if exchange.books[instrument].trades != expected:
            raise SystemExit(f"{instrument}: not first come, first served")
    print(f"{count} orders, {sum(len(book.trades) for book in exchange.books.values())} trades, all first come, first served")


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else "memory://")
