"""Connections that change a MariaDB's tables side by side, and their columns too, until they are told to stop."""

from __future__ import annotations

import random
from typing import Any

import pymysql

from tests.cdc.writers import SqlWriters
from tests.mariadb_server import MariaDBServer

TABLES = ("orders", "lines", "codes", "visits")
SCHEMA = (
    "CREATE TABLE orders (id INT PRIMARY KEY, version INT NOT NULL, customer VARCHAR(60), amount DECIMAL(12,2), note TEXT, changed DATETIME(6))",
    "CREATE TABLE `lines` (order_id INT, line INT, article VARCHAR(60), picture BLOB, PRIMARY KEY (order_id, line))",
    "CREATE TABLE codes (code VARCHAR(40) PRIMARY KEY, meaning VARCHAR(60), weight DOUBLE, `long` MEDIUMTEXT)",
    "CREATE TABLE visits (id BIGINT AUTO_INCREMENT PRIMARY KEY, seen VARCHAR(60))",
)
ROWS = 300
"""Of each table at the beginning."""
_NUMBERS = f"WITH RECURSIVE numbers (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM numbers WHERE seq < {ROWS}) SELECT"
LOAD = (
    f"INSERT INTO orders {_NUMBERS} seq, 0, concat('customer ', seq), seq / 7, repeat('x', 100), NOW(6) FROM numbers",
    f"INSERT INTO `lines` {_NUMBERS} seq DIV 3, seq MOD 3, concat('article ', seq), unhex(sha2(seq, 256)) FROM numbers",
    f"INSERT INTO codes {_NUMBERS} concat('k', seq), 'first', seq / 3, repeat('y', 200) FROM numbers",
    f"INSERT INTO visits (seen) {_NUMBERS} seq FROM numbers",
)
_KEYS = 2 * ROWS
_PAUSE_S = 0.02
STEPS: tuple[tuple[str, float], ...] = (
    ("INSERT IGNORE INTO orders VALUES (%(k)s, 0, %(t)s, %(n)s / 100, NULL, NOW(6))", 6),
    ("UPDATE orders SET version = version + 1, amount = amount + 1, changed = NOW(6) WHERE id BETWEEN %(k)s AND %(k)s + 8", 6),
    ("UPDATE orders SET version = version + 1, note = %(long)s WHERE id = %(k)s", 3),
    ("DELETE FROM orders WHERE id = %(k)s", 3),
    ("INSERT IGNORE INTO `lines` VALUES (%(k)s DIV 3, %(n)s MOD 5, %(t)s, unhex(sha2(%(t)s, 256)))", 5),
    ("UPDATE `lines` SET article = %(t)s WHERE order_id = %(k)s DIV 3", 4),
    ("UPDATE IGNORE `lines` SET order_id = -order_id WHERE order_id = %(k)s DIV 3 AND line = 1", 3),
    ("DELETE FROM `lines` WHERE order_id = %(k)s DIV 3 AND line = 2", 2),
    ("INSERT INTO codes VALUES (concat('k', %(k)s), %(t)s, RAND(), %(long)s) ON DUPLICATE KEY UPDATE meaning = %(t)s", 4),
    ("UPDATE codes SET weight = 1e300 * RAND() WHERE code = concat('k', %(k)s)", 3),
    ("UPDATE IGNORE codes SET code = concat(code, 'ü') WHERE code = concat('k', %(k)s) AND char_length(code) < 6", 2),
    ("DELETE FROM codes WHERE code = concat('k', %(k)s)", 2),
    ("INSERT INTO visits (seen) VALUES (%(t)s)", 4),
    (
        "DELETE FROM visits WHERE id MOD 7 = %(n)s MOD 7 AND id > (SELECT m FROM (SELECT MAX(id) - 20 AS m FROM visits) AS newest)",
        1,
    ),
    ("TRUNCATE visits", 0.5),
    ("ALTER TABLE orders ADD COLUMN extra%(few)s INT", 0.3),
    ("ALTER TABLE orders ALTER COLUMN customer SET DEFAULT %(t)s", 0.2),
    ("CREATE TABLE IF NOT EXISTS later%(few)s (id INT PRIMARY KEY, said VARCHAR(60))", 0.3),
    ("RENAME TABLE later0 TO spare, later1 TO later0, spare TO later1", 0.5),
    ("INSERT IGNORE INTO later%(few)s VALUES (%(k)s, %(t)s)", 2),
)


class BinlogWriters(SqlWriters):
    """Writers of the tables above, with savepoints."""

    steps, keys, pause_s = STEPS, _KEYS, _PAUSE_S
    refusals = (pymysql.MySQLError,)

    def __init__(self, server: MariaDBServer, *, count: int, seed: int) -> None:
        super().__init__(count=count, seed=seed)
        self._server = server

    def connect(self) -> Any:
        return self._server.connect(database="shop", connect_timeout=5)

    def is_open(self, connection: Any) -> bool:
        return bool(connection.open)

    def transaction(self, connection: Any, chance: random.Random) -> bool:
        connection.begin()
        with connection.cursor() as cursor:
            for _ in range(chance.choice((1, 1, 2, 5))):
                self.step(cursor, chance)
                if chance.random() < 0.1:
                    cursor.execute("SAVEPOINT here")
                    self.step(cursor, chance)
                    cursor.execute("ROLLBACK TO SAVEPOINT here")
        if chance.random() < 0.05:
            connection.rollback()
            return False
        connection.commit()
        return True
