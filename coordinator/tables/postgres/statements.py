"""The SQL of a table of cells in PostgreSQL.

A write is one statement, and so a transaction of its own: no process that stands still, or is gone, leaves a lock behind. Its version is compared
again under the row's lock. Every answer tells in ``standby`` whether a server in recovery gave it, whose cells may be old.
"""

from __future__ import annotations

from collections.abc import Sequence

from .place import InPostgres

CHECK = """
SELECT pg_catalog.pg_is_in_recovery() AS standby,
    pg_catalog.current_setting('fsync') = 'on' AND pg_catalog.current_setting('full_page_writes') = 'on' AS durable
"""
_DURABLY = """pg_catalog.pg_is_in_recovery() AS standby,
    CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off'
        THEN pg_catalog.set_config('synchronous_commit', 'on', true) END AS durably"""
"""This transaction waits for the disk, whatever the server's, the role's or a pooled session's setting is. Standbys are waited for as set."""
_LAST = "\U0010ffff"
"""The last character, which no key has."""
_GET = """
SELECT pg_catalog.pg_is_in_recovery() AS standby, found.key, found.version, found.data
FROM (VALUES (1)) AS one LEFT JOIN %cells AS found ON found.key = ANY ($1::text[])
"""
_KEYS = """
SELECT pg_catalog.pg_is_in_recovery() AS standby, found.key
FROM (VALUES (1)) AS one LEFT JOIN %cells AS found ON found.key >= $1::text AND found.key < $2::text
ORDER BY found.key
"""
_READ_ALL = """
SELECT pg_catalog.pg_is_in_recovery() AS standby, found.key, found.version, found.data
FROM unnest($1::text[], $2::text[]) AS asked (first, last)
LEFT JOIN %cells AS found ON found.key >= asked.first AND found.key < asked.last
"""
_UPDATE = """
UPDATE %cells AS cells SET version = $2::bigint, data = $3::bytea WHERE cells.key = $1::text AND cells.version = $4::bigint
RETURNING cells.key, %durably
"""
_INSERT = """
INSERT INTO %cells AS cells (key, version, data) VALUES ($1::text, $2::bigint, $3::bytea) ON CONFLICT (key) DO NOTHING
RETURNING cells.key, %durably
"""
_PUT_ALL = """
WITH wanted AS (
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::bigint[]) AS wanted (key, version, data, expected)
), locked AS (
    SELECT cells.key FROM %cells AS cells JOIN wanted ON wanted.key = cells.key AND wanted.expected = cells.version
    ORDER BY cells.key FOR UPDATE OF cells
), updated AS (
    UPDATE %cells AS cells SET version = wanted.version, data = wanted.data
    FROM locked JOIN wanted ON wanted.key = locked.key
    WHERE cells.key = locked.key AND cells.version = wanted.expected
    RETURNING cells.key
), inserted AS (
    INSERT INTO %cells AS cells (key, version, data)
    SELECT wanted.key, wanted.version, wanted.data FROM wanted WHERE wanted.expected IS NULL ORDER BY wanted.key
    ON CONFLICT (key) DO NOTHING
    RETURNING cells.key
)
SELECT changed.key, %durably FROM (SELECT key FROM updated UNION ALL SELECT key FROM inserted) AS changed
"""
"""Rows are locked in the order of their keys, so that two processes that write the same cells wait for each other in one direction."""
_DELETE = """
DELETE FROM %cells AS cells WHERE cells.key = $1::text AND cells.version = $2::bigint RETURNING cells.key, %durably
"""
_CREATE_TABLE = (
    'CREATE TABLE IF NOT EXISTS %cells (key text COLLATE "C" NOT NULL PRIMARY KEY, version bigint NOT NULL, data bytea NOT NULL) '
    "WITH (fillfactor = 50)"
)


class CellStatements:
    """The statements for one table."""

    def __init__(self, place: InPostgres) -> None:
        self._schema = place.schema
        self.get, self.keys, self.read_all, self.update, self.insert, self.put_all, self.delete, self.create_table = (
            template.replace("%cells", place.quoted).replace("%durably", _DURABLY)
            for template in (_GET, _KEYS, _READ_ALL, _UPDATE, _INSERT, _PUT_ALL, _DELETE, _CREATE_TABLE)
        )

    @property
    def by_hand(self) -> list[str]:
        """The statements that make the table."""
        return [f'CREATE SCHEMA IF NOT EXISTS "{self._schema}";', f"{self.create_table};"]


def key_ranges(prefixes: Sequence[str]) -> tuple[list[str], list[str]]:
    """The first key with each prefix, and the first one behind."""
    return list(prefixes), [prefix + _LAST for prefix in prefixes]
