"""Connections that change tables side by side, with everything a row can go through, until they are told to stop."""

from __future__ import annotations

import random
import threading
from typing import Any

import psycopg

TABLES = ("public.orders", "public.lines", "sales.codes", "public.visits")
SCHEMA = """
CREATE SCHEMA sales;
CREATE TABLE orders (id int PRIMARY KEY, customer text, amount numeric, note text, changed timestamptz DEFAULT clock_timestamp());
ALTER TABLE orders ALTER note SET STORAGE EXTERNAL;
CREATE TABLE lines (order_id int, line int, article text, picture bytea, PRIMARY KEY (order_id, line));
ALTER TABLE lines ALTER picture SET STORAGE EXTERNAL;
CREATE TABLE sales.codes (code text PRIMARY KEY, meaning text, weight float8, long text);
ALTER TABLE sales.codes ALTER long SET STORAGE EXTERNAL;
ALTER TABLE sales.codes REPLICA IDENTITY FULL;
CREATE TABLE visits (id bigserial PRIMARY KEY, seen text[]);
"""
ROWS = 300
"""Of each table at the beginning."""
LOAD = f"""
INSERT INTO orders SELECT g, 'c' || g, g * 1.10, repeat(md5(g::text), 100) FROM generate_series(1, {ROWS}) g;
INSERT INTO lines SELECT g / 3, g % 3, 'a' || g, decode(repeat(md5(g::text), 100), 'hex') FROM generate_series(1, {ROWS}) g;
INSERT INTO sales.codes SELECT 'k' || g, 'm' || g, g / 7.0, repeat(md5(g::text), 100) FROM generate_series(1, {ROWS}) g;
INSERT INTO visits(seen) SELECT ARRAY['{{', g::text, NULL, 'a "b" c'] FROM generate_series(1, {ROWS}) g;
"""
_KEYS = 400
_PAUSE_S = 0.05

STEPS = (
    ("INSERT INTO orders VALUES (%(k)s, %(t)s, %(n)s::numeric / 100, %(long)s) ON CONFLICT (id) DO UPDATE SET customer = %(t)s", 6),
    ("UPDATE orders SET amount = amount + 0.01, changed = clock_timestamp() WHERE id BETWEEN %(k)s AND %(k)s + 3", 8),
    ("UPDATE orders SET note = %(long)s WHERE id = %(k)s", 3),
    ("UPDATE orders SET id = %(o)s WHERE id = %(k)s AND NOT EXISTS (SELECT FROM orders WHERE id = %(o)s)", 4),
    ("DELETE FROM orders WHERE id = %(k)s", 3),
    ("INSERT INTO lines VALUES (%(k)s / 3, %(n)s %% 5, %(t)s, decode(md5(%(t)s), 'hex')) ON CONFLICT DO NOTHING", 5),
    ("UPDATE lines SET article = %(t)s WHERE order_id = %(k)s / 3", 4),
    (("UPDATE lines SET order_id = -order_id WHERE order_id = %(k)s / 3 AND line = 1"
     " AND NOT EXISTS (SELECT FROM lines WHERE order_id = -(%(k)s / 3) AND line = 1)"), 2),
    ("DELETE FROM lines WHERE order_id = %(k)s / 3 AND line = 2", 2),
    ("INSERT INTO sales.codes VALUES ('k' || %(k)s, %(t)s, random(), %(long)s) ON CONFLICT (code) DO UPDATE SET meaning = %(t)s", 4),
    ("UPDATE sales.codes SET weight = 1e300 * random() WHERE code = 'k' || %(k)s", 3),
    (("UPDATE sales.codes SET code = code || 'ü' WHERE code = 'k' || %(k)s AND length(code) < 6"
     " AND NOT EXISTS (SELECT FROM sales.codes c WHERE c.code = 'k' || %(k)s || 'ü')"), 2),
    ("DELETE FROM sales.codes WHERE code = 'k' || %(k)s", 2),
    ("INSERT INTO visits(seen) VALUES (ARRAY[%(t)s, NULL])", 4),
    ("DELETE FROM visits WHERE id %% 7 = %(n)s %% 7 AND id > (SELECT max(id) - 20 FROM visits)", 1),
    ("TRUNCATE visits", 0.3),
)  # fmt: skip


class Writers:
    """Threads with a connection each. Whoever is refused, or cut off, tries something else."""

    def __init__(self, dsn: str, *, count: int, seed: int) -> None:
        self._dsn, self._stop = dsn, threading.Event()
        self.committed = 0
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._write, args=(random.Random(seed + number),)) for number in range(count)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _write(self, chance: random.Random) -> None:
        connection: psycopg.Connection[Any] | None = None
        while not self._stop.wait(_PAUSE_S):
            try:
                if connection is None or connection.broken or connection.closed:
                    connection = psycopg.connect(self._dsn, connect_timeout=5)
                self._transaction(connection, chance)
            except (psycopg.OperationalError, psycopg.IntegrityError):  # a restart, a deadlock, a key that another has taken
                if connection is not None and not connection.closed:
                    connection.close()
        if connection is not None:
            connection.close()

    def _transaction(self, connection: psycopg.Connection[Any], chance: random.Random) -> None:
        with connection.transaction():
            for _ in range(chance.choice((1, 1, 2, 5))):
                self._step(connection, chance)
                if chance.random() < 0.1:
                    with connection.transaction(force_rollback=True):  # a savepoint
                        self._step(connection, chance)
            if chance.random() < 0.05:
                raise psycopg.Rollback
        with self._lock:
            self.committed += 1

    def _step(self, connection: psycopg.Connection[Any], chance: random.Random) -> None:
        [statement] = chance.choices([step for step, _ in STEPS], [weight for _, weight in STEPS])
        values = {
            "k": chance.randrange(1, _KEYS),
            "o": chance.randrange(1, _KEYS),
            "n": chance.randrange(10**6),
            "t": f"t{chance.randrange(10**9)} 'ß'\n\t\\",
            "long": "".join(chance.choices("0123456789abcdef", k=3000)),
        }
        connection.execute(statement.encode(), values)
