"""The shop: its tables, what it has at first, and tills whose transactions each touch several tables and keep the books."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from .books import STOCK
from .source import Source

SCHEMA = (
    "CREATE TABLE articles (id int PRIMARY KEY, name varchar(40) NOT NULL, price decimal(12,2) NOT NULL, stock int NOT NULL)",
    "CREATE TABLE customers (id int PRIMARY KEY, name varchar(40) NOT NULL, spent decimal(12,2) NOT NULL)",
    """CREATE TABLE orders (id int PRIMARY KEY, customer int NOT NULL REFERENCES customers (id), state varchar(10) NOT NULL,
        amount decimal(12,2) NOT NULL)""",
    """CREATE TABLE order_lines (order_id int NOT NULL REFERENCES orders (id), line int NOT NULL,
        article int NOT NULL REFERENCES articles (id), quantity int NOT NULL, price decimal(12,2) NOT NULL,
        PRIMARY KEY (order_id, line))""",
    "CREATE TABLE payments (id int PRIMARY KEY, order_id int NOT NULL REFERENCES orders (id), amount decimal(12,2) NOT NULL)",
    "CREATE TABLE ledger (entry int PRIMARY KEY, what varchar(40) NOT NULL, amount decimal(12,2) NOT NULL)",
)
GOODS = ("espresso machine", "coffee grinder", "tea pot", "milk jug", "paper filters", "kettle", "scales", "cup")
ARTICLES, CUSTOMERS, FIRST_ORDERS = 40, 100, 150
STEPS = {"order": 6.0, "pay": 4.0, "add": 3.0, "cancel": 1.0, "pay all": 0.3}
"""What a till does next, with how often."""
PAID_AT_ONCE_MAX = 60
TILLS = 2
FIRST_ID = 100_000
"""Ids below it are of what there was before the shop opened."""


@dataclass(frozen=True)
class Order:
    """An order that is not paid yet, as its till remembers it."""

    id: int
    customer: int
    lines: tuple[tuple[int, int, Decimal], ...] = ()
    """Article, quantity and price of each line."""

    @property
    def amount(self) -> Decimal:
        return sum((quantity * price for _, quantity, price in self.lines), Decimal(0))


@dataclass
class Sales:
    """What all tills have done so far."""

    transactions: int = 0
    refused: int = 0
    """Those that the database refused, such as by a deadlock. They are rolled back."""
    last_s: float = 0.0
    """When the last one was committed."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def was_committed(self) -> None:
        with self.lock:
            self.transactions += 1
            self.last_s = time.time()

    def was_refused(self) -> None:
        with self.lock:
            self.refused += 1


class Till:
    """One till. Orders are its own from the first line to the payment; articles and customers are everybody's."""

    def __init__(self, connection: Any, ids: Iterator[int], chance: random.Random) -> None:  # noqa: ANN401 - of any database
        self._connection, self._cursor, self._ids, self._chance = connection, connection.cursor(), ids, chance
        self._open: dict[int, Order] = {}

    def transact(self) -> None:
        """One transaction. If it is refused, it has never been."""
        [step] = self._chance.choices(list(STEPS), list(STEPS.values()))
        before = dict(self._open)
        try:
            self._step(step if self._open else "order")
            self._connection.commit()
        except BaseException:
            self._open = before
            self._connection.rollback()
            raise

    def fill(self) -> None:
        """What there is before the shop opens, in one transaction."""
        for number in range(1, ARTICLES + 1):
            name, price = f"{GOODS[number % len(GOODS)]} {number}", Decimal(self._chance.randrange(100, 40_000)) / 100
            self._run("INSERT INTO articles VALUES (%s, %s, %s, %s)", number, name, price, STOCK)
        for number in range(1, CUSTOMERS + 1):
            self._run("INSERT INTO customers VALUES (%s, %s, 0)", number, f"customer {number}")
        for _ in range(FIRST_ORDERS):
            order = self._order()
            if self._chance.random() < 0.7:
                self._pay([order])
        self._connection.commit()

    def _step(self, step: str) -> None:
        one = self._open[self._chance.choice([*self._open])] if self._open else None
        if one is None or step == "order":
            order = self._order()
            self._note(f"order {order.id}", Decimal(0))
        elif step == "add":
            self._add(one, self._basket(1))
            self._note(f"more of order {one.id}", Decimal(0))
        elif step == "cancel":
            self._cancel(one)
            self._note(f"order {one.id} is cancelled", Decimal(0))
        else:
            paid = [one] if step == "pay" else [*self._open.values()][:PAID_AT_ONCE_MAX]
            self._pay(paid)

    def _order(self) -> Order:
        order = Order(next(self._ids), self._chance.randrange(1, CUSTOMERS + 1))
        self._run("INSERT INTO orders VALUES (%s, %s, 'open', 0)", order.id, order.customer)
        return self._add(order, self._basket(self._chance.randrange(1, 5)))

    def _basket(self, lines: int) -> list[tuple[int, int, Decimal]]:
        chosen = sorted(self._chance.sample(range(1, ARTICLES + 1), lines))  # all tills lock articles in the same order
        return [(one, self._chance.randrange(1, 4), Decimal(self._chance.randrange(100, 40_000)) / 100) for one in chosen]

    def _add(self, order: Order, basket: Sequence[tuple[int, int, Decimal]]) -> Order:
        for place, (article, quantity, price) in enumerate(basket, start=len(order.lines) + 1):
            self._run("UPDATE articles SET stock = stock - %s WHERE id = %s", quantity, article)
            self._run("INSERT INTO order_lines VALUES (%s, %s, %s, %s, %s)", order.id, place, article, quantity, price)
        order = self._open[order.id] = replace(order, lines=(*order.lines, *basket))
        self._run("UPDATE orders SET amount = %s WHERE id = %s", order.amount, order.id)
        return order

    def _cancel(self, order: Order) -> None:
        for article, quantity, _ in sorted(order.lines):
            self._run("UPDATE articles SET stock = stock + %s WHERE id = %s", quantity, article)
        self._run("DELETE FROM order_lines WHERE order_id = %s", order.id)
        self._run("DELETE FROM orders WHERE id = %s", order.id)
        del self._open[order.id]

    def _pay(self, orders: Sequence[Order]) -> None:
        for order in sorted(orders, key=lambda order: order.customer):
            self._run("UPDATE customers SET spent = spent + %s WHERE id = %s", order.amount, order.customer)
            self._run("UPDATE orders SET state = 'paid' WHERE id = %s", order.id)
            self._run("INSERT INTO payments VALUES (%s, %s, %s)", next(self._ids), order.id, order.amount)
            del self._open[order.id]
        self._note(f"{len(orders)} orders are paid", sum((order.amount for order in orders), Decimal(0)))

    def _note(self, what: str, amount: Decimal) -> None:
        """Each transaction has a line in the ledger, by which states between transactions are told apart."""
        self._run("INSERT INTO ledger VALUES (%s, %s, %s)", next(self._ids), what, amount)

    def _run(self, statement: str, *values: object) -> None:
        self._cursor.execute(statement, values)


def build(source: Source, seed: int) -> None:
    """Make the tables, and fill them."""
    with source.connect() as connection:
        cursor = connection.cursor()
        for statement in SCHEMA:
            cursor.execute(statement)
        Till(connection, itertools.count(1), random.Random(seed)).fill()


def trade(source: Source, sales: Sales, closed: threading.Event, *, number: int, rate: float, seed: int) -> None:
    """One of the tills, until the shop is closed: so many transactions a second at most."""
    with source.connect() as connection:
        till = Till(connection, itertools.count(FIRST_ID + number, TILLS), random.Random(seed + number))
        due_s = time.monotonic()
        while not closed.wait(max(0.0, due_s - time.monotonic())):
            due_s = max(due_s, time.monotonic() - 1.0) + 1 / rate
            try:
                till.transact()
            except source.refused:
                sales.was_refused()
            else:
                sales.was_committed()
