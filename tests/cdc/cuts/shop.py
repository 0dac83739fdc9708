"""A shop whose transactions touch several tables, and what must be true of it between any two of them."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa

from penstock.cdc.postgres.pgoutput import Begin, Commit, decode
from penstock.cdc.postgres.positions import lsn_of

TABLES = ("customers", "ledger", "lines", "orders")
SCHEMA = """
CREATE TABLE customers (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE orders (id int PRIMARY KEY, customer int NOT NULL REFERENCES customers, amount numeric(12,2) NOT NULL, note text);
CREATE TABLE lines (orderid int REFERENCES orders ON DELETE CASCADE, line int, article text, amount numeric(12,2), PRIMARY KEY (orderid, line));
CREATE TABLE ledger (xid bigint PRIMARY KEY, orders numeric(12,2) NOT NULL, lines int NOT NULL);
ALTER TABLE orders ALTER note SET STORAGE EXTERNAL;
INSERT INTO customers SELECT g, 'c' || g FROM generate_series(1, 20) g;
INSERT INTO orders SELECT g, 1 + g % 20, g, repeat(md5(g::text), 80) FROM generate_series(1, 200) g;
INSERT INTO lines SELECT g, 1, 'a' || g, g FROM generate_series(1, 200) g;
INSERT INTO ledger SELECT 0, (SELECT sum(amount) FROM orders), (SELECT count(*) FROM lines);
"""
PAUSE_LOCK = 7
LARGE_ROWS = 150
"""Of a transaction that spans several batches of a capture's worker."""
_KEYS = 400
_TAKE = "SELECT pg_advisory_xact_lock_shared(%s)"
_STEPS = (
    ("new", 8),
    ("pay", 8),
    ("cancel", 3),
    ("move", 2),
    ("line", 5),
    ("customer", 2),
    ("large", 0.4),
)


class Shoppers:
    """Threads whose transactions keep the shop's books: each says in the ledger what it does to the sums."""

    def __init__(self, dsn: str, *, count: int, seed: int, pause_s: float = 0.25) -> None:
        self._dsn, self._stop, self._pause_s = dsn, threading.Event(), pause_s
        self._threads = [threading.Thread(target=self._shop, args=(random.Random(seed + one),)) for one in range(count)]

    @contextmanager
    def shopping(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join()

    def _shop(self, chance: random.Random) -> None:
        with psycopg.connect(self._dsn) as connection:
            while not self._stop.wait(self._pause_s):
                try:
                    with connection.transaction():
                        self._transaction(connection, chance)
                except psycopg.errors.DatabaseError:  # a deadlock, or a key that another has taken: it is rolled back
                    connection.rollback()

    def _transaction(self, connection: psycopg.Connection[Any], chance: random.Random) -> None:
        connection.execute(_TAKE, (PAUSE_LOCK,))
        connection.execute("CREATE TEMP TABLE IF NOT EXISTS done (amount numeric, lines int) ON COMMIT DELETE ROWS")
        for _ in range(chance.choice((1, 2, 4))):
            [step] = chance.choices([name for name, _ in _STEPS], [weight for _, weight in _STEPS])
            self._step(connection, step, chance)
        done = "coalesce(sum(amount), 0), coalesce(sum(lines), 0)"
        connection.execute(f"INSERT INTO ledger SELECT pg_current_xact_id()::text::bigint, {done} FROM done".encode())
        if chance.random() < 0.05:
            raise psycopg.Rollback

    def _step(self, connection: psycopg.Connection[Any], step: str, chance: random.Random) -> None:
        key, amount = chance.randrange(1, _KEYS), Decimal(chance.randrange(1, 10_000)) / 100
        match step:
            case "new":
                self._new(connection, key, amount, chance)
            case "pay":
                self._note(
                    connection, "WITH u AS (UPDATE orders SET amount = amount + %s WHERE id BETWEEN %s AND %s RETURNING %s::numeric d)"
                    " INSERT INTO done SELECT d, 0 FROM u", (amount, key, key + 2, amount),
                )  # fmt: skip
            case "cancel":
                self._note(connection, "INSERT INTO done SELECT 0, -count(*) FROM lines WHERE orderid = %s", (key,))
                self._note(
                    connection,
                    "WITH d AS (DELETE FROM orders WHERE id = %s RETURNING amount) INSERT INTO done SELECT -amount, 0 FROM d",
                    (key,),
                )
            case "move":
                connection.execute("UPDATE lines SET line = line + 100 WHERE orderid = %s AND line < 100", (key,))
            case "line":
                self._note(
                    connection, "WITH i AS (INSERT INTO lines SELECT id, %s, 'x', %s FROM orders WHERE id = %s FOR UPDATE ON CONFLICT DO NOTHING"
                    " RETURNING 1) INSERT INTO done SELECT 0, count(*) FROM i", (chance.randrange(2, 9), amount, key),
                )  # fmt: skip
            case "customer":
                connection.execute(
                    "INSERT INTO customers VALUES (%s, 'n') ON CONFLICT (id) DO UPDATE SET name = customers.name || 'x'", (key,)
                )
            case "large":
                self._note(
                    connection, "WITH u AS (UPDATE orders SET amount = amount + 1 WHERE id <= %s RETURNING 1)"
                    " INSERT INTO done SELECT count(*), 0 FROM u", (LARGE_ROWS,),
                )  # fmt: skip

    def _new(self, connection: psycopg.Connection[Any], key: int, amount: Decimal, chance: random.Random) -> None:
        customer = chance.randrange(1, _KEYS)
        connection.execute("INSERT INTO customers VALUES (%s, 'new') ON CONFLICT DO NOTHING", (customer,))
        self._note(
            connection, "WITH i AS (INSERT INTO orders VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING RETURNING id, amount))"
            " INSERT INTO done SELECT amount, 0 FROM i", (key, customer, amount, "n" * 3000),
        )  # fmt: skip
        self._note(
            connection, "WITH i AS (INSERT INTO lines SELECT id, g, 'y', amount FROM orders, generate_series(10, 11) g WHERE id = %s"
            " ON CONFLICT DO NOTHING RETURNING 1) INSERT INTO done SELECT 0, count(*) FROM i", (key,),
        )  # fmt: skip

    def _note(self, connection: psycopg.Connection[Any], statement: str, values: tuple[object, ...]) -> None:
        connection.execute(statement.encode(), values)


@dataclass(frozen=True)
class Judge:
    """What the server itself says of its transactions: over a slot of its own, and by its own snapshots."""

    ends: Mapping[int, int]
    """The end of each transaction in the log, by its id, since the slot was made."""
    snapshots: Mapping[int, tuple[Decimal, int]]
    """Sum of orders and number of lines in exported snapshots, by the place in the log of which each is."""
    all: frozenset[int]
    """All transactions of the ledger in the end."""

    def until(self, place: int) -> set[int]:
        """The transactions that had ended there."""
        return {xid for xid in self.all if self.ends.get(xid, 0) <= place}

    def same_as(self, place: int) -> list[tuple[Decimal, int]]:
        """The snapshots with no commit between them and this place."""
        mine = self.until(place)
        return [sums for lsn, sums in self.snapshots.items() if self.until(lsn) == mine]


def ends_of_transactions(dsn: str, slot: str) -> dict[int, int]:
    """By what the server tells this slot, without moving it on."""
    options = "'proto_version', '1', 'publication_names', 'penstock'"
    query = f"SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, {options})"
    ends, begin = dict[int, int](), Begin(0, 0, 0)
    with psycopg.connect(dsn, autocommit=True) as connection:
        for (data,) in connection.execute(query.encode(), (slot,), binary=True):
            match decode(data) if data[:1] in (b"B", b"C") else None:
                case Begin() as begin:
                    pass
                case Commit(_, end_lsn):
                    ends[begin.transaction] = end_lsn
    return ends


def exported_sums(dsn: str, name: str) -> tuple[int, tuple[Decimal, int]]:
    """A place in the log, and the sums of the snapshot that the server exports of it."""
    with psycopg.connect(dsn, autocommit=True, replication="database") as replication:
        made = replication.execute(f"CREATE_REPLICATION_SLOT {name} TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT".encode()).fetchone()
        assert made is not None
        with psycopg.connect(dsn) as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            connection.execute(f"SET TRANSACTION SNAPSHOT '{made[2]}'".encode())
            sums = connection.execute("SELECT (SELECT sum(amount) FROM orders), (SELECT count(*) FROM lines)").fetchone()
    assert sums is not None
    return lsn_of(made[1]), (sums[0], sums[1])


def transactions_in(ledger: pa.Table) -> set[int]:
    return set(ledger["xid"].to_pylist())


def sums_of(tables: Mapping[str, pa.Table]) -> tuple[Decimal, int]:
    """Of orders and of lines."""
    return sum(tables["orders"]["amount"].to_pylist(), Decimal(0)), tables["lines"].num_rows


def check_books(tables: Mapping[str, pa.Table]) -> None:
    """No foreign key points nowhere, and the ledger has the sums."""
    customers, orders = set(tables["customers"]["id"].to_pylist()), set(tables["orders"]["id"].to_pylist())
    assert set(tables["orders"]["customer"].to_pylist()) <= customers
    assert set(tables["lines"]["orderid"].to_pylist()) <= orders
    ledger = tables["ledger"]
    said = sum(ledger["orders"].to_pylist(), Decimal(0)), sum(ledger["lines"].to_pylist())
    assert sums_of(tables) == said
