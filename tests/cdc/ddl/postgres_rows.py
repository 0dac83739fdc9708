"""The tables of a PostgreSQL at the beginning, and what is done to rows. Of all statements `k` is one of the keys of a session."""

from __future__ import annotations

START = """
CREATE SCHEMA other;
CREATE TABLE plain (id int PRIMARY KEY, a text, n bigint, big text);
ALTER TABLE plain ALTER big SET STORAGE EXTERNAL;
CREATE TABLE whole (id int PRIMARY KEY, a text, n bigint, big text);
ALTER TABLE whole ALTER big SET STORAGE EXTERNAL;
ALTER TABLE whole REPLICA IDENTITY FULL;
CREATE TABLE pair (k text, l int, a text, n bigint, PRIMARY KEY (k, l));
CREATE TABLE indexed (code text NOT NULL, a text, n bigint);
CREATE UNIQUE INDEX indexed_code ON indexed (code);
ALTER TABLE indexed REPLICA IDENTITY USING INDEX indexed_code;
CREATE TABLE parts (id int PRIMARY KEY, a text, n bigint, big text) PARTITION BY RANGE (id);
CREATE TABLE parts_low PARTITION OF parts FOR VALUES FROM (MINVALUE) TO (40) PARTITION BY RANGE (id);
CREATE TABLE parts_lowest PARTITION OF parts_low FOR VALUES FROM (MINVALUE) TO (20);
CREATE TABLE parts_lower PARTITION OF parts_low FOR VALUES FROM (20) TO (40);
CREATE TABLE parts_mid PARTITION OF parts FOR VALUES FROM (40) TO (80);
CREATE TABLE parts_high PARTITION OF parts FOR VALUES FROM (80) TO (MAXVALUE);
CREATE TABLE parent (id int PRIMARY KEY, a text, n bigint);
CREATE TABLE child (extra int, PRIMARY KEY (id)) INHERITS (parent);
CREATE TABLE other.away (id int PRIMARY KEY, a text, n bigint);
CREATE TYPE mood AS ENUM ('low', 'high');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TABLE typed (id int PRIMARY KEY, a text, n bigint, mood mood, much positive);
CREATE TABLE owner (id int PRIMARY KEY, a text, n bigint);
CREATE TABLE referrer (
    id int PRIMARY KEY, a text, n bigint, owner int REFERENCES owner ON UPDATE CASCADE ON DELETE CASCADE
);
INSERT INTO typed SELECT g, 't', g, 'high', g FROM generate_series(1, 20) g;
INSERT INTO owner SELECT g, 'owner', g FROM generate_series(1, 30) g;
INSERT INTO referrer SELECT g, 'refers', g, g / 2 FROM generate_series(2, 60) g;
INSERT INTO plain SELECT g, 'p' || g, g, repeat(md5(g::text), 90) FROM generate_series(1, 30) g;
INSERT INTO whole SELECT g, 'w' || g, g, repeat(md5(g::text), 90) FROM generate_series(1, 30) g;
INSERT INTO pair SELECT 'k' || g / 3, g % 3, 'x', g FROM generate_series(1, 30) g;
INSERT INTO indexed SELECT 'c' || g, 'i', g FROM generate_series(1, 30) g;
INSERT INTO parts SELECT g * 4, 'q' || g, g, repeat(md5(g::text), 90) FROM generate_series(1, 30) g;
INSERT INTO parent SELECT g, 'parent', g FROM generate_series(1, 20) g;
INSERT INTO child SELECT g, 'child', g, g FROM generate_series(11, 30) g;
INSERT INTO other.away SELECT g, 'a', g FROM generate_series(1, 20) g;
"""

ROWS_OF: dict[str, list[str]] = {
    "id": [
        "INSERT INTO {t} (id, a, n) VALUES (%(k)s, %(s)s, %(n)s) ON CONFLICT (id) DO UPDATE SET a = %(s)s",
        "UPDATE {t} SET n = n + 1 WHERE id BETWEEN %(k)s AND %(k)s + 5",
        "UPDATE {t} SET a = %(s)s WHERE id = %(k)s",
        "UPDATE {t} SET id = id + 500 WHERE id = %(k)s AND NOT EXISTS (SELECT FROM {t} o WHERE o.id = %(k)s + 500)",
        "UPDATE {t} SET id = id - 500 WHERE id > 500 AND NOT EXISTS (SELECT FROM {t} o WHERE o.id < 500)",
        "DELETE FROM {t} WHERE id = %(k)s OR id = %(k)s + 500",
    ],
    "k": [
        "INSERT INTO {t} (k, l, a, n) VALUES ('k' || %(k)s / 4, %(k)s %% 4, %(s)s, %(n)s) ON CONFLICT DO NOTHING",
        "UPDATE {t} SET n = n + 1, a = %(s)s WHERE k = 'k' || %(k)s / 4",
        "UPDATE {t} SET l = l + 10 WHERE k = 'k' || %(k)s / 4 AND l < 10",
        "DELETE FROM {t} WHERE k = 'k' || %(k)s / 4 AND l >= 10",
    ],
    "code": [
        "INSERT INTO {t} (code, a, n) VALUES ('c' || %(k)s, %(s)s, %(n)s) ON CONFLICT DO NOTHING",
        "UPDATE {t} SET code = code || '!', n = n + 1 WHERE code = 'c' || %(k)s",
        "UPDATE {t} SET a = NULL WHERE code = 'c' || %(k)s",
        "DELETE FROM {t} WHERE code LIKE 'c' || %(k)s || '%%'",
    ],
}
LARGE = "UPDATE {t} SET big = repeat(md5(%(s)s), 90) WHERE id = %(k)s"
"""Of a table with large values."""
WIDE = [
    "DELETE FROM {t} WHERE id %% 37 = %(k)s %% 37 AND id < 10000",
    "UPDATE {t} SET n = n + 1 WHERE id %% 11 = %(k)s %% 11 AND id < 10000",
]
"""On rows of many keys, but for those of transactions that stay open."""
LARGE_WIDE = "UPDATE {t} SET n = n + 1 WHERE big IS NOT NULL AND id %% 5 = %(k)s %% 5 AND id < 10000"
