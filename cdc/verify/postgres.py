"""Tables of a PostgreSQL, all as of one moment, with values as a capture would write them."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from ...log.errors import InvalidArgument
from ..postgres.catalog import Catalog
from ..postgres.errors import load_psycopg, translated
from .dumps import csv_batches

if TYPE_CHECKING:
    import pyarrow as pa
    from psycopg import Connection, Copy
    from psycopg.sql import Composed

_COLUMNS = """
    SELECT n.nspname, c.relname, a.attname, t.typname, t.typcategory, coalesce(a.attnum = ANY (i.indkey), false)
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
    ORDER BY n.nspname, c.relname, a.attnum
"""
_ISO = "regexp_replace({0}::text, '^([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}) (?!.*BC$)', '\\1T')"
"""Infinity, years before Christ and years of more digits stay as PostgreSQL writes them."""
_SPELT = {
    "bytea": "translate(encode({0}, 'base64'), E'\\n', '')",
    "timestamptz": f"regexp_replace({_ISO}, '[+]00$', 'Z')",
    "timestamp": _ISO,
}
"""How values are selected that a capture writes differently from PostgreSQL."""


@dataclass(frozen=True)
class PostgresRows:
    """One table."""

    schema: str
    table: str
    types: Mapping[str, str]
    """The SQL by column that selects it."""
    key: tuple[str, ...]
    """The primary key."""
    connection: Connection[Any]
    where: str

    @property
    def name(self) -> str:
        """The table's name without its schema."""
        return self.table

    def columns(self) -> Sequence[str]:
        return list(self.types)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, as text. Raises `SourceUnavailable`, `PermissionDenied`."""
        names = [name for name in self.types if columns is None or name in columns]
        with translated("compare", self.where), self.connection.cursor().copy(self._query(names)) as copy:
            file = cast("BinaryIO", io.BufferedReader(_CopiedBytes(copy)))
            yield from csv_batches(file, f"{self.schema}.{self.table}", names)

    def _query(self, names: Sequence[str]) -> Composed:
        sql = load_psycopg().sql
        selected = [sql.SQL(self.types[name] + " AS {0}").format(sql.Identifier(name)) for name in names]
        query: Composed = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT (FORMAT csv, HEADER)").format(
            sql.SQL(", ").join(selected), sql.Identifier(self.schema, self.table)
        )
        return query


@contextmanager
def open_tables(dsn: str, tables: Sequence[str] = ()) -> Iterator[list[PostgresRows]]:
    """The tables of a database, or those named ``table`` or ``schema.table``, all as of one moment as long as the block runs.

    Raises `InvalidArgument` when one is not there, `SourceUnavailable`, `PermissionDenied`, `MissingDependency` without psycopg.
    """
    catalog = Catalog(dsn)
    psycopg = load_psycopg()
    with catalog.connect() as connection:
        connection.autocommit = False
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        with translated("compare", catalog.where):
            found = connection.execute(_COLUMNS).fetchall()
        by_table: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
        for schema, table, *column in found:
            by_table.setdefault((schema, table), []).append(tuple(column))
        wanted = {one: columns for one, columns in by_table.items() if not tables or one[1] in tables or ".".join(one) in tables}
        lacking = [name for name in tables if not any(name in (table, f"{schema}.{table}") for schema, table in wanted)]
        if lacking or not wanted:
            raise InvalidArgument(
                "there is no such table", operation="compare", object=catalog.where, expected=", ".join(lacking) or "a table"
            )
        yield [
            PostgresRows(
                schema,
                table,
                {name: _selected(kind, category) for name, kind, category, _ in columns},
                tuple(name for name, _, _, in_key in columns if in_key),
                connection,
                catalog.where,
            )
            for (schema, table), columns in wanted.items()
        ]


def _selected(kind: str, category: str) -> str:
    return "array_to_json({0})::text" if category == "A" else _SPELT.get(kind, "{0}")


class _CopiedBytes(io.RawIOBase):
    """The bytes that a COPY sends, as a file."""

    def __init__(self, copy: Copy) -> None:
        self._copy = copy
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - anything to write to
        if not self._rest:
            self._rest = memoryview(bytes(self._copy.read()))
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count
