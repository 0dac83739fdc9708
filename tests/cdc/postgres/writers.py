"""Connections that change tables side by side, with everything a row can go through, until they are told to stop."""

from __future__ import annotations

import random
from typing import Any

import psycopg

from tests.cdc.writers import SqlWriters

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


class PostgresWriters(SqlWriters):
    """Writers of the tables above, with savepoints."""

    steps, keys, pause_s = STEPS, _KEYS, _PAUSE_S
    refusals = (psycopg.OperationalError, psycopg.IntegrityError)

    def __init__(self, dsn: str, *, count: int, seed: int) -> None:
        super().__init__(count=count, seed=seed)
        self._dsn = dsn

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._dsn, connect_timeout=5)

    def is_open(self, connection: psycopg.Connection[Any]) -> bool:
        return not (connection.broken or connection.closed)

    def transaction(self, connection: psycopg.Connection[Any], chance: random.Random) -> bool:
        with connection.transaction():
            for _ in range(chance.choice((1, 1, 2, 5))):
                self.step(connection, chance)
                if chance.random() < 0.1:
                    with connection.transaction(force_rollback=True):  # a savepoint
                        self.step(connection, chance)
            if chance.random() < 0.05:
                raise psycopg.Rollback
            return True
        return False
