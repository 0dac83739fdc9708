"""The databases that a shop may be of: how it is made and captured, and what the server itself says of its transactions."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import psycopg

from penstock.cdc.debezium.positions import file_number
from penstock.cdc.postgres.pgoutput import Begin, Commit, decode
from penstock.cdc.postgres.positions import lsn_of
from tests.cdc.cuts.shop import CUSTOMERS, ORDERS, Done, Place
from tests.cdc.debezium.kill_source import SERVERS, BinlogSource
from tests.cdc.killing import Captured
from tests.mariadb_server import MariaDBServer
from tests.postgres_server import PostgresServer, postgres_server
from tests.waiting import wait_until

_SUMS = "SELECT (SELECT sum(amount) FROM orders), (SELECT count(*) FROM items)"


class Source(Captured, Protocol):
    """A server with a shop."""

    chunk_rows: int = 60
    name: str
    """The capture's producer, by which cuts tell its place."""
    points: tuple[str, ...]
    """Where it may."""
    begun: str
    """The point at which it dies first, before any row is in the topic."""

    def connect(self) -> Any:
        """A connection with a transaction at a time."""

    def id_of(self, cursor: Any, chance: random.Random) -> int:
        """The number of the transaction that is open."""

    def watch(self) -> None:
        """Keep the ends of transactions from now on; called when no capture runs."""

    def ends(self) -> dict[int, Place]:
        """The ends of transactions in the log, by their numbers."""

    def place_of(self, text: str) -> Place:
        """A place as cuts write it."""

    def snapshot(self, name: str) -> tuple[Place, Done]:
        """The sums in a snapshot of the server's own, and its place in the log."""


class Postgres(Source):
    """A PostgreSQL; its own slot says where transactions end."""

    name, begun = "postgres/penstock", "slot created"
    points: tuple[str, ...] = ("chunk sent", "chunk durable", "table done", "batch sent", "batch durable", "confirmed")
    _SCHEMA = f"""
    CREATE TABLE customers (id int PRIMARY KEY, name text NOT NULL);
    CREATE TABLE orders (id int PRIMARY KEY, customer int NOT NULL REFERENCES customers, amount numeric(12,2) NOT NULL, note text);
    CREATE TABLE items (orderid int REFERENCES orders, line int, article text, amount numeric(12,2), PRIMARY KEY (orderid, line));
    CREATE TABLE ledger (xid bigint PRIMARY KEY, orders numeric(12,2) NOT NULL, items int NOT NULL);
    ALTER TABLE orders ALTER note SET STORAGE EXTERNAL;
    INSERT INTO customers SELECT g, 'c' || g FROM generate_series(1, {CUSTOMERS}) g;
    INSERT INTO orders SELECT g, 1 + g % {CUSTOMERS}, g, repeat(md5(g::text), 80) FROM generate_series(1, {ORDERS}) g;
    INSERT INTO items SELECT g, 1, 'a' || g, g FROM generate_series(1, {ORDERS}) g;
    INSERT INTO ledger SELECT 0, (SELECT sum(amount) FROM orders), (SELECT count(*) FROM items);
    """

    def __init__(self, server: PostgresServer) -> None:
        self._dsn = server.dsn
        with self._autocommit() as connection:
            connection.execute(self._SCHEMA.encode())

    def _autocommit(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._dsn, autocommit=True)

    def command(self) -> Sequence[str]:
        return "postgres", self._dsn, "--heartbeat"

    def environment(self) -> Mapping[str, str]:
        return {}

    def connect(self) -> Any:
        return psycopg.connect(self._dsn)

    def id_of(self, cursor: Any, chance: random.Random) -> int:
        cursor.execute("SELECT pg_current_xact_id()::text::bigint")
        return int(cursor.fetchone()[0])

    def watch(self) -> None:
        with self._autocommit() as connection:
            active = "SELECT FROM pg_replication_slots WHERE active"
            wait_until(lambda: not connection.execute(active).fetchall(), "the slot is let go")
            connection.execute("SELECT pg_copy_logical_replication_slot('penstock', 'judge')")

    def ends(self) -> dict[int, Place]:
        """By what the server tells the slot, without moving it on."""
        options = "'proto_version', '1', 'publication_names', 'penstock'"
        query = f"SELECT data FROM pg_logical_slot_peek_binary_changes('judge', NULL, NULL, {options})"
        ends, begin = dict[int, Place](), Begin(0, 0, 0)
        with self._autocommit() as connection:
            for (data,) in connection.execute(query.encode(), binary=True):
                match decode(data) if data[:1] in (b"B", b"C") else None:
                    case Begin() as begin:
                        pass
                    case Commit(_, end_lsn):
                        ends[begin.transaction] = (end_lsn,)
        return ends

    def place_of(self, text: str) -> Place:
        return (lsn_of(text),)

    def snapshot(self, name: str) -> tuple[Place, Done]:
        with psycopg.connect(self._dsn, autocommit=True, replication="database") as replication:
            made = replication.execute(
                f"CREATE_REPLICATION_SLOT {name} TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT".encode()
            ).fetchone()
            assert made is not None
            with psycopg.connect(self._dsn) as connection:
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                connection.execute(f"SET TRANSACTION SNAPSHOT '{made[2]}'".encode())
                sums = connection.execute(_SUMS).fetchone()
        assert sums is not None
        return (lsn_of(made[1]),), (sums[0], sums[1])


class Binlog(Source):
    """A MariaDB or MySQL; its binlog says where transactions end, as it has their statements beside the rows."""

    name, begun = "debezium/penstock", "begun"
    points: tuple[str, ...] = ("chunk sent", "chunk durable", "table done", "batch sent", "batch durable", "place saved")
    _SCHEMA = (
        "CREATE TABLE customers (id INT PRIMARY KEY, name TEXT NOT NULL)",
        (
            "CREATE TABLE orders (id INT PRIMARY KEY, customer INT NOT NULL, amount DECIMAL(12,2) NOT NULL, note TEXT, "
            "FOREIGN KEY (customer) REFERENCES customers (id))"
        ),
        (
            "CREATE TABLE items (orderid INT, line INT, article TEXT, amount DECIMAL(12,2), PRIMARY KEY (orderid, line), "
            "FOREIGN KEY (orderid) REFERENCES orders (id))"
        ),
        "CREATE TABLE ledger (xid BIGINT PRIMARY KEY, orders DECIMAL(12,2) NOT NULL, items INT NOT NULL)",
        *(
            f"INSERT INTO {table} WITH RECURSIVE g (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM g WHERE n < {rows}) SELECT {columns} FROM g"
            for table, rows, columns in (
                ("customers", CUSTOMERS, "n, concat('c', n)"),
                ("orders", ORDERS, f"n, 1 + n % {CUSTOMERS}, n, repeat('x', 2000)"),
                ("items", ORDERS, "n, 1, concat('a', n), n"),
            )
        ),
        "INSERT INTO ledger SELECT 0, (SELECT sum(amount) FROM orders), (SELECT count(*) FROM items)",
    )
    _LEDGER = re.compile(r"INSERT INTO ledger VALUES \((\d+),")

    def __init__(self, server: MariaDBServer) -> None:
        self._server, self._binlog = server, BinlogSource(server)
        server.run("USE shop", *self._SCHEMA)

    def command(self) -> Sequence[str]:
        return *self._binlog.command(), "--heartbeat"

    def environment(self) -> Mapping[str, str]:
        return self._binlog.environment()

    def connect(self) -> Any:
        connection = self._server.connect(database="shop")
        connection.autocommit(False)
        return connection

    def id_of(self, cursor: Any, chance: random.Random) -> int:
        return chance.getrandbits(60)

    def watch(self) -> None:
        """The binlog has them all."""

    def ends(self) -> dict[int, Place]:
        ends, mine = dict[int, Place](), list[int]()
        for file, *_ in self._server.ask("SHOW BINARY LOGS"):
            for _, _, kind, _, end, info in self._server.ask(f"SHOW BINLOG EVENTS IN '{file}'"):
                if kind in ("Annotate_rows", "Rows_query"):
                    mine += map(int, self._LEDGER.findall(info))
                elif kind == "Xid" or info == "COMMIT":
                    ends |= dict.fromkeys(mine, (file_number(file), end))
                    mine.clear()
        return ends

    def place_of(self, text: str) -> Place:
        number, _, position = text.partition(":")
        return int(number), int(position)

    def snapshot(self, name: str) -> tuple[Place, Done]:
        """The writers rest, so the end of the log is the snapshot's place."""
        with self._server.connect(database="shop") as connection, connection.cursor() as cursor:
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            if self._server.kind == "mysql":
                cursor.execute("SHOW BINARY LOG STATUS")
                file, position, *_ = cursor.fetchone()
            else:
                cursor.execute("SHOW STATUS LIKE 'binlog_snapshot_%'")
                said = dict(cursor.fetchall())
                file, position = said["Binlog_snapshot_file"], int(said["Binlog_snapshot_position"])
            cursor.execute(_SUMS)
            orders, lines = cursor.fetchone()
        return (file_number(file), position), (orders, lines)


KINDS = ("postgres", "mariadb", "mysql")


@contextmanager
def source(kind: str) -> Iterator[Source]:
    """A server of one kind with a shop, until the block ends."""
    if kind == "postgres":
        with postgres_server() as server:
            yield Postgres(server)
        return
    told = {"binlog_rows_query_log_events": "ON"} if kind == "mysql" else {"binlog_annotate_row_events": "ON"}
    with SERVERS[kind](max_binlog_size="262144", **told) as binlog:
        yield Binlog(binlog)
