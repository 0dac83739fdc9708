"""A shop whose transactions touch several tables, and what must be true of it between any two of them. In SQL that all databases here speak."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

TABLES = ("customers", "items", "ledger", "orders")
CUSTOMERS, ORDERS = 20, 200
"""Of each at the beginning."""
LARGE_ROWS = 150
"""Of a transaction that spans several batches of a capture's worker."""
_KEYS = 400
_STEPS = (
    ("new", 8),
    ("pay", 8),
    ("cancel", 3),
    ("move", 2),
    ("line", 5),
    ("customer", 2),
    ("large", 0.4),
)
Done = tuple[Decimal, int]
"""What a step adds to the sum of orders, and to the number of items."""
NOTHING: Done = (Decimal(0), 0)


class Shopper(threading.Thread):
    """Transactions that keep the shop's books: each says in the ledger what it does to the sums."""

    def __init__(self, connect: Callable[[], Any], id_of: Callable[[Any, random.Random], int], seed: int, pause_s: float) -> None:
        """``connect`` opens a connection, a transaction at a time; ``id_of`` gives the number of the one that is open."""
        super().__init__()
        self._connect, self._id_of, self._chance, self._pause_s = connect, id_of, random.Random(seed), pause_s
        self.stop = threading.Event()
        self.busy = threading.Lock()
        """Is held during a transaction."""

    def run(self) -> None:
        connection = self._connect()
        try:
            while not self.stop.wait(self._pause_s):
                with self.busy:
                    try:
                        self._transaction(connection.cursor())
                        (connection.rollback if self._chance.random() < 0.05 else connection.commit)()
                    except self._refused:
                        connection.rollback()
        finally:
            connection.close()

    @property
    def _refused(self) -> tuple[type[Exception], ...]:
        """A deadlock, or a key that another has taken."""
        import psycopg
        import pymysql

        return psycopg.DatabaseError, pymysql.IntegrityError, pymysql.OperationalError

    def _transaction(self, cursor: Any) -> None:
        chance, amount, lines = self._chance, *NOTHING
        for _ in range(chance.choice((1, 2, 4))):
            [step] = chance.choices([name for name, _ in _STEPS], [weight for _, weight in _STEPS])
            more, others = self._step(cursor, step)
            amount, lines = amount + more, lines + others
        cursor.execute("INSERT INTO ledger VALUES (%s, %s, %s)", (self._id_of(cursor, chance), amount, lines))

    def _step(self, cursor: Any, step: str) -> Done:
        chance = self._chance
        key, amount = chance.randrange(1, _KEYS), Decimal(chance.randrange(1, 10_000)) / 100
        match step:
            case "new":
                return self._new(cursor, key, amount)
            case "pay":
                cursor.execute("UPDATE orders SET amount = amount + %s WHERE id BETWEEN %s AND %s", (amount, key, key + 2))
                return cursor.rowcount * amount, 0
            case "cancel":
                return self._cancel(cursor, key)
            case "move":
                cursor.execute("UPDATE items SET line = line + 100 WHERE orderid = %s AND line < 100", (key,))
            case "line":
                line = chance.randrange(2, 9)
                if self._has(cursor, "orders", key) and not self._has(cursor, "items", key, line):
                    cursor.execute("INSERT INTO items VALUES (%s, %s, 'x', %s)", (key, line, amount))
                    return Decimal(0), 1
            case "customer":
                if not self._customer(cursor, key):
                    cursor.execute("UPDATE customers SET name = concat(name, 'x') WHERE id = %s", (key,))
            case "large":
                cursor.execute("UPDATE orders SET amount = amount + 1 WHERE id <= %s", (LARGE_ROWS,))
                return Decimal(cursor.rowcount), 0
        return NOTHING

    def _new(self, cursor: Any, key: int, amount: Decimal) -> Done:
        customer = self._chance.randrange(1, _KEYS)
        self._customer(cursor, customer)
        if self._has(cursor, "orders", key):
            return NOTHING
        cursor.execute("INSERT INTO orders VALUES (%s, %s, %s, %s)", (key, customer, amount, "n" * 3000))
        for line in (10, 11):
            cursor.execute("INSERT INTO items VALUES (%s, %s, 'y', %s)", (key, line, amount))
        return amount, 2

    def _cancel(self, cursor: Any, key: int) -> Done:
        cursor.execute("SELECT amount FROM orders WHERE id = %s FOR UPDATE", (key,))
        found = cursor.fetchone()
        if found is None:
            return NOTHING
        cursor.execute("DELETE FROM items WHERE orderid = %s", (key,))
        lines = cursor.rowcount
        cursor.execute("DELETE FROM orders WHERE id = %s", (key,))
        return -found[0], -lines

    def _customer(self, cursor: Any, key: int) -> bool:
        """Have one. Returns whether it is new."""
        if self._has(cursor, "customers", key):
            return False
        cursor.execute("INSERT INTO customers VALUES (%s, 'new')", (key,))
        return True

    @staticmethod
    def _has(cursor: Any, table: str, *key: int) -> bool:
        names = ("orderid", "line") if len(key) > 1 else ("id",)
        cursor.execute(f"SELECT 1 FROM {table} WHERE {' AND '.join(f'{name} = %s' for name in names)} FOR UPDATE", key)
        return cursor.fetchone() is not None


class Shoppers:
    """Several of them."""

    def __init__(
        self,
        connect: Callable[[], Any],
        id_of: Callable[[Any, random.Random], int],
        *,
        count: int,
        seed: int,
        pause_s: float = 0.25,
    ) -> None:
        self._threads = [Shopper(connect, id_of, seed + one, pause_s) for one in range(count)]

    @contextmanager
    def shopping(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            for thread in self._threads:
                thread.stop.set()
            for thread in self._threads:
                thread.join()

    @contextmanager
    def resting(self) -> Iterator[None]:
        """No transaction is open, and none begins."""
        with ExitStack() as stack:
            for thread in self._threads:
                stack.enter_context(thread.busy)
            yield

    @property
    def lives(self) -> bool:
        return all(thread.is_alive() for thread in self._threads)


Place = tuple[int, ...]


@dataclass(frozen=True)
class Judge:
    """What the server itself says of its transactions: by its log, and by its own snapshots."""

    ends: Mapping[int, Place]
    """The end of each transaction in the log, by its id. Others ended before."""
    snapshots: Mapping[Place, Done]
    """Sum of orders and number of items in snapshots of the server's own, by the place in the log of which each is."""
    all: frozenset[int]
    """All transactions of the ledger in the end."""

    def until(self, place: Place) -> set[int]:
        """The transactions that had ended there."""
        return {one for one in self.all if self.ends.get(one, ()) <= place}

    def same_as(self, place: Place) -> list[Done]:
        """The snapshots with no commit between them and this place."""
        mine = self.until(place)
        return [sums for other, sums in self.snapshots.items() if self.until(other) == mine]


def transactions_in(ledger: pa.Table) -> set[int]:
    return set(ledger["xid"].to_pylist())


def sums_of(tables: Mapping[str, pa.Table]) -> Done:
    """Of orders and of items."""
    return sum(tables["orders"]["amount"].to_pylist(), Decimal(0)), tables["items"].num_rows


def check_books(tables: Mapping[str, pa.Table]) -> None:
    """No foreign key points nowhere, and the ledger has the sums."""
    customers, orders = set(tables["customers"]["id"].to_pylist()), set(tables["orders"]["id"].to_pylist())
    assert set(tables["orders"]["customer"].to_pylist()) <= customers
    assert set(tables["items"]["orderid"].to_pylist()) <= orders
    ledger = tables["ledger"]
    said = sum(ledger["orders"].to_pylist(), Decimal(0)), sum(ledger["items"].to_pylist())
    assert sums_of(tables) == said
